"""The shapes that a picture of a state is made of, and the picture of a state.

A scene says what is shown, not how: `arena_envs.scenes.svg` draws it, and
`arena_envs.scenes.text` writes it. Shapes hold plain text; both renderers make it harmless.
"""

import importlib
from collections.abc import Callable, Iterable, Sequence
from string import ascii_lowercase
from typing import NamedTuple

from arena_envs import talk
from arena_envs.game import (
    CHANCE,
    TERMINAL,
    AnyGame,
    AnyState,
)
from arena_envs.hostile import break_markup

SEATS = tuple(f"seat{number}" for number in range(6))  # colors, repeated after six
MAX_ROUNDS, MAX_SAID = 12, 8  # latest rounds and utterances that are shown
TONES = (*SEATS, "red", "yellow", "green", "white", "blue", "dark", "light", "gone", "")


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


class Bubble(NamedTuple):
    """The words of a seat.

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
    """Utterances in order.

    Attributes:
        title: a line above the talk.
        said: the utterances.
    """

    title: str
    said: Sequence[Bubble]


Shape = Grid | Cards | Table | Track | Talk
Shapes = Sequence[Shape]


class Scene(NamedTuple):
    """A picture of a state.

    Attributes:
        title: whose turn it is, or how the game ended.
        shapes: what is shown, from the top.
    """

    title: str
    shapes: Sequence[Shape]


def scene_of(game: AnyGame, state: AnyState, viewer: int | None = None) -> Scene:
    """The picture of a state.

    Args:
        game: the rules; a game without a scene of its own gets what `observe` returns.
        state: any state of the game.
        viewer: a seat, which sees only what it may know; None for a viewer who sees all.

    Raises:
        ValueError: `viewer` is no seat of the game.
    """
    if viewer is not None and viewer not in range(game.num_players):
        raise ValueError(
            f"want a viewer from 0 to {game.num_players - 1} or None, got {viewer!r}"
        )
    spec = getattr(game, "scene", None)
    if spec is None:
        return observed(game, state, viewer)
    module, _, function = spec.partition(":")
    draw = getattr(importlib.import_module(module), function)
    picture: Scene | Shapes = draw(game, state, viewer)
    if isinstance(picture, Scene):
        return picture
    return Scene(turn_title(game, state, viewer), picture)


def observed(game: AnyGame, state: AnyState, viewer: int | None) -> Scene:
    """The scene of a game that has none of its own: the texts of its seats."""
    seats = range(game.num_players) if viewer is None else (viewer,)
    bubbles = [
        Bubble(None, game.observe(state, seat), audience=f"player_{seat}")
        for seat in seats
    ]
    return Scene(turn_title(game, state, viewer), (Talk("", bubbles),))


def turn_title(game: AnyGame, state: AnyState, viewer: int | None) -> str:
    """The seat to move, or the end of the game.

    Args:
        game: the rules.
        state: any state of the game.
        viewer: a seat, which sees its own return only where information is imperfect; or
            None.
    """
    player = game.current_player(state)
    if player == CHANCE:
        return "Chance draws."
    if player == TERMINAL:
        returns = enumerate(game.returns(state))
        ends = [
            f"player_{seat} {value:+.4g}"
            for seat, value in returns
            if viewer in (None, seat) or game.information == "perfect"
        ]
        return f"The game is over: {', '.join(ends)}."
    if game.simultaneous:
        return "All players choose."
    return f"player_{player} is to move."


def cut(squares: Sequence[Cell], columns: int) -> list[list[Cell]]:
    """The rows of a board whose squares are counted row by row."""
    return [list(squares[i : i + columns]) for i in range(0, len(squares), columns)]


def board_grid(
    squares: Sequence[Cell], columns: int, title: str = "", upwards: bool = False
) -> Grid:
    """A board with numbers of rows, from the first, and letters of columns.

    Args:
        squares: row by row, from the top.
        columns: their number.
        title: a line above the board.
        upwards: whether the squares are counted from the bottom instead.
    """
    rows, step = cut(squares, columns), -1 if upwards else 1
    numbers = [str(number) for number in range(1, len(rows) + 1)]
    return Grid(rows[::step], title, numbers[::step], ascii_lowercase[:columns])


def cells(*fields: str | Cell) -> list[Cell]:
    """A row of a table."""
    return [Cell(each) if isinstance(each, str) else each for each in fields]


def seat_cell(seat: int, text: str = "") -> Cell:
    """The name of a seat, or another text, in the color of the seat."""
    return Cell(text or f"player_{seat}", seat_tone(seat))


def seat_names(game: AnyGame) -> list[str]:
    """The names of all seats."""
    return [f"player_{seat}" for seat in range(game.num_players)]


def rounds_table(
    game: AnyGame, title: str, rounds: Sequence[Sequence[Cell]], sums: Iterable[str]
) -> Table:
    """The latest rounds with their numbers, and a last row of sums, the first of which is its name."""
    rows = [cells(str(number), *each) for number, each in enumerate(rounds, 1)]
    if len(rows) > MAX_ROUNDS:
        title += f"; the latest {MAX_ROUNDS} rounds"
    header = ("round", *seat_names(game))
    return Table(title, header, [*rows[-MAX_ROUNDS:], cells(*sums)])


def chosen_cells(
    choices: Sequence[str], num_players: int, viewer: int | None
) -> list[Cell]:
    """The choices of a running round; a seat sees its own only."""
    row = [Cell("?")] * num_players
    for seat, text in enumerate(choices):
        if viewer in (None, seat):
            row[seat] = seat_cell(seat, text)
    return row


def talk_of(
    utterances: Sequence[talk.Utterance],
    viewer: int | None,
    action_line: Callable[[int, talk.Utterance], str],
    speaker_of: Callable[[int], int] = lambda turn: turn % 2,
) -> list[Talk]:
    """The latest utterances as bubbles, with the words that the viewer hears; nothing before any.

    Args:
        utterances: utterances of which the viewer knows the moves.
        viewer: a seat, or None for a viewer who hears everything.
        action_line: what an utterance does in a turn, in words of the scene.
        speaker_of: who speaks in a turn.
    """
    words = []
    for turn, utterance in enumerate(utterances):
        is_heard = viewer is None or talk.is_heard(utterance, viewer)
        message = break_markup(utterance.message) if is_heard else ""
        audience = ", ".join(f"player_{seat}" for seat in utterance.audience)
        action = action_line(turn, utterance)
        words.append(Bubble(speaker_of(turn), message, action, audience))
    more = len(words) > MAX_SAID
    title = f"talk; the latest {MAX_SAID} of {len(words)}" if more else "talk"
    return [Talk(title, words[-MAX_SAID:])] if words else []
