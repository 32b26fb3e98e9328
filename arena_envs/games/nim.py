"""Nim: take objects from piles; by default the player who takes the last one loses.

| Property    | Value                                                                  |
|-------------|------------------------------------------------------------------------|
| Create      | `arena_envs.make("nim-v0", pile_sizes=(1, 3, 5, 7), is_misere=True)`   |
| Agents      | `player_0` starts, `player_1` follows                                  |
| Kind        | competitive, perfect information, zero-sum                             |
| Actions     | `Discrete(28)`: "take 1 from pile 1"; piles x largest pile in general  |
| Rewards     | at the end: 1 to the winner, -1 to the loser                           |
| Length      | 4 to 16 turns; 7.709524 on average in random play                      |
| Known value | `player_1` wins; in random play each wins exactly half of the games    |
| Source      | C. L. Bouton, *Nim, a Game with a Complete Mathematical Theory* (1901) |

In turn, the players take one or more objects from one pile. The player who takes the last
object of all loses, or wins if `is_misere` is False. There are one to ten piles of one to 100
objects.

Write the sizes of the piles in binary: without `is_misere`, the seat to move loses against
best play if and only if every digit is 1 in an even number of piles (the exclusive or of the
sizes is 0). With `is_misere` the same is true as long as a pile has two objects or more;
afterwards the seat to move loses if and only if an odd number of piles is left.

Action `(n - 1) * num_piles + i` takes n objects from the pile with index i, as in OpenSpiel,
whose highest action is never legal and missing here (for the default piles OpenSpiel has 29).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from arena_envs.game import (
    TERMINAL,
    IllegalAction,
    Vector,
    check_int,
    filled,
    fold,
    np,
)
from arena_envs.games.kits.board import TwoPlayerGame, turn_text
from arena_envs.scenes.shapes import Cell, Shapes, Track

MAX_PILES, MAX_SIZE = 10, 100
SPELLINGS = (
    re.compile(
        r"(?:take|remove) (?P<take>[0-9]{1,3}) from (?:pile )?(?P<pile>[0-9]{1,2})"
    ),
    re.compile(r"pile ?:? ?(?P<pile>[0-9]{1,2})[,;]? take ?:? ?(?P<take>[0-9]{1,3});?"),
)


class State(NamedTuple):
    """Objects left in each pile, and the seat to move (at the end: that would move)."""

    piles: tuple[int, ...]
    seat: int = 0


@dataclass(frozen=True)
class Nim(TwoPlayerGame[State]):
    """Nim.

    Args:
        pile_sizes: objects of each pile at the start, 1 to 100; one to ten piles.
        is_misere: whether taking the last object loses; else it wins.

    Raises:
        ValueError: a parameter out of range.
    """

    pile_sizes: tuple[int, ...] = (1, 3, 5, 7)
    is_misere: bool = True

    default_value = "player_1 wins"

    def __post_init__(self) -> None:
        super().__post_init__()
        sizes = self.pile_sizes
        if not isinstance(sizes, tuple) or not 1 <= len(sizes) <= MAX_PILES:
            raise ValueError(
                f"want pile_sizes as a tuple of 1 to {MAX_PILES} integers, got {sizes!r}"
            )
        for index, size in enumerate(sizes):
            check_int(f"pile_sizes[{index}]", size, 1, MAX_SIZE)

    @property
    def num_actions(self) -> int:
        return len(self.pile_sizes) * max(self.pile_sizes)

    @property
    def max_turns(self) -> int:
        return sum(self.pile_sizes)

    def initial_state(self) -> State:
        return State(self.pile_sizes)

    def current_player(self, state: State) -> int:
        return state.seat if any(state.piles) else TERMINAL

    def legal_actions(self, state: State) -> Sequence[int]:
        piles, num_piles = state.piles, len(state.piles)
        return [
            (take - 1) * num_piles + pile
            for take in range(1, max(piles) + 1)
            for pile, size in enumerate(piles)
            if take <= size
        ]

    def apply(self, state: State, action: int) -> State:
        less, pile = divmod(action, len(state.piles))
        piles = list(state.piles)
        piles[pile] -= less + 1
        return State(tuple(piles), 1 - state.seat)

    def returns(self, state: State) -> Sequence[float]:
        if any(state.piles):
            return (0.0, 0.0)
        winner = state.seat if self.is_misere else 1 - state.seat
        return (-1.0, 1.0) if winner else (1.0, -1.0)

    def observe(self, state: State, seat: int) -> str:
        piles = ", ".join(f"pile {i}: {size}" for i, size in enumerate(state.piles, 1))
        if not any(state.piles):
            end = "loses" if self.is_misere else "wins"
            turn = f"player_{1 - state.seat} has taken the last object and {end}."
        else:
            turn = turn_text(state.seat, seat, ())
        return f"You are player_{seat}. Objects left: {piles}. {turn}"

    def features(self, state: State, seat: int) -> Vector:
        """One-hot size of each pile, then whether this seat's turn is next."""
        values = np.zeros(sum(self.pile_sizes) + len(self.pile_sizes) + 1, np.float32)
        start = 0
        for size, left in zip(self.pile_sizes, state.piles, strict=True):
            values[start + left] = 1
            start += size + 1
        values[-1] = state.seat == seat
        return values

    def action_text(self, state: State, action: int) -> str:
        less, pile = divmod(action, len(state.piles))
        return f"take {less + 1} from pile {pile + 1}"

    def parse(self, state: State, text: str) -> int:
        """Reads "take 2 from pile 3", also as "remove 2 from 3" or "pile 3 take 2"."""
        for spelling in SPELLINGS:
            if match := spelling.fullmatch(fold(text)):
                take, pile = int(match["take"]), int(match["pile"])
                if 1 <= pile <= len(state.piles) and 1 <= take <= state.piles[pile - 1]:
                    return (take - 1) * len(state.piles) + pile - 1
        raise IllegalAction(
            f"want an action such as 'take 1 from pile 1', within the piles "
            f"{state.piles}; got {text[:80]!r}"
        )

    def rules(self, seat: int) -> str:
        return filled("nim", self)


def scene(game: Nim, state: State, viewer: int | None) -> Shapes:
    """The piles, with what was taken in gray."""
    piles = zip(state.piles, game.pile_sizes, strict=True)
    return [
        Track(
            f"pile {number}: {left} of {size}",
            [Cell("o", "green")] * left + [Cell("", "gone")] * (size - left),
        )
        for number, (left, size) in enumerate(piles, 1)
    ]
