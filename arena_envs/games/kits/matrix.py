"""Matrix games of one round and of several: the table, and the rounds."""

import math
import operator
import random
import re
from collections.abc import Iterator, Sequence
from functools import cached_property, reduce
from itertools import product
from typing import (
    Any,
    NamedTuple,
)

from arena_envs.game import (
    TERMINAL,
    BaseGame,
    Kind,
    Vector,
    filled,
    fold,
    np,
    others_again,
)
from arena_envs.scenes.shapes import (
    Cell,
    Shapes,
    Table,
    cells,
    chosen_cells,
    rounds_table,
    seat_cell,
    seat_names,
)

MAX_PLAYERS, MAX_CELLS, MAX_NAME, MAX_PAYOFF = 8, 256, 20, 1e9
NAME = re.compile(r"[\w'+%&-]+(?: [\w'+%&-]+)*", re.ASCII)


def checked_shape(payoffs: Sequence[Any]) -> tuple[int, ...]:
    """Number of actions of each seat, after checks of the table."""
    sizes, level = [], payoffs
    while isinstance(level, tuple) and level:
        sizes.append(len(level))
        level = level[0]
    *shape, num_payoffs = sizes or [0]
    num_players = len(shape)
    if not (2 <= num_players == num_payoffs <= MAX_PLAYERS) or not _fits(
        payoffs, sizes
    ):
        raise ValueError(
            "want payoffs[action of player_0][action of player_1]... as a number for "
            f"each of 2 to {MAX_PLAYERS} players, from -{MAX_PAYOFF:g} to "
            f"{MAX_PAYOFF:g}, got {payoffs!r:.200}"
        )
    if math.prod(shape) > MAX_CELLS:  # the rules text has a line for each cell
        raise ValueError(
            f"want payoffs of at most {MAX_CELLS} cells, got {math.prod(shape)}"
        )
    return tuple(shape)


def _fits(level: Any, sizes: Sequence[int]) -> bool:
    if not sizes:
        return type(level) in (int, float) and -MAX_PAYOFF <= level <= MAX_PAYOFF
    if not isinstance(level, tuple) or len(level) != sizes[0]:
        return False
    return all(_fits(part, sizes[1:]) for part in level)


def check_names(actions: Sequence[str | Sequence[str]], shape: Sequence[int]) -> None:
    """Raises ValueError for names that do not fit the table or cannot be told apart."""
    shared = isinstance(actions, tuple) and all(
        isinstance(name, str) for name in actions
    )
    by_seat = [actions] * len(shape) if shared else actions
    if not isinstance(by_seat, list | tuple) or len(by_seat) != len(shape):
        raise ValueError(
            f"want actions as names, for all players or for each of {len(shape)}, got "
            f"{actions!r:.200}"
        )
    for seat, (names, num_names) in enumerate(zip(by_seat, shape, strict=True)):
        if (
            not isinstance(names, tuple)
            or len(names) != num_names
            or not all(isinstance(n, str) and NAME.fullmatch(n) for n in names)
            or max(map(len, names), default=0) > MAX_NAME
            or len(set(map(fold, names))) != num_names
        ):
            raise ValueError(
                f"want {num_names} different names of at most {MAX_NAME} characters "
                "(letters, digits, single blanks and _'+%&-) as actions of "
                f"player_{seat}, got {names!r:.200}"
            )


PRISONERS_DILEMMA = (((5, 5), (0, 10)), ((10, 0), (1, 1)))


class State(NamedTuple):
    """Choices of past rounds, choices of this round, and payments by seat."""

    rounds: tuple[tuple[int, ...], ...]
    chosen: tuple[int, ...]
    paid: tuple[float, ...]


