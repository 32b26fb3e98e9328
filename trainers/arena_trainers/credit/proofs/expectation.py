"""What an estimator's gradient is in expectation, and how it compares to the true one.

A batch of B independent episodes from one start (one group) gives the estimate
ĝ = 1/B Σ A ∇log π over its turns. Its expectation is a sum over all batches where these are
few, and otherwise a mean over batches that were drawn, with its standard error.

>>> from arena_trainers.credit.proofs.diagnostics import DIAGNOSTICS
>>> from arena_trainers.credit.proofs.exact import ExactGame
>>> game = ExactGame(DIAGNOSTICS["bandit"])
>>> play = game.at(game.policy())
>>> expected_gradient("mars_loo", play, 2).mean  # as the true one
array([-0.25,  0.25])
>>> expected_gradient("mars", play, 2).mean  # shrunk by 1 - 1/2
array([-0.125,  0.125])
"""

import itertools
import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from arena_trainers.credit.batch import Floats, Ints, TurnBatch
from arena_trainers.credit.proofs.claims import Kind
from arena_trainers.credit.proofs.exact import ExactPlay
from arena_trainers.credit.registry import Estimator, estimate
from arena_trainers.credit.results import FlatPoolWarning
from arena_trainers.credit.trajectories import returns_to_go, trajectories

MAX_BATCHES = 1024  # that are enumerated
MISTAKE = 1e-3  # chance that the z-test refuses what is right
REINFORCE = "reinforce"  # the return-to-go itself; no estimator of the registry


class Expectation(NamedTuple):
    """The distribution of the gradient estimate over batches.

    mean, variance: float64[C]. error: float64[C], standard error of the mean, 0 where all
    batches were enumerated. num_batches: how many these were.
    """

    mean: Floats
    variance: Floats
    error: Floats
    num_batches: int


def gradient_estimate(
    name: str | Estimator,
    play: ExactPlay,
    drawn: Sequence[int] | Ints,
    groups: Ints | None = None,
    **options: Any,
) -> Floats:
    """float64[C]: the gradient that an estimator makes of a batch of lines, of one group.

    Args:
        name: of the estimator, or `REINFORCE`.
        play: the game and the policy.
        drawn: the lines.
        groups: their groups, if there are several.
        **options: of the estimator.
    """
    return _gradient(name, play, drawn, play.batch(drawn, groups), options)


def _gradient(
    name: str | Estimator,
    play: ExactPlay,
    drawn: Sequence[int] | Ints,
    turns: TurnBatch,
    options: Mapping[str, Any],
) -> Floats:
    if name == REINFORCE:
        live = trajectories(turns)
        advantage = live.scatter(returns_to_go(live, live.column("reward")))
    else:
        advantage = estimate(name, turns, **options).advantage
    return play.summed(drawn, advantage)


@lru_cache(maxsize=16)
def _all_batches(play: ExactPlay, size: int) -> tuple[tuple[Ints, TurnBatch], ...]:
    """Every batch of `size` lines; all estimators look at the same ones."""
    lines = range(play.game.num_lines)
    every = map(np.asarray, itertools.product(lines, repeat=size))
    return tuple((drawn, play.batch(drawn)) for drawn in every)


def expected_gradient(
    name: str | Estimator,
    play: ExactPlay,
    size: int,
    num_batches: int = 1000,
    seed: int = 0,
    **options: Any,
) -> Expectation:
    """The expected gradient of an estimator.

    Args:
        name: of the estimator, or the function itself, or `REINFORCE`.
        play: the game and the policy.
        size: B, episodes of a batch.
        num_batches: that are drawn, where there are more than 1,024 different ones.
        seed: of these.
        **options: of the estimator.
    """
    num_lines = play.game.num_lines
    few = num_lines**size <= MAX_BATCHES
    batches: Iterable[tuple[Ints, TurnBatch]]
    if few:
        batches = _all_batches(play, size)
    else:
        rng = np.random.default_rng(seed)
        p = play.probability / play.probability.sum()
        lines = rng.choice(num_lines, (num_batches, size), p=p)
        batches = ((drawn, play.batch(drawn)) for drawn in lines)
    found, weights = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FlatPoolWarning)
        for drawn, turns in batches:
            found.append(_gradient(name, play, drawn, turns, options))
            weights.append(play.probability[drawn].prod() if few else 1 / num_batches)
    weight, estimates = np.array(weights), np.array(found)
    mean = weight @ estimates
    variance = weight @ (estimates - mean) ** 2
    error = np.zeros_like(mean) if few else np.sqrt(variance / (num_batches - 1))
    return Expectation(mean, variance, error, len(found))


def agrees(found: Expectation, truth: Floats) -> bool:
    """Whether an expectation is the true gradient.

    Up to rounding where all batches were enumerated. Otherwise by a z-test of each
    component, |mean - truth| / error, with a chance of 0.001 to refuse what is right
    (Bonferroni over the components).
    """
    if not found.error.any():
        return bool(np.allclose(found.mean, truth, atol=1e-9))
    wide = -NormalDist().inv_cdf(MISTAKE / 2 / len(truth))
    slack = wide * found.error + 1e-9
    return bool((np.abs(found.mean - truth) <= slack).all())


class Verdict(NamedTuple):
    """How an expected gradient compares to the true one.

    kind: "exact"; "scaled": every seat's is a positive multiple; "direction": some seat's
    points elsewhere; "zero": it vanishes for every seat; "reversed": some seat's does not
    even help it to first order.
    cosine: of the seat with the least.
    factor: that minimises |mean - factor · truth|.
    """

    kind: Kind
    cosine: float
    factor: float


def compare(
    mean: Floats, truth: Floats, seat: Ints, tolerance: float = 1e-9
) -> Verdict:
    """Compares gradients seat by seat.

    Args:
        mean: float64[C], of the estimator.
        truth: float64[C].
        seat: int64[C], of each logit.
        tolerance: relative, of what counts as equal.
    """
    exact, scaled, cosines = True, True, []
    for s in np.unique(seat):
        got, want = mean[seat == s], truth[seat == s]
        size, length = float(np.linalg.norm(got)), float(np.linalg.norm(want))
        if length == 0:
            exact &= bool(size <= tolerance)
            scaled &= bool(size <= tolerance)
            continue
        exact &= bool(np.linalg.norm(got - want) <= tolerance * length)
        along = got @ want / length**2
        off = np.linalg.norm(got - along * want)
        scaled &= bool(along > 0 and off <= tolerance * max(size, tolerance))
        cosines.append(float(got @ want / (size * length)) if size > 0 else 0.0)
    cosine = min(cosines, default=1.0)
    factor = float(mean @ truth / (truth @ truth))
    kind: Kind = "direction" if cosine > tolerance else "reversed"
    if scaled:
        kind = "scaled"
    elif np.linalg.norm(mean) <= tolerance * np.linalg.norm(truth):
        kind = "zero"
    return Verdict("exact" if exact else kind, cosine, factor)
