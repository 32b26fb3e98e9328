"""Luck taken out of returns: corrections of mean zero for every draw with known probabilities.

A draw has alternatives a with probabilities p_a, after which the game has values V_a. Its
correction is

    V_taken - sum_a p_a V_a

whose mean is 0 given all that came before, whatever V is. So the return less the corrections of
an episode is unbiased for any values that do not depend on this episode, and it varies less
where values are good. A value at the end of the game is the return.

AIVAT: Burch, Schmid, Moravcik, Morrill and Bowling, *AIVAT: A New Variance Reduction Technique
for Agent Evaluation in Imperfect Information Games* (2018), https://arxiv.org/abs/1612.06915.
It departs from the paper in two points: corrections are summed by kind, each with a coefficient
from 0 to 1 that other episodes decide, and values are of states, so that nothing is averaged over
the hidden part of a state.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from arena_envs.game import CHANCE, TERMINAL, AnyGame, possible_outcomes
from arena_eval.confidence_sequences import PLANNED, IntervalMethods

Floats = NDArray[np.float64]
Kind = Literal["chance", "opponents", "policy"]  # who draws
KINDS: tuple[Kind, ...] = get_args(Kind)

NUM_FOLDS = 5
MIN_SAVED = 1.05  # times the episodes; less does not help
MAX_SAVED = 1e6
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
        probabilities: of the alternatives; they sum to 1.
        states: the state after each alternative; None where the episode ends by a forfeit.
        returns: the seat's return of each alternative that ends the episode, NaN for others.
        taken: index of the alternative that was drawn.
    """

    kind: Kind
    probabilities: Sequence[float]
    states: Sequence[Any]
    returns: Sequence[float]
    taken: int


def draws_of(
    game: AnyGame,
    steps: Iterable[tuple[Any, Any]],
    seat: int,
    behavior_of: BehaviorOf,
) -> list[Draw]:
    """The draws of an episode whose probabilities are known.

    Args:
        game: the rules.
        steps: each state with the action or chance outcome that followed it; None for an
            invalid reply that forfeits.
        seat: whose returns are corrected.
        behavior_of: what a seat does in a state; None where it is unknown. It must not depend
            on what the seat does then.
    """
    draws = []
    for state, action in steps:
        player = game.current_player(state)
        if player == TERMINAL:
            continue
        if player == CHANCE:
            actions, probabilities = zip(*possible_outcomes(game, state), strict=True)
            kind: Kind = "chance"
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
            taken = actions.index(action)
            following = [_following(game, state, choice) for choice in actions]
            returns = [
                _known_return(game, state, after, seat, player) for after in following
            ]
            draws.append(Draw(kind, probabilities, following, returns, taken))
    return draws


def _following(game: AnyGame, state: Any, action: Any) -> Any:
    return None if action is None else game.apply(state, action)


def _known_return(
    game: AnyGame, state: Any, following: Any, seat: int, player: int
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
    """The sums of corrections of each episode, by kind in the order of `KINDS`.

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
    sums = np.zeros((len(episodes), len(KINDS)))
    for row, draws in zip(sums, episodes, strict=True):
        for draw in draws:
            after = [
                values[state] if np.isnan(exact_return) else exact_return
                for state, exact_return in zip(draw.states, draw.returns, strict=True)
            ]
            mean = float(np.dot(draw.probabilities, after)) / sum(draw.probabilities)
            row[KINDS.index(draw.kind)] += after[draw.taken] - mean
    return sums


def adjusted_returns(returns: Floats, corrections: Floats) -> Floats:
    """Returns less corrections, with a coefficient for each kind.

        c_k = clip(sum_i d_ik (r_i - mean r) / sum_i d_ik^2, 0, 1)

    over the episodes of the other folds, so that the coefficient of an episode does not depend on
    it, and the mean stays unbiased. Corrections of different kinds are uncorrelated, so each kind
    has a coefficient of its own. Fewer than `MIN_FITTED` episodes have coefficients of 1.

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
    products = corrections.T @ (returns - returns.mean())
    squares = (corrections**2).sum(axis=0)
    ratios = np.divide(products, squares, out=np.zeros(len(squares)), where=squares > 0)
    return np.asarray(ratios.clip(0, 1))


@dataclass(frozen=True)
class Adjusted:
    """A mean with the luck taken out.

    Attributes:
        mean: of returns less corrections; unbiased as the raw mean.
        low: lower end of its 95 % interval.
        high: upper end.
        games_saved: how many times as many episodes the raw mean would need.
        values: which values it uses, see `arena_eval.values`.
        seconds: CPU time that fitting the values took, once for a game and an opponent.
    """

    mean: float
    low: float
    high: float
    games_saved: float
    values: str
    seconds: float


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
    raw, left = float(returns.var(ddof=1)), float(adjusted.var(ddof=1))
    if raw < MIN_SAVED * left or raw == 0:
        return None
    low, high = methods.adjusted(adjusted, *bounds)
    saved = min(MAX_SAVED, raw / left if left > 0 else MAX_SAVED)
    return Adjusted(float(adjusted.mean()), low, high, saved, name, seconds)