class ChoiceRounds(BaseGame[State, int]):
    """Rounds in which all seats choose at once; after each, all choices are shown and paid.

    A subclass has `num_players`, `num_actions` and `num_rounds`.
    """

    num_rounds: int

    max_chance_nodes = 0
    simultaneous = True

    def payments(self, choices: tuple[int, ...]) -> Sequence[float]:
        """The payments of a round, by the choices of all seats."""
        raise NotImplementedError

    def num_choices(self: Any, seat: int) -> int:
        """Number of actions of a seat."""
        return self.num_actions  # type: ignore[no-any-return]

    @property
    def max_turns(self: Any) -> int:
        return self.num_rounds * self.num_players  # type: ignore[no-any-return]

    def initial_state(self: Any) -> State:
        return State((), (), (0.0,) * self.num_players)

    def current_player(self, state: State) -> int:
        return TERMINAL if len(state.rounds) == self.num_rounds else len(state.chosen)

    def legal_actions(self, state: State) -> Sequence[int]:
        player = self.current_player(state)
        return range(self.num_choices(player)) if player >= 0 else ()

    def apply(self: Any, state: State, action: int) -> State:
        choices = (*state.chosen, action)
        if len(choices) < self.num_players:
            return State(state.rounds, choices, state.paid)
        balances = map(operator.add, state.paid, self.payments(choices))
        return State((*state.rounds, choices), (), tuple(balances))

    def returns(self, state: State) -> Sequence[float]:
        return state.paid

    def information_state(self, state: State, seat: int) -> Any:
        return (seat, state.rounds, state.chosen[seat : seat + 1])

    def resample(self, state: State, seat: int, rng: random.Random) -> State:
        """Draws the choices of the others in the running round uniformly."""

        def draw(player: int) -> int:
            return rng.randrange(self.num_choices(player))

        return state._replace(chosen=others_again(state.chosen, seat, draw))

    def seats_from(self: Any, seat: int) -> Sequence[int]:
        """All seats, this one first."""
        seats = range(self.num_players)
        return (*seats[seat:], *seats[:seat])

    def repeated(self, payment: float) -> float:
        """The sum of a payment over all rounds, with the same rounding as in a state."""
        return reduce(operator.add, [payment] * self.num_rounds, 0.0)


