"""The expected gradient of an estimator, and its comparison to the true one.

A batch of B independent episodes of one group gives the estimate ĝ = 1/B Σ A ∇log π, over
its turns. The expectation of ĝ is the exact sum over all batches if there are at most 1,024 of
them. Otherwise it is the mean over random batches, with its standard error.

>>> from arena_trainers.credit.proofs.diagnostics import DIAGNOSTICS
>>> from arena_trainers.credit.proofs.exact import ExactGame
>>> game = ExactGame(DIAGNOSTICS["bandit"])
>>> play = game.at(game.policy())
>>> expected_gradient("mars_loo", play, 2).mean  # the true gradient
array([-0.25,  0.25])
>>> expected_gradient("mars", play, 2).mean  # shrunk by 1 - 1/2
array([-0.125,  0.125])
"""

import itertools
import warnings
from collections.abc import Iterable, Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from arena_trainers.credit.batch import Floats, Ints, TurnBatch
from arena_trainers.credit.by_name import Estimator, estimate
from arena_trainers.credit.pools import FlatPoolWarning
from arena_trainers.credit.proofs.claims import Kind
from arena_trainers.credit.proofs.exact import ExactPlay
from arena_trainers.credit.trajectories import returns_to_go, trajectories

MAX_BATCHES = 1024  # more are sampled instead of enumerated
MISTAKE = 1e-3  # probability that the z-test refuses a correct expectation
REINFORCE = "reinforce"  # the return-to-go itself; no estimator of the registry


class Expectation(NamedTuple):
    """The distribution of the gradient estimate over batches.

    mean, variance: float64[C].
    error: float64[C], standard error of the mean; 0 if all batches were enumerated.
    num_batches: number of batches.
    """

    mean: Floats
    variance: Floats
    error: Floats
    num_batches: int


def gradient_estimate(
    name: str | Estimator,
    play: ExactPlay,
    drawn: Sequence[int] | Ints,
    turns: TurnBatch | Ints | None = None,
    **options: Any,
) -> Floats:
    """float64[C]: the gradient estimate of a batch.

    Args:
        name: of the estimator, or `REINFORCE`.
        play: the game and the policy.
        drawn: int[B], the line of each episode.
        turns: the batch, if it is made; or int[B], the group of each episode; None for one.
        **options: of the estimator.
    """
    if not isinstance(turns, TurnBatch):
        turns = play.batch(drawn, turns)
    if name == REINFORCE:
        live = trajectories(turns)
        advantage = live.scatter(returns_to_go(live, live.column("reward")))
    else:
        advantage = estimate(name, turns, **options).advantage
    return play.summed(drawn, advantage)


@lru_cache(maxsize=16)
def _all_batches(play: ExactPlay, size: int) -> tuple[tuple[Ints, TurnBatch], ...]:
    """Every batch of `size` lines, shared by all estimators."""
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
        num_batches: number of random batches, if more than 1,024 batches exist.
        seed: of the random batches.
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
            found.append(gradient_estimate(name, play, drawn, turns, **options))
            weights.append(play.probability[drawn].prod() if few else 1 / num_batches)
    weight, estimates = np.array(weights), np.array(found)
    mean = weight @ estimates
    variance = weight @ (estimates - mean) ** 2
    error = np.zeros_like(mean) if few else np.sqrt(variance / (num_batches - 1))
    return Expectation(mean, variance, error, len(found))


def agrees(found: Expectation, truth: Floats) -> bool:
    """True if an expectation equals the true gradient.

    Up to rounding if all batches were enumerated. Otherwise by a z-test of each component,
    |mean - truth| / error, with Bonferroni's correction over the components: a correct
    expectation is refused with probability 0.001.
    """
    if not found.error.any():
        return bool(np.allclose(found.mean, truth, atol=1e-9))
    wide = -NormalDist().inv_cdf(MISTAKE / 2 / len(truth))
    slack = wide * found.error + 1e-9
    return bool((np.abs(found.mean - truth) <= slack).all())


class Verdict(NamedTuple):
    """Compares an expected gradient to the true one.

    kind: the worst over the seats, see `claims`; "zero" only if it is 0 for every seat.
    cosine: the smallest over the seats.
    factor: the one that minimises |mean - factor · truth|.
    """

    kind: Kind
    cosine: float
    factor: float


def compare(
    mean: Floats, truth: Floats, seat: Ints, tolerance: float = 1e-9
) -> Verdict:
    """Compares gradients seat by seat.

    Args:
        mean: float64[C], expected gradient of the estimator.
        truth: float64[C], true gradient.
        seat: int64[C], the seat of each logit.
        tolerance: relative; smaller differences count as equal.
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
