"""Matrix games: one choice each, at the same time, paid by a table.

| Property    | Value                                                                     |
|-------------|---------------------------------------------------------------------------|
| Create      | `arena_envs.make("matrix_game-v0", payoffs=..., actions=...)`             |
| Agents      | `player_0` to `player_{N-1}`, N from 2 to 8 by the table; `player_0` chooses its row |
| Kind        | by the table: cooperative if all are always paid alike, competitive if the sum is constant, else mixed; imperfect information; zero-sum if all cells are |
| Actions     | `Discrete(n)`: by default 0 "Cooperate", 1 "Defect"                       |
| Rewards     | at the end: the payoffs of the table                                      |
| Length      | N turns: one round                                                        |
| Known value | by default 1 each, as both defect; NashConv of uniform play 3 (others below) |
| Source      | J. von Neumann, *Zur Theorie der Gesellschaftsspiele* (1928) |

All players choose an action without seeing what the others choose. `payoffs` is a nest of
tuples or lists, `payoffs[action of player_0][action of player_1]...`, with a number for each
player inside. `actions` are the names of the actions of all players, or a tuple of names for
each. Replies may shorten a name as long as one action fits.

`min_return` and `max_return` are the smallest and the largest payoff, extended to include 0:
after a forfeit the other players are paid nothing.

Measure of an episode, where every player has an action named "Cooperate": `cooperation`, the
share of "Cooperate" among all choices.

Games with an id of their own have the tables of OpenSpiel's `matrix_pd`, `matrix_sh`,
`matrix_cd`, `matrix_bos`, `matrix_mp` and `matrix_rps`, the order of actions too:

- `prisoners_dilemma-v0`, the default: each gets 5 if both cooperate and 1 if both defect;
  if one defects, it gets 10 and the other 0. Defecting is dominant.
- `stag_hunt-v0`: Stag pays 2 with another Stag and else 0, Hare always pays 1. Equilibria:
  both Stag, both Hare, and uniform play.
- `chicken-v0`: two Dare get 0, two Chicken 3; Dare against Chicken gets 4, Chicken 1.
  Equilibria: one of each, and uniform play.
- `battle_of_the_sexes-v0`: both Bach pays 3 and 2, both Stravinsky 2 and 3, else nothing.
  Equilibria: both the same, and each its favourite with probability 3/5, worth 6/5 to each.
  NashConv of uniform play 1/2.
- `matching_pennies-v0`: `player_0` wins 1 from `player_1` if both choose the same, and else
  loses 1. `rock_paper_scissors-v0`: paper beats rock, scissors beat paper, rock beats
  scissors, for 1. Without pure equilibria; uniform play is one and worth 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from arena_envs.games.kits.matrix import PRISONERS_DILEMMA, MatrixRounds


@dataclass(frozen=True)
class MatrixGame(MatrixRounds):
    """A table of payoffs, played once.

    Args:
        payoffs: `payoffs[action of player_0][action of player_1]...[seat]`.
            At most 256 cells of numbers up to a billion.
        actions: names of the actions, of all players or one sequence for each: letters,
            digits, single blanks and _'+%&-, at most 20 characters.

    Raises:
        ValueError: the table is not regular, holds no numbers or is too large; the
            names are not as many as the actions, or cannot be told apart.
    """

    payoffs: Sequence[Any] = PRISONERS_DILEMMA
    actions: Sequence[Any] = ("Cooperate", "Defect")

    num_rounds: ClassVar[int] = 1  # type: ignore[misc]  # a parameter when iterated
    default_value = "1 each, as both defect; NashConv of uniform play 3"
