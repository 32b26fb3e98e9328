"""Iterated matrix games: a matrix game in several rounds, with all past choices shown.

| Property    | Value                                                                     |
|-------------|---------------------------------------------------------------------------|
| Create      | `arena_envs.make("iterated_matrix_game-v0", payoffs=..., actions=..., num_rounds=10)` |
| Agents      | `player_0` to `player_{N-1}`, N from 2 to 8 by the table; `player_0` chooses its row |
| Kind        | by the table, as in a single round; imperfect information                 |
| Actions     | `Discrete(n)`: by default 0 "Cooperate", 1 "Defect"                       |
| Rewards     | after each round: the payoffs of the table                                |
| Length      | N * `num_rounds` turns, by default 20                                     |
| Known value | by default: in equilibrium both always defect, 10 each; both always cooperate: 50 each; best response to tit for tat 55; NashConv of uniform play 3 per round |
| Source      | R. Axelrod, *Effective Choice in the Prisoner's Dilemma* (1980)           |

In each of `num_rounds` rounds all players choose an action without seeing what the others
choose in that round; then everybody sees all choices and is paid. The return is the sum over
all rounds, as in OpenSpiel's `repeated_game`. All players know the number of rounds. The text
lists all choices so far and their payoffs.

`payoffs` and `actions` are those of `matrix_game`. `min_return` and `max_return` are the
sums over all rounds of the smallest and the largest payoff, extended to include 0: after a
forfeit the other players may not have been paid yet.

Measure of an episode, where every player has an action named "Cooperate": `cooperation`, the
share of "Cooperate" among all choices.

Games with an id of their own have ten rounds of OpenSpiel's tables `matrix_pd`, `matrix_sh`
and `matrix_rps`: `iterated_prisoners_dilemma-v0`, which is the default,
`iterated_stag_hunt-v0` and `iterated_rock_paper_scissors-v0`.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from arena_envs.game import (
    AnyGame,
    AnyState,
    param,
)
from arena_envs.games.kits.matrix import PRISONERS_DILEMMA, MatrixRounds


@dataclass(frozen=True)
class IteratedMatrixGame(MatrixRounds):
    """A table of payoffs, played `num_rounds` times.

    Args:
        payoffs: `payoffs[action of player_0][action of player_1]...[seat]`.
            At most 256 cells of numbers up to a billion.
        actions: names of the actions, of all players or one sequence for each: letters,
            digits, single blanks and _'+%&-, at most 20 characters.
        num_rounds: from 1 to 100.

    Raises:
        ValueError: the table is not regular, holds no numbers or is too large; the
            names are not as many as the actions, or cannot be told apart; `num_rounds`
            is out of range.
    """

    payoffs: Sequence[Any] = PRISONERS_DILEMMA
    actions: Sequence[Any] = ("Cooperate", "Defect")
    num_rounds: int = param(10, 1, 100)

    pays_rounds = True
    default_value = "10 each, as both always defect; both always cooperate: 50 each"


COOPERATE, DEFECT = 0, 1

Rounds = Sequence[Sequence[int]]


@dataclass(frozen=True)
class _Repeated:
    """A strategy that reads `state.rounds`; action 0 is to cooperate."""

    def __call__(self, game: AnyGame, state: AnyState, rng: random.Random) -> Any:
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
    return [choice for player, choice in enumerate(choices) if player != seat]