class MatrixRounds(ChoiceRounds):
    """The game of a table, played `num_rounds` times."""

    payoffs: Sequence[Any]
    actions: Sequence[Any]

    def __post_init__(self) -> None:
        super().__post_init__()
        check_names(self.actions, checked_shape(self.payoffs))

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Number of actions of each seat."""
        return checked_shape(self.payoffs)

    @cached_property
    def cells(self) -> dict[tuple[int, ...], tuple[float, ...]]:
        """Payoffs of all seats in a round, by the choices of all seats."""
        choices = product(*map(range, self.shape))
        return {c: tuple(map(float, _cell(self.payoffs, c))) for c in choices}

    @cached_property
    def names(self) -> Sequence[Sequence[str]]:
        """Names of the actions of each seat."""
        shared = isinstance(self.actions[0], str)
        return [self.actions] * self.num_players if shared else self.actions

    @cached_property
    def num_players(self) -> int:
        return len(self.shape)

    @cached_property
    def num_actions(self) -> int:
        return max(self.shape)

    @property
    def kind(self) -> Kind:  # type: ignore[override]  # settable in BaseGame
        """Cooperative if every cell pays all seats alike, competitive if the sum is constant."""
        cells = self.cells.values()
        if all(len(set(cell)) == 1 for cell in cells):
            return "cooperative"
        return "competitive" if len(set(map(math.fsum, cells))) == 1 else "mixed"

    @property
    def zero_sum(self) -> bool:  # type: ignore[override]  # depends on the table
        return all(math.fsum(cell) == 0 for cell in self.cells.values())

    @property
    def min_return(self) -> float:
        return self.repeated(min(0.0, *map(min, self.cells.values())))

    @property
    def max_return(self) -> float:
        return self.repeated(max(0.0, *map(max, self.cells.values())))

    def payments(self, choices: tuple[int, ...]) -> Sequence[float]:
        return self.cells[choices]

    def num_choices(self, seat: int) -> int:
        return self.shape[seat]

    def measures(self, state: State) -> dict[str, float]:
        """The share of "Cooperate" among all choices, where every seat has this action."""
        if not all("Cooperate" in names for names in self.names):
            return {}
        chose = [
            names[a]
            for c in state.rounds
            for names, a in zip(self.names, c, strict=True)
        ]
        return {"cooperation": chose.count("Cooperate") / max(1, len(chose))}

    def observe(self, state: State, seat: int) -> str:
        now = f"Round {len(state.rounds) + 1} of {self.num_rounds}: all players choose."
        if self.current_player(state) == TERMINAL:
            now = "The game is over."
        elif self.num_rounds == 1:
            now = "All players choose."
        lines = [f"You are player_{seat}. {now}"]
        for player in self.seats_from(seat) if state.rounds else ():
            names = self.names[player]
            chose = ", ".join([names[choices[player]] for choices in state.rounds])
            name, has = (
                ("You", "have") if player == seat else (f"player_{player}", "has")
            )
            lines.append(
                f"{name} chose {chose} and {has} {_number(state.paid[player])}."
            )
        return "\n".join(lines)

    def features(self, state: State, seat: int) -> Vector:
        """One-hot seat, then the one-hot choices of each round, from the own seat on."""
        n, k, seats = self.num_players, self.num_actions, self.seats_from(seat)
        ones, row = [seat], n
        for choices in state.rounds:
            for player in seats:
                ones.append(row + choices[player])
                row += k
        values = np.zeros((1 + self.num_rounds * k) * n, np.float32)
        values[ones] = 1
        return values

    def action_text(self, state: State, action: int) -> str:
        return self.names[self.current_player(state)][action]

    def parse(self, state: State, text: str) -> int:
        """Reads names, and starts of names that fit one action only."""
        folded = fold(text)
        actions = [
            action
            for action in self.legal_actions(state)
            if folded and fold(self.action_text(state, action)).startswith(folded)
        ]
        return actions[0] if len(actions) == 1 else super().parse(state, text)

    def rules(self, seat: int) -> str:
        intro = filled("matrix_game", self, seat=seat, names=self.names[seat])
        return "\n".join([intro, *self._table(seat), filled("matrix_game_score", self)])

    def _table(self, seat: int) -> Iterator[str]:
        """A line for each cell, the own choices in order."""
        seats = self.seats_from(seat)
        for own_first in product(*(range(self.shape[player]) for player in seats)):
            choice_of = dict(zip(seats, own_first, strict=True))
            cell = self.cells[tuple(choice_of[player] for player in sorted(seats))]
            lefts = [f"You {self.names[seat][choice_of[seat]]}"]
            rights = [f"you get {_number(cell[seat])}"]
            for player in seats[1:]:
                lefts.append(f"player_{player} {self.names[player][choice_of[player]]}")
                rights.append(f"player_{player} gets {_number(cell[player])}")
            yield f"{', '.join(lefts)}: {', '.join(rights)}"


def _number(value: float) -> str:
    return f"{value:.10g}"


def _cell(payoffs: Sequence[Any], choices: Sequence[int]) -> Any:
    for action in choices:
        payoffs = payoffs[action]
    return payoffs


MAX_SHOWN = 60  # of a table of payoffs that is shown


def scene(game: MatrixRounds, state: State, viewer: int | None) -> Shapes:
    """The table of payoffs, with the last cell that was played, and the rounds."""
    names = game.names
    rows = [
        [seat_cell(s, names[s][a]) for s, a in enumerate(choices)]
        for choices in state.rounds
    ]
    if game.current_player(state) != TERMINAL:
        choice_names = [names[seat][action] for seat, action in enumerate(state.chosen)]
        rows.append(chosen_cells(choice_names, game.num_players, viewer))
    payment_row = ["paid", *(f"{value:.6g}" for value in state.paid)]
    shapes = [rounds_table(game, "choices by round", rows, payment_row)]
    if len(game.cells) <= MAX_SHOWN:
        shapes.insert(0, _payoffs(game, state.rounds[-1] if state.rounds else None))
    return shapes


def _payoffs(game: MatrixRounds, last: tuple[int, ...] | None) -> Table:
    """The payoffs; with two seats as a table of rows and columns."""
    names = game.names

    def paid(choices: tuple[int, ...]) -> Cell:
        text = ", ".join(f"{value:.6g}" for value in game.cells[choices])
        return Cell(text, "green" if choices == last else "")

    if game.num_players == 2:
        rows = [
            cells(name, *(paid((i, j)) for j in range(len(names[1]))))
            for i, name in enumerate(names[0])
        ]
        title = "payoffs: player_0 chooses the row, player_1 the column"
        return Table(title, ("", *names[1]), rows)
    rows = [
        cells(*(names[s][a] for s, a in enumerate(choices)), paid(choices))
        for choices in product(*map(range, game.shape))
    ]
    return Table("payoffs", (*seat_names(game), "payoffs"), rows)
