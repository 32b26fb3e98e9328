"""Toy games over the protocol, given as trees."""

import random
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from arena_envs.game import CHANCE, TERMINAL, BaseGame, Information, Kind


class Choice(NamedTuple):
    """A node at which a seat that knows `key` chooses."""

    seat: int
    key: Hashable
    children: tuple[Any, ...]


class Draw(NamedTuple):
    """A chance node."""

    chances: tuple[float, ...]
    children: tuple[Any, ...]


@dataclass(frozen=True)
class TreeGame(BaseGame[Any, int]):
    """A game whose states are the nodes of `root`; its leaves are tuples of returns."""

    root: Any
    information: Information = "imperfect"
    kind: Kind = "competitive"  # type: ignore[misc]  # differs between toys
    zero_sum: bool = True
    min_return: float = -10.0
    max_return: float = 10.0
    num_players: int = 2

    def initial_state(self) -> Any:
        return self.root

    def current_player(self, state: Any) -> int:
        if isinstance(state, Choice):
            return state.seat
        return CHANCE if isinstance(state, Draw) else TERMINAL

    def chance_outcomes(self, state: Any) -> Sequence[tuple[int, float]]:
        return list(enumerate(state.chances))

    def legal_actions(self, state: Any) -> Sequence[int]:
        return range(len(state.children)) if isinstance(state, Choice) else ()

    def apply(self, state: Any, action: int) -> Any:
        return state.children[action]

    def returns(self, state: Any) -> Sequence[float]:
        nobody = (0.0,) * self.num_players
        return nobody if isinstance(state, Choice | Draw) else state

    def information_state(self, state: Any, seat: int) -> Hashable:
        return state.key

    def resample(self, state: Any, seat: int, rng: random.Random) -> Any:
        found = [s for s in _nodes(self.root) if getattr(s, "key", None) == state.key]
        return rng.choice(found)


def _nodes(node: Any) -> list[Any]:
    children = node.children if isinstance(node, Choice | Draw) else ()
    return [node, *(below for child in children for below in _nodes(child))]


def matrix_game(payoffs: Any, **facts: Any) -> TreeGame:
    """Seat 0 chooses a row and seat 1, without seeing it, a column."""
    rows = tuple(Choice(1, "column", tuple(map(tuple, row))) for row in payoffs)
    return TreeGame(Choice(0, "row", rows), **facts)
