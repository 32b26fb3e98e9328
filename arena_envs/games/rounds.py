"""Rounds: answer a symbol in each round; options decide when the answers are paid.

| Property    | Value                                                                  |
|-------------|------------------------------------------------------------------------|
| Create      | `arena_envs.make("rounds-v0", num_rounds=8)`, see `Rounds`             |
| Agents      | `player_0`, `player_1`, ... answer in turn; one by default, at most 8  |
| Kind        | cooperative, perfect information                                       |
| Actions     | `Discrete(num_answers)`: "answer 0" to "answer 3"                      |
| Rewards     | the stake of the round for each right answer, to all seats             |
| Length      | exactly `num_rounds` turns of each player                              |
| Known value | right answers 8; random answers 2                                      |
| Source      | this project, in the spirit of bsuite's diagnostic environments        |

In each round chance draws one of the symbols A, B, C, ... and each seat answers it with a number.
Symbol number x, counted from 0, has the right answer (3 - x) modulo `num_answers`. Every right
answer pays all seats the stake of the round. Rounds do not depend on each other, so the best
answer is always the right one, however it is paid. What differs is how much else a return-to-go
holds: the game shows what a credit estimator does with it.

Stakes are 1 in each round (`"equal"`), fall from 2^(T - 1) to 1 (`"falling"`) or rise from 1 to
2^(T - 1) (`"rising"`), T being `num_rounds`. The pay of a round comes `delay` rounds later, at the
latest at the end; `delay=num_rounds` pays everything at the end. `wage` is paid after each round, whatever the
answers. `luck` is won or lost with equal chances after the first or the last round. `advance` is won or
lost after the first round and taken back at the end, so that it leaves the return as it is.

Expected returns: with S the sum of the stakes and n seats, right answers get n S + T `wage`, and
random answers n S / `num_answers` + T `wage`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from arena_envs.game import (
    CHANCE,
    TERMINAL,
    BaseGame,
    Pays,
    Vector,
    counted,
    filled,
    np,
    over_text,
    param,
)
from arena_envs.scenes.shapes import Cell, Shapes, Table, Track, cells

MOST_DOUBLED = 16  # rounds of falling or rising stakes


class State(NamedTuple):
    """The round and what is paid so far.

    number: rounds that are over. symbol: -1 before it is drawn. answered: seats that have
    answered; all of them where luck is to be drawn. right: their right answers. due: points
    to be paid after this round, the next one, and so on. paid: points so far. owed: the
    advance, to be taken back at the end.
    """

    number: int
    symbol: int
    answered: int
    right: int
    due: tuple[int, ...]
    paid: int = 0
    owed: int = 0


@dataclass(frozen=True)
class Rounds(BaseGame[State, int]):
    """Rounds with options for when answers are paid.

    Args:
        num_rounds: 1 to 64; at most 16 with falling or rising stakes.
        num_players: seats, which all answer the symbol of a round, 1 to 8.
        num_symbols: 1 to 26.
        num_answers: 2 to 26.
        stakes: `"equal"`, `"falling"` or `"rising"`.
        delay: rounds until the pay of a round comes, 0 to 64.
        wage: points that are paid after each round, 0 to 1000.
        luck: points that are won or lost by chance, 0 to 10,000.
        luck_after: the round after which luck is drawn, `"first"` or `"last"`.
        advance: points that are won or lost after the first round and taken back at the
            end, 0 to 10,000. It needs two rounds, and no luck beside it.

    Raises:
        ValueError: a parameter is out of range.
    """

    num_rounds: int = param(
        8, 1, lambda game: 64 if game.stakes == "equal" else MOST_DOUBLED
    )
    num_players: int = param(1, 1, 8)
    num_symbols: int = param(4, 1, 26)
    num_answers: int = param(4, 2, 26, knob=(2, 4, 8, 16))
    stakes: Literal["equal", "falling", "rising"] = "equal"
    delay: int = param(0, 0, 64)
    wage: int = param(0, 0, 1000)
    luck: int = param(0, 0, 10_000)
    luck_after: Literal["first", "last"] = "first"
    advance: int = param(0, 0, 10_000)

    kind = "cooperative"
    information = "perfect"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.advance and (self.luck or self.num_rounds == 1):
            raise ValueError(
                f"want an advance with several rounds and without luck, got advance="
                f"{self.advance}, luck={self.luck}, num_rounds={self.num_rounds}"
            )

    def stake(self, number: int) -> int:
        """Points for a right answer in a round, counted from 0."""
        later = self.num_rounds - 1 - number
        power = {"equal": 0, "falling": later, "rising": number}[self.stakes]
        return 1 << power

    def right_answer(self, symbol: int) -> int:
        """The answer that is paid."""
        return (3 - symbol) % self.num_answers

    @property
    def num_actions(self) -> int:
        return self.num_answers

    @property
    def _most(self) -> int:
        stakes = sum(map(self.stake, range(self.num_rounds)))
        return self.num_players * stakes

    @property
    def min_return(self) -> float:
        return float(self.num_rounds * self.wage - self.luck)

    @property
    def max_return(self) -> float:
        return float(self._most + self.num_rounds * self.wage + self.luck)

    @property
    def max_turns(self) -> int:
        return self.num_rounds * self.num_players

    @property
    def max_chance_nodes(self) -> int:
        return self.num_rounds + bool(self.luck or self.advance)

    @property
    def pays(self) -> Pays:
        early = self.luck and self.luck_after == "first"
        if self.delay < self.num_rounds - 1 or self.wage or early or self.advance:
            return "on_the_way" if self.num_rounds > 1 else "end"
        return "end"

    @property
    def known_value(self) -> str | None:
        wages = self.num_rounds * self.wage
        least = self._most / self.num_answers + wages
        return f"right answers {self._most + wages}; random answers {least:.6g}"

    def initial_state(self) -> State:
        return State(0, -1, 0, 0, (0,) * (1 + min(self.delay, self.num_rounds - 1)))

    def current_player(self, state: State) -> int:
        if state.number == self.num_rounds:
            return TERMINAL
        waits = state.symbol < 0 or state.answered == self.num_players
        return CHANCE if waits else state.answered

    def chance_outcomes(self, state: State) -> Sequence[tuple[int, float]]:
        if self.current_player(state) != CHANCE:
            return ()
        if state.symbol < 0:
            return [(n, 1 / self.num_symbols) for n in range(self.num_symbols)]
        size = self.luck + self.advance
        return [(-size, 0.5), (size, 0.5)]

    def legal_actions(self, state: State) -> Sequence[int]:
        return range(self.num_answers) if self.current_player(state) >= 0 else ()

    def apply(self, state: State, action: int) -> State:
        if state.symbol < 0:
            return state._replace(symbol=action)
        if state.answered == self.num_players:
            return self._settled(state, action)
        right = state.right + (action == self.right_answer(state.symbol))
        after = state._replace(answered=state.answered + 1, right=right)
        is_last = after.answered == self.num_players
        return self._settled(after) if is_last and not self._draws(state) else after

    def _draws(self, state: State) -> bool:
        """Whether luck is drawn after this round."""
        after = "first" if self.advance else self.luck_after
        number = 0 if after == "first" else self.num_rounds - 1
        return bool(self.luck or self.advance) and state.number == number

    def _settled(self, state: State, luck: int = 0) -> State:
        """The state after a round's payments, and what luck has drawn."""
        left = self.num_rounds - 1 - state.number
        due = list(state.due)
        due[min(self.delay, left)] += self.stake(state.number) * state.right
        balance = state.paid + due[0] + self.wage + luck
        debt = luck if self.advance and luck else state.owed
        if not left:
            balance, debt = balance - debt, 0
        return State(state.number + 1, -1, 0, 0, (*due[1:], 0), balance, debt)

    def returns(self, state: State) -> Sequence[float]:
        return (float(state.paid),) * self.num_players

    def observe(self, state: State, seat: int) -> str:
        balance = f"You have {counted(state.paid, 'point')} so far."
        if self.current_player(state) == TERMINAL:
            return f"You are player_{seat}. {over_text(float(state.paid))}"
        lines = [
            f"You are player_{seat}. This is round {state.number + 1} of "
            f"{self.num_rounds}. {balance}"
        ]
        if len(state.due) > 1:
            due = ", ".join(map(str, state.due))
            lines.append(f"Due after this round, the next one and so on: {due}.")
        if state.owed:
            lines.append(f"An advance of {state.owed} is taken back at the end.")
        if state.symbol < 0:
            return "\n".join([*lines, "The symbol is being drawn."])
        answers = f"right answers in this round so far: {state.right}"
        lines.append(f"The symbol is {chr(65 + state.symbol)}; {answers}.")
        player = self.current_player(state)
        now = "You are to answer." if player == seat else f"player_{player} answers."
        lines.append("Luck is being drawn." if player < 0 else now)
        return "\n".join(lines)

    def features(self, state: State, seat: int) -> Vector:
        """The symbol one-hot, then the numbers of the state."""
        symbols = np.zeros(self.num_symbols, np.float32)
        if state.symbol >= 0:
            symbols[state.symbol] = 1
        numbers = [state.number, state.answered, state.right, state.paid, state.owed]
        return np.append(symbols, [*numbers, *state.due]).astype(np.float32)

    def action_text(self, state: State, action: int) -> str:
        return f"answer {action}"

    def rules(self, seat: int) -> str:
        symbols = range(self.num_symbols)
        pairs = [
            f"{chr(65 + symbol)} {self.right_answer(symbol)}" for symbol in symbols
        ]
        first, last = self.stake(0), self.stake(self.num_rounds - 1)
        name = "rounds_equal" if first == last else "rounds_stakes"
        stakes = filled(name, self, first=first, last=last)
        extras = [n for n in ("delay", "wage", "luck", "advance") if getattr(self, n)]
        more = [filled(f"rounds_{name}", self) for name in extras]
        return " ".join([filled("rounds", self, pairs=pairs, stakes=stakes), *more])


def scene(game: Rounds, state: State, viewer: int | None) -> Shapes:
    """The rounds with their stakes, and the points that are paid, due and owed."""
    stakes = [Cell(str(game.stake(n))) for n in range(game.num_rounds)]
    for number, cell in enumerate(stakes[: state.number + 1]):
        is_over = number < state.number
        stakes[number] = cell._replace(tone="gone" * is_over, mark=not is_over)
    points = {
        "symbol": "-" if state.symbol < 0 else chr(65 + state.symbol),
        "right answers": str(state.right),
        "paid": str(state.paid),
        "due": ", ".join(map(str, state.due)),
        "to be taken back": str(state.owed),
    }
    table = Table("this round", list(points), [cells(*points.values())])
    return [Track("stakes by round", stakes), table]
