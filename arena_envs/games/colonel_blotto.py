"""Colonel Blotto: all players divide their coins among the same fields, unseen.

| Property    | Value                                                                  |
|-------------|------------------------------------------------------------------------|
| Create      | `arena_envs.make("colonel_blotto-v0", num_coins=10, num_fields=3)`     |
| Agents      | `player_0` to `player_{N-1}`, `num_players` from 2 to 4                |
| Kind        | competitive, imperfect information, simultaneous, zero-sum             |
| Actions     | `Discrete((C + F - 1)! / C! / (F - 1)!)`: all divisions of C coins     |
|             | among F fields, "0 0 10", "0 1 9" to "10 0 0": 66 by default           |
| Rewards     | at the end: 1 to the winner, -1 to the loser, 0 for a draw             |
| Length      | one turn each                                                          |
| Known value | two players: 0 by symmetry; by default NashConv of uniform play 7/11   |
|             | ("4 3 3" gains 7/22), an equilibrium mixes 18 divisions                |
| Source      | E. Borel, *La theorie du jeu* (1921)                                   |

Every player has the same number of coins and puts all of them on the fields, at the same
time as the others. The player with most coins on a field wins it; if several players share
the most, nobody wins it. The players with most fields share a return of 1, the others share -1;
if all have equally many fields, all get 0. Actions and seats are those of OpenSpiel's game
"blotto", whose parameters are `players`, `coins` and `fields`.
"""

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from math import comb

from arena_envs.game import (
    TERMINAL,
    BaseGame,
    IllegalAction,
    Vector,
    filled,
    fold,
    np,
    others_again,
    over_text,
    param,
)
from arena_envs.scenes.shapes import Cell, Grid, Shapes, cells, seat_cell, seat_names

State = tuple[int, ...]  # the choices so far, by seat
Division = tuple[int, ...]  # coins by field

MAX_ACTIONS = 10_000
SPELLING = re.compile(r"[\[(]?[0-9]{1,2}(?:(?: |, ?|/)[0-9]{1,2})*[\])]?")


@cache
def divisions(num_coins: int, num_fields: int) -> tuple[Division, ...]:
    """All ways to divide the coins, in lexicographic order.

    >>> divisions(1, 3)
    ((0, 0, 1), (0, 1, 0), (1, 0, 0))
    """
    return tuple(_divisions(num_coins, num_fields))


