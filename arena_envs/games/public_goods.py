"""Public goods game: contributions to a pot are multiplied and shared equally.

| Property    | Value                                                                     |
|-------------|---------------------------------------------------------------------------|
| Create      | `arena_envs.make("public_goods-v0", num_players=4, endowment=20, multiplier=1.6, num_rounds=10)` |
| Agents      | `player_0` to `player_{N-1}`, `num_players` from 2 to 10                  |
| Kind        | mixed, imperfect information                                              |
| Actions     | `Discrete(endowment + 1)`: the tokens to contribute, "0" to "20"          |
| Rewards     | after each round: tokens kept, and an equal share of the multiplied pot   |
| Length      | N * `num_rounds` turns, by default 40                                     |
| Known value | equilibrium: nobody contributes, 200 each; all contribute everything: 320 each; NashConv of uniform play 240 |
| Source      | E. Fehr, S. Gächter, *Cooperation and Punishment in Public Goods Experiments* (2000), without punishment |

In each of `num_rounds` rounds every player receives `endowment` tokens and contributes some
of them, without seeing what the others contribute in that round. The pot is multiplied by
`multiplier` and shared equally. With contributions c a round pays

    endowment - c[i] + multiplier * sum(c) / num_players

to seat i. Then all contributions are seen. A multiplier above 1 and below `num_players` makes
it a dilemma: each token contributed costs its giver 1 - multiplier / num_players and earns
the group multiplier - 1. In a single round it is dominant to contribute nothing. By backward
induction nobody contributes in any round, and all get `endowment` per round. If all contributed
everything, all would get multiplier * endowment per round.

A player who plays to the end gets at least multiplier * endowment / num_players per round.
`min_return` is 0, the return of a player that forfeits.

Measures of an episode: `contribution`, the mean of c[i] / endowment, and `efficiency`, the sum
of all returns over the sum that full contribution pays, multiplier * endowment * num_players *
num_rounds.
"""

import re
from dataclasses import dataclass

from arena_envs.game import (
    TERMINAL,
    Vector,
    filled,
    fold,
    np,
    over_text,
    param,
)
from arena_envs.games.kits.matrix import ChoiceRounds, State
from arena_envs.scenes.shapes import Cell, Shapes, chosen_cells, rounds_table

TOKENS = re.compile(r"(?:contribute )?([0-9]{1,3})(?: tokens?)?")


@dataclass(frozen=True)
class PublicGoods(ChoiceRounds):
    """The linear public goods game.

    Args:
        num_players: from 2 to 10.
        endowment: tokens that every player receives in every round, from 1 to 100.
        multiplier: what the pot is multiplied by, above 1 and below `num_players`.
        num_rounds: from 1 to 100.

    Raises:
        ValueError: a parameter is out of range.
    """

    num_players: int = param(4, 2, 10)
    endowment: int = param(20, 1, 100)
    multiplier: float = 1.6
    num_rounds: int = param(10, 1, 100)

    pays_rounds = True
    kind = "mixed"
    min_return = 0.0
    default_value = "in equilibrium 200 each; all contribute everything: 320 each"

    def __post_init__(self) -> None:
        super().__post_init__()
        value = self.multiplier
        if type(value) not in (int, float) or not 1 < value < self.num_players:
            raise ValueError(
                f"want a number multiplier above 1 and below num_players "
                f"{self.num_players}, got {value!r}"
            )

    @property
    def num_actions(self) -> int:
        return self.endowment + 1

    @property
    def max_return(self) -> float:
        alone = (0,) + (self.endowment,) * (self.num_players - 1)
        return self.repeated(self.payments(alone)[0])

    def measures(self, state: State) -> dict[str, float]:
        """Efficiency, and the mean share of the endowment that is contributed."""
        most = self.multiplier * self.endowment * self.num_players * self.num_rounds
        contributed = sum(map(sum, state.rounds)) * self.multiplier / most
        return {"efficiency": sum(state.paid) / most, "contribution": contributed}

    def observe(self, state: State, seat: int) -> str:
        now = f"Round {len(state.rounds) + 1} of {self.num_rounds}: all players contribute."
        if self.current_player(state) == TERMINAL:
            now = over_text(self.returns(state)[seat])
        lines = [f"You are player_{seat}. {now}"]
        for player in self.seats_from(seat) if state.rounds else ():
            name, has = (
                ("You", "have") if player == seat else (f"player_{player}", "has")
            )
            gave = ", ".join(
                str(contributions[player]) for contributions in state.rounds
            )
            lines.append(
                f"{name} contributed {gave} and {has} {state.paid[player]:.10g}."
            )
        return "\n".join(lines)

    def features(self, state: State, seat: int) -> Vector:
        """A 1 for each round that is over with the shares contributed, own seat first."""
        values = np.zeros((self.num_rounds, 1 + self.num_players), np.float32)
        seats = self.seats_from(seat)
        for index, contributions in enumerate(state.rounds):
            values[index, 0] = 1
            values[index, 1:] = [contributions[s] / self.endowment for s in seats]
        return values.ravel()

    def action_text(self, state: State, action: int) -> str:
        return str(action)

    def parse(self, state: State, text: str) -> int:
        """Reads numbers, also "contribute 7" and "7 tokens"."""
        match = TOKENS.fullmatch(fold(text))
        if match and int(match[1]) in self.legal_actions(state):
            return int(match[1])
        return super().parse(state, text)  # which names the legal actions

    def rules(self, seat: int) -> str:
        return filled("public_goods", self, seat=seat, half=self.endowment // 2)

    def payments(self, choices: tuple[int, ...]) -> list[float]:
        share = self.multiplier * sum(choices) / self.num_players
        return [self.endowment - tokens + share for tokens in choices]


def scene(game: PublicGoods, state: State, viewer: int | None) -> Shapes:
    """The contributions by round, and the payments."""
    most, contributions = game.endowment, [str(tokens) for tokens in state.chosen]
    rows = [[_share(tokens, most) for tokens in choices] for choices in state.rounds]
    if game.current_player(state) != TERMINAL:
        rows.append(chosen_cells(contributions, game.num_players, viewer))
    payment_row = ["paid", *(f"{value:.6g}" for value in state.paid)]
    title = f"contributions of {most} tokens; the pot counts x {game.multiplier:g}"
    return [rounds_table(game, title, rows, payment_row)]


def _share(tokens: int, most: int) -> Cell:
    """A number of tokens, colored by its share of the most."""
    if 2 * tokens >= most:
        return Cell(str(tokens), "green")
    return Cell(str(tokens), "" if tokens else "gone")
