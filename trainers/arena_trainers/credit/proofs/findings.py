"""The expected gradient of an estimator and its comparison to the true one: bias and variance.

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
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import combinations_with_replacement
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from arena_trainers.credit.batch import Floats, Ints, TurnBatch
from arena_trainers.credit.by_name import (
    Estimator,
    default_options,
    estimate,
    needed_columns,
)
from arena_trainers.credit.pools import FlatPoolWarning
from arena_trainers.credit.proofs.claims import KINDS, Claims, Kind
from arena_trainers.credit.proofs.diagnostics import DIAGNOSTICS
from arena_trainers.credit.proofs.exact import COLUMNS, ExactGame, ExactPlay
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


SMALL, LARGE = 2, 4096  # episodes of a batch; LARGE at least, and in proportion
TOLERANCE = 2e-3  # of a population: leave-one-out is n / (n - 1) there
ORDERED = 8 * LARGE  # where the order of episodes matters, and one is looked at
ORDER_TOLERANCE = 0.03  # likewise


class Finding(NamedTuple):
    """Findings about an estimator on one game.

    two, large: of the expected gradient, by size of the batch. shared: of that of large
    groups that share the draws of chance; `bias_infinite` in games without chance. variance: of the
    gradient of batches of two, relative to REINFORCE's once scaled to the true gradient's
    size; None where that would take a negative factor.
    """

    bias_two: Verdict
    bias_infinite: Verdict
    bias_shared_chance: Verdict
    variance: float | None


@cache
def play_of(game: str) -> ExactPlay:
    """A diagnostic game with its policy."""
    diagnostic = DIAGNOSTICS[game]
    exact = ExactGame(diagnostic, diagnostic.max_turns)
    return exact.at(exact.policy(diagnostic.weights))


def has_chance(game: str) -> bool:
    """True if a diagnostic game has draws of chance that a group can share."""
    return len(play_of(game).game.starts[0]) > 1


@cache
def large_group(
    game: str, size: int = LARGE, shared: bool = False
) -> tuple[Ints, TurnBatch]:
    """One large group; or large groups, each of which shares the draws of chance."""
    play = play_of(game)
    if shared:
        drawn, groups = play.grouped_population(size)
        return drawn, play.batch(drawn, groups)
    drawn = play.population(size)
    return drawn, play.batch(drawn)


@cache
def _reinforce(game: str) -> Expectation:
    return expected_gradient(REINFORCE, play_of(game), SMALL)


def undefined(name: str | Estimator) -> list[str]:
    """The columns that an estimator needs and batches of diagnostic games do not have."""
    return [column for column in needed_columns(name) if column not in COLUMNS]


def undiscounted(name: str | Estimator) -> dict[str, Any]:
    """Options with which an estimator uses undiscounted returns."""
    return {"discount": 1.0} if "discount" in default_options(name) else {}


@cache
def examine(name: str | Estimator, game: str) -> Finding:
    """Looks at an estimator, with default options and γ = 1, on a diagnostic game."""
    play = play_of(game)
    truth, seat = play.gradient, play.game.seat
    options = undiscounted(name) if name != REINFORCE else {}
    small = expected_gradient(name, play, SMALL, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FlatPoolWarning)
        ordered = (
            name != REINFORCE and estimate(name, play.batch([0])).state is not None
        )
        size = ORDERED if ordered else LARGE
        large = gradient_estimate(name, play, *large_group(game, size), **options)
        shared = large
        if has_chance(game):
            shared = gradient_estimate(
                name, play, *large_group(game, shared=True), **options
            )
    two = compare(small.mean, truth, seat)
    variance = None
    if two.factor > 0:
        variance = float(small.variance.sum() / _reinforce(game).variance.sum())
        variance /= two.factor**2
    tolerance = ORDER_TOLERANCE if ordered else TOLERANCE
    one, many = (compare(found, truth, seat, tolerance) for found in (large, shared))
    return Finding(two, one, many, variance)


PAIRS = np.array([0, 0, 1, 1])  # groups of the episodes of a batch


@cache
def _pairs(game: str) -> tuple[tuple[float, Ints, TurnBatch], ...]:
    """Every batch of two groups of two with its probability, whatever the order."""
    play = play_of(game)
    chance, allowed = play.game.starts
    groups: list[tuple[float, list[int]]] = []
    for start, lines in zip(chance, allowed, strict=True):
        likely = np.where(lines, play.probability / play.game.flat.chance, 0.0)
        two = combinations_with_replacement(np.flatnonzero(likely).tolist(), 2)
        groups += [
            (start * likely[i] * likely[j] * (1 + (i != j)), [i, j]) for i, j in two
        ]
    found = []
    for a, b in combinations_with_replacement(range(len(groups)), 2):
        (one, first), (other, second) = groups[a], groups[b]
        drawn = np.array([*first, *second])
        found.append((one * other * (1 + (a != b)), drawn, play.batch(drawn, PAIRS)))
    return tuple(found)


@cache
def exact_variance(name: str | Estimator, game: str) -> float:
    """Σ Var(ĝ) over the logits, for batches of two groups of two that share their chance.

    By enumeration of all batches, with default options and γ = 1, and divided by the square
    of the factor of `Verdict`: of ĝ scaled to the true gradient's size. Infinite where that
    would take a negative factor.

    Raises:
        ValueError: the estimator keeps a state, so that the order of the episodes matters.
    """
    play, options = play_of(game), undiscounted(name)
    if estimate(name, play.batch([0]), **options).state is not None:
        raise ValueError(
            f"want an estimator without a state, got {name!r}: its variance depends on the "
            "order of the episodes; leave the variance out"
        )
    weight = np.array([chance for chance, _, _ in _pairs(game)])
    found = np.array(
        [
            gradient_estimate(name, play, d, turns, **options)
            for _, d, turns in _pairs(game)
        ]
    )
    mean = weight @ found
    factor = float(mean @ play.gradient / (play.gradient @ play.gradient))
    if factor <= 0:
        return math.inf
    return float((weight @ (found - mean) ** 2).sum() / factor**2)


def noises(name: str | Estimator) -> dict[str, float]:
    """`exact_variance` in each diagnostic game without a limit, relative to `rloo`."""
    games = [name for name, game in DIAGNOSTICS.items() if game.max_turns is None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FlatPoolWarning)
        return {g: exact_variance(name, g) / exact_variance("rloo", g) for g in games}


def found_claims(findings: Mapping[str, Finding]) -> Claims:
    """The strongest claims about bias that agree with the findings."""
    cut = [game for game in findings if DIAGNOSTICS[game].max_turns is not None]
    bootstraps = all(findings[game].bias_infinite.kind in KINDS[:3] for game in cut)
    counted = [f for game, f in findings.items() if bootstraps or game not in cut]
    return Claims(
        bias_two=_worst(f.bias_two.kind for f in counted),
        bias_infinite=_worst(f.bias_infinite.kind for f in counted),
        bias_shared_chance=_worst(f.bias_shared_chance.kind for f in counted),
        bootstraps=bootstraps,
    )


def _worst(kinds: Iterable[Kind]) -> Kind:
    return max(kinds, key=KINDS.index)
