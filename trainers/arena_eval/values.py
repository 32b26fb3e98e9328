"""Values of states that take luck out of returns, by name (`arena.values`).

A maker gets the rules, the evaluated seat and the policy in the other seats, and gives a function
of states that are not terminal. Poor values cost games and add no bias, see `luck`.

| Name | Values | Needs |
|---|---|---|
| `solver` | exact, where the evaluated seat plays the game's solver | at most 30,000 states |
| `check_down` | if all seats only call from here on | hold'em (`check_down` of the rules) |
| `bots` | of a small network that is fitted once on games that bots play for free | features |

Other distributions name theirs in the entry-point group `arena.values`.
"""

import random
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from arena_envs.game import (
    CHANCE,
    TERMINAL,
    AnyGame,
    AnyState,
    possible_outcomes,
    random_states,
)
from arena_envs.registry import BrokenPromise, Registry, broken
from arena_envs.solvers import InfosetKey, InfosetTable, uniform_table
from arena_eval.baselines import MAX_SOLVED_STATES, is_small, prepared, solver_of
from arena_eval.exploit import SHORT, is_tabular, tabular
from arena_wrappers import Policy, ScoringPolicy

Floats = NDArray[np.float64]
NUM_ALTERNATIVES = 8  # of a deal whose values are those of checking down


class StateValues(Protocol):
    """Values of states for one seat.

    Attributes:
        seconds: CPU time that fitting took, also if it was in an earlier run.
        num_alternatives: how many alternatives of each deal are sampled, as a value takes long; None: all
            alternatives of each card.
    """

    seconds: float
    num_alternatives: int | None

    def __call__(self, states: Sequence[Any]) -> Floats:
        """float64[n], finite; the same for the same state, whatever stands beside it."""


_HERE = "arena_eval.values"
values: Registry[StateValues] = Registry(
    "kind of values",
    "arena.values",
    {
        "solver": f"{_HERE}:solver_values",
        "check_down": f"{_HERE}:CheckDownValues",
        "bots": "arena_eval.fitted_values:bot_values",
    },
    reserved=("game", "seat", "opponent"),
    kit=f"{_HERE}:check_values",
    extra="eval",
)


def read_values(name: str, game: AnyGame) -> None:
    """Reads the name of values; those that are not built in are made and tried, before play.

    Raises:
        ValueError: unknown, or they raise or break a promise of `check_values`.
    """
    if values.read(name).name in values.built_in:
        return
    try:
        check_values(partial(values.make, name), game)
    except BrokenPromise as error:
        raise ValueError(
            f"values {name!r:.80} were tried before play: {error}"
        ) from error
    except Exception as error:  # it may be anybody's code
        raise ValueError(
            f"values {name!r:.80} were tried before play, and raised {type(error).__name__}: "
            f"{error}; want values that check_values passes"
        ) from error


class TableValues:
    """Exact values where each seat plays by a table.

    Args:
        game: the rules.
        seat: whose returns.
        table: probabilities of the legal actions in each information set.
    """

    seconds, num_alternatives = 0.0, None

    def __init__(
        self, game: AnyGame, seat: int, table: Mapping[InfosetKey, Sequence[float]]
    ) -> None:
        self._game, self._seat, self._table = game, seat, table
        self._known: dict[Any, float] = {}

    def __call__(self, states: Sequence[Any]) -> Floats:
        return np.array([self._value(state) for state in states], float)

    def _value(self, state: AnyState) -> float:
        if state not in self._known:
            self._known[state] = self._mean(state)
        return self._known[state]

    def _mean(self, state: AnyState) -> float:
        game, player = self._game, self._game.current_player(state)
        if player == TERMINAL:
            return float(game.returns(state)[self._seat])
        if player == CHANCE:
            return sum(
                share * self._value(game.apply(state, outcome))
                for outcome, share in possible_outcomes(game, state)
            )
        row = self._table[player, game.information_state(state, player)]
        return sum(
            share * self._value(game.apply(state, action))
            for action, share in zip(game.legal_actions(state), row, strict=True)
            if share > 0
        )


