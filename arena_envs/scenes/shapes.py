"""The shapes that a picture of a state is made of.

A scene says what is shown, not how: `arena_envs.scenes.svg` draws it, and
`arena_envs.scenes.text` writes it. Shapes hold plain text; both renderers make it harmless.
"""

from collections.abc import Sequence
from typing import NamedTuple

SEATS = tuple(
    f"seat{number}" for number in range(6)
)  # colors of seats, repeated after six
TONES = (
    *SEATS,
    "red",
    "yellow",
    "green",
    "white",
    "blue",
    "dark",
    "light",
    "gone",
    "",
)


def seat_tone(seat: int) -> str:
    """The color of a seat.

    >>> seat_tone(1), seat_tone(7)
    ('seat1', 'seat1')
    """
    return SEATS[seat % len(SEATS)]


class Cell(NamedTuple):
    """A square of a grid, a field of a table or an item of a track.

    Attributes:
        text: what stands in it.
        tone: its color, one of `TONES`; empty for none.
        disc: in a grid, whether the tone colors a disc in the square instead of the square.
        mark: whether it is pointed out.
    """

    text: str = ""
    tone: str = ""
    disc: bool = False
    mark: bool = False


class Grid(NamedTuple):
    """A board of squares.

    Attributes:
        rows: the squares, row by row from the top.
        title: a line above the board.
        left: a label for each row, or none.
        top: a label for each column, or none.
        shift: by how many squares each row lies right of the row above.
        checkered: whether squares are light and dark in turn.
        narrow: whether every second row and column, from the first on, is narrow: dots and
            lines between boxes.
    """

    rows: Sequence[Sequence[Cell]]
    title: str = ""
    left: Sequence[str] = ()
    top: Sequence[str] = ()
    shift: float = 0.0
    checkered: bool = False
    narrow: bool = False


class Card(NamedTuple):
    """A card, a die or a tile.

    Attributes:
        text: its face; None where the viewer does not see it.
        tone: its color, one of `TONES`.
        note: small lines below it, such as hints.
    """

    text: str | None
    tone: str = ""
    note: str = ""


class Cards(NamedTuple):
    """Cards in a row.

    Attributes:
        title: a line above the cards.
        cards: the cards, in order.
        seat: whose cards they are; None if they are nobody's.
    """

    title: str
    cards: Sequence[Card]
    seat: int | None = None


class Table(NamedTuple):
    """A table of texts.

    Attributes:
        title: a line above the table.
        header: the names of the columns, or none.
        rows: the fields, row by row.
    """

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]


class Track(NamedTuple):
    """Items in order, such as actions, tokens or chips.

    Attributes:
        title: a line above the items.
        items: the items; drawn in several lines where they are many.
    """

    title: str
    items: Sequence[Cell]


class Utterance(NamedTuple):
    """What a seat said.

    Attributes:
        seat: who said it; None for the referee.
        words: free words, which may be long.
        action: what was done with it, such as "offer 40".
        audience: who heard it; empty if everybody did.
    """

    seat: int | None
    words: str
    action: str = ""
    audience: str = ""


class Talk(NamedTuple):
    """What was said, in order.

    Attributes:
        title: a line above the talk.
        said: the utterances.
    """

    title: str
    said: Sequence[Utterance]


Shape = Grid | Cards | Table | Track | Talk


class Scene(NamedTuple):
    """A picture of a state.

    Attributes:
        title: whose turn it is, or how the game ended.
        shapes: what is shown, from the top.
    """

    title: str
    shapes: Sequence[Shape]
