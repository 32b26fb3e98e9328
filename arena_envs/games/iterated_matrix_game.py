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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from arena_envs.game import check_int
from arena_envs.games._matrix_rounds import PRISONERS_DILEMMA, MatrixRounds


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
    num_rounds: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        check_int("num_rounds", self.num_rounds, 1, 100)

    @property
    def known_value(self) -> str | None:
        if self != type(self)():
            return None
        return "10 each, as both always defect; both always cooperate: 50 each"
