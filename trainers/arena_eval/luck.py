"""Luck taken out of returns: corrections of mean zero for every draw with known probabilities.

A draw has alternatives a with probabilities p_a, after which the game has values V_a. Its
correction is

    V_taken - sum_a p_a V_a

Its mean is 0 given all that came before, for any V. So the return less the corrections of
an episode is unbiased for any values that do not depend on this episode, and it varies less
where values are good. A value at the end of the game is the return.

AIVAT: Burch, Schmid, Moravcik, Morrill and Bowling, *AIVAT: A New Variance Reduction Technique
for Agent Evaluation in Imperfect Information Games* (2018), https://arxiv.org/abs/1612.06915.
It departs from the paper in one point: corrections are summed by kind, each with a coefficient from 0
to 1 that other episodes decide.

The kind "unseen" is what imaginary observations take from a return, see `arena_eval.imaginary`.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from arena_envs.game import (
    CHANCE,
    TERMINAL,
    AnyAction,
    AnyGame,
    AnyState,
    possible_outcomes,
)
from arena_eval.confidence_sequences import PLANNED, IntervalMethods

Floats = NDArray[np.float64]
LuckKind = Literal["chance", "opponents", "policy", "unseen"]
LUCK_KINDS: tuple[LuckKind, ...] = get_args(LuckKind)

NUM_FOLDS = 5
MIN_WORTH = 1.05  # times the episodes; less does not help
NO_SPREAD = 1e-12  # of the raw variance; less is rounding
MIN_FITTED = 50  # episodes from which on coefficients are fitted; fewer have 1

Behavior = tuple[Sequence[float], float]  # of legal actions, sum 1; of an invalid reply
BehaviorOf = Callable[
    [int, Any], Behavior | None
]  # by seat to move and state; None: unknown
ValuesOf = Callable[[Sequence[Any]], Floats]  # of states that are not terminal


class Draw(NamedTuple):
    """A draw with known probabilities.

    Attributes:
        kind: who draws.
        probabilities: of the alternatives; they sum to 1. Of sampled ones: shares of the samples, and
            0 for what was drawn.
        states: the state after each alternative; None where the episode ends by a forfeit.
        returns: the seat's return of each alternative that ends the episode, NaN for others.
        taken: index of the alternative that was drawn.
    """

    kind: LuckKind
    probabilities: Sequence[float]
    states: Sequence[Any]
    returns: Sequence[float]
    taken: int


def draws_of(
    game: AnyGame,
    steps: Iterable[tuple[Any, Any]],
    seat: int,
    behavior_of: BehaviorOf,
    alternatives: "SampledAlternatives | None" = None,
) -> list[Draw]:
    """The draws of an episode whose probabilities are known.

    Args:
        game: the rules.
        steps: each state with the action or chance outcome that followed it; None for an
            invalid reply that forfeits.
        seat: whose returns are corrected.
        behavior_of: what a seat does in a state; None where it is unknown. It must not depend
            on what the seat does then.
        alternatives: of chance; None takes all.
    """
    draws = []
    steps = [*steps]
    if alternatives is not None:
        draws = alternatives.draws(game, steps, seat)
    for state, action in steps:
        player = game.current_player(state)
        if player == TERMINAL or (player == CHANCE and alternatives is not None):
            continue
        if player == CHANCE:
            actions, probabilities = zip(*possible_outcomes(game, state), strict=True)
            kind: LuckKind = "chance"
        else:
            behavior = behavior_of(player, state)
            if behavior is None:
                continue
            shares, invalid = behavior
            actions = tuple(game.legal_actions(state))
            probabilities = tuple((1 - invalid) * share for share in shares)
            if invalid > 0:
                actions, probabilities = (*actions, None), (*probabilities, invalid)
            kind = "policy" if player == seat else "opponents"
        if max(probabilities) < 1:
            place = actions.index(action)
            following = [_following(game, state, choice) for choice in actions]
            returns = [
                _known_return(game, state, after, seat, player) for after in following
            ]
            draws.append(Draw(kind, probabilities, following, returns, place))
    return draws


class SampledAlternatives:
    """Samples alternatives of chance, for values that take long to compute.

    All outcomes of chance in a row, such as the cards of a deal, are one draw. Its alternatives are
    `num` independent samples of it. Their values have the same mean, so the correction is unbiased.

    Args:
        rng: independent of the episodes.
        num: samples for each draw.
    """

    def __init__(self, rng: random.Random, num: int) -> None:
        self._rng, self._num = rng, num

    def draws(
        self, game: AnyGame, steps: Sequence[tuple[Any, Any]], seat: int
    ) -> list[Draw]:
        """The draws of chance in an episode; the first state of each is what was drawn."""
        draws, before = [], None
        for state, action in steps:
            if game.current_player(state) != CHANCE:
                continue
            before = state if before is None else before
            after = game.apply(state, action)
            if game.current_player(after) == CHANCE:
                continue
            states = [after, *(self._sample(game, before) for _ in range(self._num))]
            returns = [
                _known_return(game, before, state, seat, CHANCE) for state in states
            ]
            shares = [0.0, *[1 / self._num] * self._num]
            draws.append(Draw("chance", shares, states, returns, 0))
            before = None
        return draws

    def _sample(self, game: AnyGame, state: AnyState) -> AnyState:
        while game.current_player(state) == CHANCE:
            outcomes, shares = zip(*possible_outcomes(game, state), strict=True)
            state = game.apply(state, self._rng.choices(outcomes, shares)[0])
        return state


def _following(game: AnyGame, state: AnyState, action: AnyAction) -> Any:
    return None if action is None else game.apply(state, action)


def _known_return(
    game: AnyGame, state: AnyState, following: Any, seat: int, player: int
) -> float:
    """The return of a seat if the episode ends with the following state or a forfeit."""
    if following is None:
        if (
            game.num_players > 2
        ):  # the default action is played, and the episode goes on
            return float(game.returns(state)[seat])
        return float(game.forfeit(state, player)[seat])
    if game.current_player(following) == TERMINAL:
        return float(game.returns(following)[seat])
    return float("nan")


def corrections_of(
    episodes: Sequence[Sequence[Draw]], values_of: ValuesOf
) -> NDArray[np.float64]:
    """The sums of corrections of each episode, by kind in the order of `LUCK_KINDS`.

    Args:
        episodes: the draws of each.
        values_of: values of the seat, of states that are not terminal. All are asked at once.
    """
    open_states = dict.fromkeys(
        state
        for draws in episodes
        for draw in draws
        for state, exact_return in zip(draw.states, draw.returns, strict=True)
        if np.isnan(exact_return)
    )
    values = dict(
        zip(open_states, values_of([*open_states]) if open_states else (), strict=True)
    )
    sums = np.zeros((len(episodes), len(LUCK_KINDS)))
    for row, draws in zip(sums, episodes, strict=True):
        for draw in draws:
            after = [
                values[state] if np.isnan(exact_return) else exact_return
                for state, exact_return in zip(draw.states, draw.returns, strict=True)
            ]
            mean = float(np.dot(draw.probabilities, after)) / sum(draw.probabilities)
            row[LUCK_KINDS.index(draw.kind)] += after[draw.taken] - mean
    return sums


def adjusted_returns(returns: Floats, corrections: Floats) -> Floats:
    """Returns less corrections, with a coefficient for each kind.

        c = clip(argmin_c sum_i (r_i - mean r - sum_k c_k d_ik)^2, 0, 1)

    of least squares over the episodes of the other folds, so that the coefficient of an episode
    does not depend on it, and the mean stays unbiased. Fewer than `MIN_FITTED` episodes have
    coefficients of 1.

    Args:
        returns: float[n].
        corrections: float[n, kinds].
    """
    if len(returns) < MIN_FITTED:
        return np.asarray(returns - corrections.sum(axis=1))
    folds = np.arange(len(returns)) % NUM_FOLDS
    adjusted = np.empty(len(returns))
    for fold in range(NUM_FOLDS):
        held_out = folds == fold
        coefficients = fitted_coefficients(returns[~held_out], corrections[~held_out])
        adjusted[held_out] = returns[held_out] - corrections[held_out] @ coefficients
    return adjusted


def fitted_coefficients(returns: Floats, corrections: Floats) -> Floats:
    """The coefficient of each kind that leaves the least variance, within [0, 1]."""
    # the least norm, so that a kind without corrections has 0
    solution, *_ = np.linalg.lstsq(corrections, returns - returns.mean(), rcond=None)
    return np.asarray(solution.clip(0, 1))


@dataclass(frozen=True)
class Adjusted:
    """A mean with the luck taken out.

    Attributes:
        mean: of returns less corrections; unbiased as the raw mean.
        low: lower end of its 95 % interval.
        high: upper end.
        worth: how many times the episodes the raw mean would need for the same variance; None if
            all adjusted returns are equal.
        values: which values it uses, see `arena_eval.values`.
        seconds: CPU time that fitting the values took, once for a game and an opponent.
    """

    mean: float
    low: float
    high: float
    worth: float | None
    values: str
    seconds: float


def worth_text(worth: float | None) -> str:
    """What an adjusted mean is worth, as a cell of a table.

    >>> worth_text(3.14), worth_text(None)
    ('3.1 times the games', 'no spread left')
    """
    return "no spread left" if worth is None else f"{worth:.1f} times the games"


def adjusted_mean(
    returns: Floats,
    corrections: Floats,
    bounds: tuple[float, float],
    name: str,
    seconds: float,
    methods: IntervalMethods = PLANNED,
) -> Adjusted | None:
    """The mean of adjusted returns; None where it does not help.

    Args:
        returns: float[n], one for each seed.
        corrections: float[n, kinds], likewise.
        bounds: least and largest possible mean, which cut the interval.
        name: of the values.
        seconds: that fitting took.
        methods: of the interval. Fewer episodes than its `min_adjusted` have no mean.
    """
    return adjusted_to(
        returns,
        adjusted_returns(returns, corrections),
        bounds,
        name,
        seconds,
        methods,
    )


def adjusted_to(
    returns: Floats,
    adjusted: Floats,
    bounds: tuple[float, float],
    name: str,
    seconds: float,
    methods: IntervalMethods = PLANNED,
) -> Adjusted | None:
    """As `adjusted_mean`, of returns that are adjusted, or of their differences."""
    if len(returns) < methods.min_adjusted:
        return None
    if not helps(returns, adjusted):
        return None
    variance = float(returns.var(ddof=1))
    adjusted_variance = float(adjusted.var(ddof=1))
    mean, worth = float(adjusted.mean()), None
    if adjusted_variance > NO_SPREAD * variance:
        worth = variance / adjusted_variance
    else:
        adjusted = np.full(len(adjusted), mean)
    low, high = methods.adjusted(adjusted, *bounds)
    return Adjusted(mean, low, high, worth, name, seconds)


def helps(returns: Floats, adjusted: Floats) -> bool:
    """Whether adjusted returns save at least 5 % of the games."""
    variance = float(returns.var(ddof=1))
    return variance > 0 and variance >= MIN_WORTH * float(adjusted.var(ddof=1))