@dataclass(frozen=True)
class ColonelBlotto(BaseGame[State, int]):
    """One round of Colonel Blotto.

    Args:
        num_players: number of seats, 2 to 4.
        num_coins: coins of each player, 2 to 99.
        num_fields: 3 to 9; with fewer, two players always draw.

    Raises:
        ValueError: a parameter is out of range, or there are more than 10,000 divisions.
    """

    num_players: int = param(2, 2, 4)
    num_coins: int = param(10, 2, 99)
    num_fields: int = param(3, 3, 9)

    first_state = ()
    kind = "competitive"
    max_chance_nodes = 0
    simultaneous = True
    zero_sum = True
    min_return = -1.0
    max_return = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_actions > MAX_ACTIONS:
            raise ValueError(
                f"want at most {MAX_ACTIONS} divisions; num_coins {self.num_coins} with "
                f"num_fields {self.num_fields} have {self.num_actions}"
            )

    @cached_property
    def num_actions(self) -> int:
        return comb(self.num_coins + self.num_fields - 1, self.num_fields - 1)

    @property
    def max_turns(self) -> int:
        return self.num_players

    def current_player(self, state: State) -> int:
        return TERMINAL if len(state) == self.num_players else len(state)

    def legal_actions(self, state: State) -> Sequence[int]:
        return range(self.num_actions) if len(state) < self.num_players else ()

    def apply(self, state: State, action: int) -> State:
        return (*state, action)

    def returns(self, state: State) -> Sequence[float]:
        n = self.num_players
        if len(state) < n:
            return (0.0,) * n
        won = self._fields_won(state)
        num_winners = won.count(max(won))
        if num_winners == n:
            return (0.0,) * n
        win, loss = 1 / num_winners, -1 / (n - num_winners)
        return tuple(win if fields == max(won) else loss for fields in won)

    @property
    def known_value(self) -> str | None:
        if self.num_players != 2:
            return None
        more = "; NashConv of uniform play 7/11" if self == type(self)() else ""
        return f"0 by symmetry{more}"

    def observe(self, state: State, seat: int) -> str:
        coins, fields = self.num_coins, self.num_fields
        start = f"You are player_{seat}."
        if len(state) < self.num_players:
            now = f"{start} All players divide {coins} coins among {fields} fields."
            own_divisions = [
                self.action_text(state, action) for action in state[seat : seat + 1]
            ]
            return "\n".join(
                [now, *(f"Your coins: {coins}." for coins in own_divisions)]
            )
        lines = [f"{start} {over_text(self.returns(state)[seat])} Coins by field:"]
        for player, won in enumerate(self._fields_won(state)):
            text = self.action_text(state, state[player])
            lines.append(f"player_{player}: {text} (wins {won} of {fields} fields)")
        return "\n".join(lines)

    def information_state(self, state: State, seat: int) -> State:
        return state if len(state) == self.num_players else state[seat : seat + 1]

    def features(self, state: State, seat: int) -> Vector:
        """Whether the seat has chosen, and whether all have; then the coins by field.

        The own coins come first, then those of the others, zeros until the end.
        """
        n, over = self.num_players, len(state) == self.num_players
        values = np.zeros(2 + n * self.num_fields, np.float32)
        coins: list[int] = []
        for player in (*range(seat, n), *range(seat)) if over else (seat,):
            if player < len(state):
                coins += self._divisions[state[player]]
        values[2 : 2 + len(coins)] = coins
        values /= self.num_coins
        values[:2] = seat < len(state), over
        return values

    def action_text(self, state: State, action: int) -> str:
        return " ".join(map(str, self._divisions[action]))

    def parse(self, state: State, text: str) -> int:
        """Reads the coins of each field in order, also as "3, 2, 5" or "[3, 2, 5]"."""
        answer = fold(text)
        if SPELLING.fullmatch(answer) and self.legal_actions(state):
            coins = tuple(map(int, re.findall("[0-9]+", answer)))
            if len(coins) == self.num_fields and sum(coins) == self.num_coins:
                return self._divisions.index(coins)
        raise IllegalAction(
            f"want {self.num_fields} numbers of coins with the sum {self.num_coins}, "
            f"got {text[:80]!r}"
        )

    def rules(self, seat: int) -> str:
        example = self.action_text((), self.num_actions - 1)
        return filled("colonel_blotto", self, example=example)

    def resample(self, state: State, seat: int, rng: random.Random) -> State:
        """Draws the choices of others, uniformly, until all have chosen."""
        if len(state) == self.num_players:
            return state
        return others_again(state, seat, lambda _: rng.randrange(self.num_actions))

    @cached_property
    def _divisions(self) -> tuple[Division, ...]:
        return divisions(self.num_coins, self.num_fields)

    def _fields_won(self, state: State) -> list[int]:
        won = [0] * self.num_players
        for coins in zip(*(self._divisions[action] for action in state), strict=True):
            if coins.count(max(coins)) == 1:
                won[coins.index(max(coins))] += 1
        return won


def _divisions(num_coins: int, num_fields: int) -> Iterator[Division]:
    if num_fields == 1:
        yield (num_coins,)
        return
    for first in range(num_coins + 1):
        for further in _divisions(num_coins - first, num_fields - 1):
            yield (first, *further)


def scene(game: ColonelBlotto, state: tuple[int, ...], viewer: int | None) -> Shapes:
    """The coins of each seat by field; hidden until all have chosen."""
    over = len(state) == game.num_players
    divided = [game.action_text(state, action).split() for action in state]
    rows = [[Cell("?")] * game.num_fields for _ in range(game.num_players)]
    for seat, coins in enumerate(divided):
        if over or viewer in (None, seat):
            rows[seat] = cells(*coins)
    for field, column in enumerate(zip(*divided, strict=True) if over else ()):
        most = max(column, key=int)
        if column.count(most) == 1:
            seat = column.index(most)
            rows[seat][field] = seat_cell(seat, most)
    fields = [f"{number}" for number in range(1, game.num_fields + 1)]
    return [Grid(rows, "coins by field", seat_names(game), fields)]