class CheckDownValues:
    """What a seat of poker expects if nobody folds or raises from here on.

    Args:
        game: the rules, with a method `check_down` of states and a seat.
        seat: whose returns.
        opponent: not used.

    Raises:
        ValueError: the game has no such method.
    """

    seconds, num_alternatives = 0.0, NUM_ALTERNATIVES

    def __init__(self, game: AnyGame, seat: int, opponent: Policy | None) -> None:
        if not hasattr(game, "check_down"):
            raise ValueError(
                f"want limit_holdem for the values 'check_down', got {game!r:.80}; take 'bots'"
            )
        self._check_down: Callable[[Sequence[Any], int], Floats] = game.check_down
        self._seat = seat

    def __call__(self, states: Sequence[Any]) -> Floats:
        return self._check_down(states, self._seat)


def solver_values(game: AnyGame, seat: int, opponent: Policy | None) -> TableValues:
    """Exact values where the seat plays the game's solver, and the others their own policy.

    A seat without a solver plays at random, and others without known probabilities play as the
    seat does.

    Raises:
        ValueError: the game has more than `MAX_SOLVED_STATES` states.
    """
    if not is_small(game):
        raise ValueError(
            f"want a game of at most {MAX_SOLVED_STATES:,} states for the values 'solver', "
            f"got {game!r:.80}; take 'bots'"
        )
    table = dict(_solver_table(cast(Hashable, game)))
    if opponent is not None and is_tabular(opponent):
        rows = tabular(cast(ScoringPolicy, opponent), game, SHORT)[0]
        table |= {key: row for key, row in rows.items() if key[0] != seat}
    return TableValues(game, seat, table)


@lru_cache(maxsize=2)  # the seats and opponents of an evaluation share it
def _solver_table(game: AnyGame) -> InfosetTable:
    """What the game's solver plays; uniform random play without one."""
    spec = solver_of(game)
    solver = None if spec is None else prepared(spec, game)
    if solver is None or not is_tabular(solver):
        return uniform_table(game)
    return tabular(cast(ScoringPolicy, solver), game, SHORT)[0]


def check_values(make: Any, game: AnyGame) -> None:
    """Makes values of each seat of a game and looks at those of random states.

    | promise | what is checked |
    |---|---|
    | numbers | one finite number for each state |
    | pure | the same number in another order, and for a part of the states |
    | num_alternatives | None, or an integer above 0 |
    | seconds | a number of at least 0 |

    Args:
        make: a function of `game`, `seat` and `opponent`.
        game: the rules.

    Raises:
        BrokenPromise: names the first promise that is broken.
    """
    states = [
        state
        for seed in range(5)
        for state, _ in random_states(game, random.Random(seed))
    ]
    for seat in range(game.num_players):
        values_of = make(game=game, seat=seat, opponent=None)
        numbers = np.asarray(values_of(states))
        if numbers.shape != (len(states),) or numbers.dtype.kind not in "fiub":
            got = f"an array of shape {numbers.shape} and type {numbers.dtype}"
            broken(
                "numbers", f"want a number for each of {len(states)} states, got {got}"
            )
        if not np.isfinite(numbers).all():
            first = numbers[~np.isfinite(numbers)][0]
            broken("numbers", f"want finite numbers, got {first} among {len(states)}")
        again = np.asarray(values_of(states[::-1]))[::-1]
        first = np.asarray(values_of(states[:1]))
        # a matrix product rounds by its size
        if not np.allclose(numbers, again, atol=1e-4):
            broken("pure", "another order of the states gives other values")
        if not np.allclose(numbers[:1], first, atol=1e-4):
            broken("pure", "a state alone has another value")
        for attribute in ("num_alternatives", "seconds"):
            if not hasattr(values_of, attribute):
                broken(attribute, f"{type(values_of).__name__} has no such attribute")
        num = values_of.num_alternatives
        if not (num is None or (type(num) is int and num > 0)):
            broken("num_alternatives", f"want None or an integer above 0, got {num!r}")
        if not values_of.seconds >= 0:
            broken("seconds", f"want a number of at least 0, got {values_of.seconds!r}")
