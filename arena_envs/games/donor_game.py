"""Donor game: gifts are multiplied, and past gifts are every player's reputation.

| Property    | Value                                                                     |
|-------------|---------------------------------------------------------------------------|
| Create      | `arena_envs.make("donor_game-v0", num_players=4, num_rounds=6, start=10, multiplier=2, gift_step=10, punishment=False)` |
| Agents      | `player_0` to `player_{N-1}`, `num_players` from 2 to 12                  |
| Kind        | mixed, imperfect information                                              |
| Actions     | `Discrete(11)`: "give 0%" to "give 100%" of the own units by `gift_step`; with punishment one more, "punish" |
| Rewards     | after each round: the change of the own units                             |
| Length      | N * `num_rounds` turns, by default 24                                     |
| Known value | equilibrium: nobody gives, 0 each; all always give everything: 630 each; most for one player 1590 |
| Source      | A. Vallinder, E. Hughes, *Cultural Evolution of Cooperation among LLM Agents* (2024) |

Everybody starts with `start` units. In each of `num_rounds` rounds every player gives a share
of its units to its recipient, who receives `multiplier` times the gift. All choose without
seeing the gifts of that round, and gifts come out of the units held before it. Afterwards all
see them.

Chance draws a shift for each round, and seat i gives to seat (i + shift) mod N. A shift comes
again only after all other shifts. So each player is donor once and recipient once in every
round, and gives to all others before it gives to one of them again. Units are counted in
hundredths: gifts are rounded down to 0.01 units. A gift that would come to less than 0.01
units is illegal, except "give 0%".

With `punishment=True` a donor may, instead of giving, pay 1 unit to take 2 units from its
recipient, or all units of the recipient if it has fewer than 2 after the gifts of the round.

A gift in the last round earns nothing, so by backward induction nobody gives in any round.
If all always give the share p, units grow by 1 + p * (multiplier - 1) a round, up to rounding.

Measure of an episode: `donation`, the mean share of the own units that is given, over all
players and rounds; a punishment counts as 0. This measure is not in the paper.

The paper has 12 agents, 12 rounds and random pairs with one donor each. Its donors name amounts,
see what the recipient did in the latest rounds, and may pay to take twice as much. Its
strategies are passed on from one generation of agents to the next. Here all players are donors at the same time, gifts come in
steps, all past choices are public, and punishment has one size.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

from arena_envs.game import (
    CHANCE,
    TERMINAL,
    BaseGame,
    Vector,
    counted,
    filled,
    fold,
    np,
    others_again,
    over_text,
    param,
)
from arena_envs.scenes.shapes import Cell, Shapes, rounds_table, seat_tone

UNIT = 100  # in hundredths, which states hold
PRICE, FINE = 1 * UNIT, 2 * UNIT  # of punishment
PUNISHMENT = -100  # in place of the percentage of a gift


def units_after(
    before: Sequence[int], shares: Sequence[int], shift: int, multiplier: int
) -> tuple[int, ...]:
    """Hundredths that every seat has after a round: gifts come first, punishment last.

    Args:
        before: hundredths of every seat before the round.
        shares: percent of its own units that each seat gives, or `PUNISHMENT`.
        shift: seat i gives to seat (i + shift) mod N, or punishes it.
        multiplier: of gifts.
    """
    after, fines = list(before), [0] * len(before)
    for donor, share in enumerate(shares):
        recipient = (donor + shift) % len(before)
        if share == PUNISHMENT:
            after[donor] -= PRICE
            fines[recipient] = FINE
        else:
            gift = before[donor] * share // 100
            after[donor] -= gift
            after[recipient] += multiplier * gift
    return tuple(max(0, has - fine) for has, fine in zip(after, fines, strict=True))


def largest_growth(num_players: int, num_rounds: int, multiplier: int) -> int:
    """Units that one seat ends with for each unit at the start, if all units reach it.

    A unit that is passed on in all rounds but k grows by `multiplier` ** (`num_rounds` - k).
    The shifts of these k rounds add up to the distance from its first owner to the seat.
    """
    n, most = num_players, 0
    for shifts in combinations(range(1, n), min(num_rounds, n - 1)):
        rests = {0: 0}  # by first owner: fewest rounds in which it is not passed on
        for shift in shifts:
            for place, k in list(rests.items()):
                after = (place + shift) % n
                rests[after] = min(k + 1, rests.get(after, n))
        growth = (multiplier ** (num_rounds - k) for k in rests.values())
        most = max(most, sum(growth))
    return most


def units(hundredths: int) -> str:
    """An amount with its unit.

    >>> units(100), units(1250)
    ('1 unit', '12.50 units')
    """
    if hundredths % UNIT:
        return f"{hundredths / UNIT:.2f} units"
    return counted(hundredths // UNIT, "unit")


GIFT = re.compile(r"(?:give )?([0-9]{1,3}) ?(?:%|percent)")


class State(NamedTuple):
    """Shifts drawn so far, choices of past rounds, choices of this round, and units by seat."""

    shifts: tuple[int, ...]
    rounds: tuple[tuple[int, ...], ...]
    chosen: tuple[int, ...]
    hundredths: tuple[int, ...]


@dataclass(frozen=True)
class DonorGame(BaseGame[State, int]):
    """The donor game with simultaneous gifts and public records.

    Args:
        num_players: from 2 to 12.
        num_rounds: from 1 to 20.
        start: units of every player at the start, from 1 to 1000.
        multiplier: units that the recipient gets for each unit given, from 2 to 10.
        gift_step: gifts are multiples of this percentage; divides 100.
        punishment: whether a donor may punish its recipient.

    Raises:
        ValueError: a parameter is out of range.
    """

    num_players: int = param(4, 2, 12)
    num_rounds: int = param(6, 1, 20)
    start: int = param(10, 1, 1000)
    multiplier: int = param(2, 2, 10)
    gift_step: int = param(10, 1, 100)
    punishment: bool = False

    pays_rounds = True
    kind = "mixed"
    simultaneous = True
    default_value = "in equilibrium 0 each; all always give everything: 630 each"

    def __post_init__(self) -> None:
        super().__post_init__()
        if 100 % self.gift_step:
            raise ValueError(f"want a gift_step that divides 100, got {self.gift_step}")

    @property
    def num_actions(self) -> int:
        return 100 // self.gift_step + 1 + self.punishment

    @property
    def min_return(self) -> float:
        return -float(self.start)

    @property
    def max_return(self) -> float:
        """The gain of one seat if all units are passed on to reach it."""
        growth = largest_growth(self.num_players, self.num_rounds, self.multiplier)
        return float((growth - 1) * self.start)

    @property
    def max_turns(self) -> int:
        return self.num_players * self.num_rounds

    @property
    def max_chance_nodes(self) -> int:
        return self.num_rounds

    def initial_state(self) -> State:
        return State((), (), (), (self.start * UNIT,) * self.num_players)

    def current_player(self, state: State) -> int:
        num_over = len(state.rounds)
        if num_over == self.num_rounds:
            return TERMINAL
        return CHANCE if len(state.shifts) == num_over else len(state.chosen)

    def chance_outcomes(self, state: State) -> list[tuple[int, float]]:
        num_shifts = self.num_players - 1
        num_drawn = len(state.shifts)
        past_shifts = state.shifts[num_drawn - num_drawn % num_shifts :]
        left = [shift for shift in range(1, num_shifts + 1) if shift not in past_shifts]
        return [(shift, 1 / len(left)) for shift in left]

    def legal_actions(self, state: State) -> Sequence[int]:
        player = self.current_player(state)
        return self._legal(state.hundredths[player]) if player >= 0 else ()

    def apply(self, state: State, action: int) -> State:
        if len(state.shifts) == len(state.rounds):
            return state._replace(shifts=(*state.shifts, action))
        choices = (*state.chosen, action)
        if len(choices) < self.num_players:
            return state._replace(chosen=choices)
        shares = [self._share(choice) for choice in choices]
        shift = state.shifts[-1]
        after = units_after(state.hundredths, shares, shift, self.multiplier)
        return State(state.shifts, (*state.rounds, choices), (), after)

    def returns(self, state: State) -> Sequence[float]:
        start = self.start * UNIT
        return tuple((hundredths - start) / UNIT for hundredths in state.hundredths)

    def measures(self, state: State) -> dict[str, float]:
        """The mean share given; a punishment gives nothing."""
        shares = [
            max(0, self._share(a)) / 100 for choices in state.rounds for a in choices
        ]
        return {"donation": sum(shares) / max(1, len(shares))}

    def observe(self, state: State, seat: int) -> str:
        n, player = self.num_players, self.current_player(state)
        now = f"Round {len(state.rounds) + 1} of {self.num_rounds}: "
        recipient = None
        if player == TERMINAL:
            now = over_text(self.returns(state)[seat])
        elif player == CHANCE:
            now += "it is being drawn who gives to whom."
        else:
            shift = state.shifts[-1]
            recipient = (seat + shift) % n
            now += (
                f"all players choose. You give to player_{recipient}, and "
                f"player_{(seat - shift) % n} gives to you."
            )
        lines = [f"You are player_{seat}. {now}"]
        for participant in ((seat + i) % n for i in range(n)):
            name, has = (
                ("You", "have")
                if participant == seat
                else (f"player_{participant}", "has")
            )
            if participant == recipient:
                name += ", your recipient,"
            lines.append(
                f"{name} {has} {units(state.hundredths[participant])}{self._record(state, participant)}."
            )
        return "\n".join(lines)

    def information_state(self, state: State, seat: int) -> Any:
        return (seat, state.shifts, state.rounds, state.chosen[seat : seat + 1])

    def features(self, state: State, seat: int) -> Vector:
        """Logarithms of all units, then the rounds; seats in order from the own one on.

        A round is a 1 if it is over, its one-hot shift, and what each seat did: the share
        given, or -1 for punishment.
        """
        n = self.num_players
        seats = [(seat + i) % n for i in range(n)]
        values = np.zeros((1 + 2 * self.num_rounds, n), np.float32)
        values[0] = [np.log1p(state.hundredths[s] / UNIT) for s in seats]
        for index, shift in enumerate(state.shifts):
            values[1 + 2 * index, shift] = 1
        for index, choices in enumerate(state.rounds):
            values[1 + 2 * index, 0] = 1
            values[2 + 2 * index] = [self._share(choices[s]) / 100 for s in seats]
        return values.ravel()

    def action_text(self, state: State, action: int) -> str:
        share = self._share(action)
        return "punish" if share < 0 else f"give {share}%"

    def parse(self, state: State, text: str) -> int:
        """Reads also "30%", "give 30 percent", "give nothing" and "give everything"."""
        folded = {"give nothing": "0%", "give everything": "100%"}.get(
            fold(text), fold(text)
        )
        match = GIFT.fullmatch(folded)
        return super().parse(state, f"give {int(match[1])}%" if match else text)

    def rules(self, seat: int) -> str:
        return filled("donor_game", self, seat=seat, num_gifts=100 // self.gift_step)

    def resample(self, state: State, seat: int, rng: random.Random) -> State:
        """Draws the choices of the others in the running round uniformly."""

        def draw(player: int) -> int:
            return rng.choice(self._legal(state.hundredths[player]))

        return state._replace(chosen=others_again(state.chosen, seat, draw))

    def _share(self, action: int) -> int:
        """Percent of the own units that are given, or `PUNISHMENT`."""
        share = action * self.gift_step
        return share if share <= 100 else PUNISHMENT

    def _legal(self, hundredths: int) -> list[int]:
        step = self.gift_step
        gifts = range(1, 100 // step + 1)
        legal = [0, *(a for a in gifts if hundredths * a * step >= 100)]
        if self.punishment and hundredths >= PRICE:
            legal.append(self.num_actions - 1)
        return legal

    def _record(self, state: State, seat: int) -> str:
        parts = []
        for shift, choices in zip(state.shifts, state.rounds, strict=False):
            recipient, share = (
                (seat + shift) % self.num_players,
                self._share(choices[seat]),
            )
            did = "punished" if share < 0 else f"gave {share}% to"
            parts.append(f"{did} player_{recipient}")
        return f"; {', '.join(parts)}" if parts else ""


def scene(game: DonorGame, state: State, viewer: int | None) -> Shapes:
    """The donors and receivers, the gifts by round, and the units."""
    num = game.num_players
    rows = []
    for number, shift in enumerate(state.shifts):
        is_over = number < len(state.rounds)
        choices = state.rounds[number] if is_over else state.chosen
        row = []
        for seat in range(num):
            is_known = is_over or (seat < len(choices) and viewer in (None, seat))
            gift = _gift(game, choices[seat]) if is_known else "?"
            tone = seat_tone(seat) if is_known and not is_over else ""
            row.append(Cell(f"{gift} to {(seat + shift) % num}", tone))
        rows.append(row)
    units = ["units", *(f"{each / 100:.6g}" for each in state.hundredths)]
    title = "gifts by round: share, and to which player"
    return [rounds_table(game, title, rows, units)]


def _gift(game: DonorGame, action: int) -> str:
    share = action * game.gift_step
    return "punish" if share > 100 else f"{share}%"
