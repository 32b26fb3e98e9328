"""Strategies for repeated matrix games, in which action 0 is to cooperate.

They read `state.rounds` of `iterated_matrix_game`: the choices of all seats in past rounds.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from arena_envs.game import AnyGame

COOPERATE, DEFECT = 0, 1

Rounds = Sequence[Sequence[int]]


@dataclass(frozen=True)
class _Repeated:
    def __call__(self, game: AnyGame, state: Any, rng: random.Random) -> Any:
        rounds = getattr(state, "rounds", None)
        # in other games of rounds, such as public_goods, action 0 gives nothing
        if rounds is None or not hasattr(game, "payoffs"):
            raise ValueError(f"want a repeated matrix game, got {game!r}")
        return self.choose(rounds, game.current_player(state), rng)

    def choose(self, rounds: Rounds, seat: int, rng: random.Random) -> int:
        """The choice after these rounds."""
        raise NotImplementedError


@dataclass(frozen=True)
class AlwaysCooperate(_Repeated):
    """Cooperates."""

    def choose(self, rounds: Rounds, seat: int, rng: random.Random) -> int:
        return COOPERATE


@dataclass(frozen=True)
class AlwaysDefect(_Repeated):
    """Defects."""

    def choose(self, rounds: Rounds, seat: int, rng: random.Random) -> int:
        return DEFECT


@dataclass(frozen=True)
class TitForTat(_Repeated):
    """Cooperates first, then repeats the last action of the other.

    With more than two seats, it repeats the highest last action of the others.
    Axelrod, *Effective Choice in the Prisoner's Dilemma* (1980).
    """

    def choose(self, rounds: Rounds, seat: int, rng: random.Random) -> int:
        return max(_others(rounds[-1], seat)) if rounds else COOPERATE


@dataclass(frozen=True)
class GenerousTitForTat(TitForTat):
    """Tit for tat that cooperates instead with some probability.

    Nowak and Sigmund, *Tit for Tat in Heterogeneous Populations* (1992).

    Args:
        generosity: this probability; 1/3 is best in the prisoner's dilemma with payoffs
            5, 3, 1, 0.

    Raises:
        ValueError: `generosity` is not from 0 to 1.
    """

    generosity: float = 1 / 3

    def __post_init__(self) -> None:
        if not 0 <= self.generosity <= 1:
            raise ValueError(f"want generosity from 0 to 1, got {self.generosity}")

    def choose(self, rounds: Rounds, seat: int, rng: random.Random) -> int:
        forgives = rng.random() < self.generosity
        return COOPERATE if forgives else super().choose(rounds, seat, rng)


@dataclass(frozen=True)
class GrimTrigger(_Repeated):
    """Cooperates until another seat defects, then always defects."""

    def choose(self, rounds: Rounds, seat: int, rng: random.Random) -> int:
        betrayed = any(
            choice != COOPERATE
            for choices in rounds
            for choice in _others(choices, seat)
        )
        return DEFECT if betrayed else COOPERATE


@dataclass(frozen=True)
class WinStayLoseShift(_Repeated):
    """Cooperates first and after rounds in which all chose alike, else defects.

    It repeats an action that paid well (all cooperated, or it alone defected), and changes
    otherwise. Nowak and Sigmund, *A Strategy of Win-Stay, Lose-Shift that Outperforms
    Tit-for-Tat* (1993).
    """

    def choose(self, rounds: Rounds, seat: int, rng: random.Random) -> int:
        return COOPERATE if not rounds or len(set(rounds[-1])) == 1 else DEFECT


def _others(choices: Sequence[int], seat: int) -> Sequence[int]:
    return [choice for other, choice in enumerate(choices) if other != seat]
