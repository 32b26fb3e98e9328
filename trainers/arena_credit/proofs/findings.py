"""The expected gradient of an estimator and its comparison to the true one: bias and variance.

A batch of B independent episodes of one group gives the estimate ĝ = 1/B Σ A ∇log π, over
its turns. The expectation of ĝ is the exact sum over all batches if there are at most 1,024 of
them. Otherwise it is the mean over random batches, with its standard error.

>>> from arena_credit.proofs.diagnostics import DIAGNOSTICS
>>> from arena_credit.proofs.exact import ExactGame
>>> game = ExactGame(DIAGNOSTICS["bandit"])
>>> play = game.at(game.policy())
>>> expected_gradient("mars_loo", play, 2).mean  # the true gradient
array([-0.25,  0.25])
>>> expected_gradient("mars", play, 2).mean  # shrunk by 1 - 1/2
array([-0.125,  0.125])

An audit of anyone's advantage function before the exact gradient of the diagnostic games.

    from arena_credit import audit

    assert audit(my_function, "verl").worst in ("exact", "scaled")

The function is called as its own trainer calls it; a turn of a game is one token there. A trajectory is
one seat of one episode. A group holds the trajectories of one seat: those of the same start.

| Signature | Call | Result |
|---|---|---|
| `turns` | `f(turns)` with a `TurnBatch` | float[N], or `Credit` |
| `trl` | `f(rewards, num_generations=n)` per group, with tensors: float[n] of returns | float[n] |
| `verl` | `f(token_level_rewards=, response_mask=, index=)`: tensors[R, K], and the group of each row | tensor[R, K], alone or first of a tuple |
| `episodes` | `f(rewards)` per group: a list of float[K] | a list of float[K] |
"""

import importlib
import itertools
import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache, partial
from itertools import combinations_with_replacement, product
from statistics import NormalDist
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np

from arena_credit.batch import Floats, Ints, TurnBatch
from arena_credit.by_name import (
    Estimator,
    default_options,
    estimate,
    needed_columns,
)
from arena_credit.claims import BIAS_KINDS, BIASES, BiasKind, Claims
from arena_credit.pools import Credit, FlatPoolWarning, check_choice
from arena_credit.proofs.diagnostics import DIAGNOSTICS
from arena_credit.proofs.exact import COLUMNS, ExactGame, ExactPlay
from arena_credit.trajectories import Trajectories, returns_to_go, trajectories

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
    lines: Sequence[int] | Ints,
    turns: TurnBatch | Ints | None = None,
    **options: Any,
) -> Floats:
    """float64[C]: the gradient estimate of a batch.

    Args:
        name: of the estimator, or `REINFORCE`.
        play: the game and the policy.
        lines: int[B], the line of each episode.
        turns: the batch, if it is made; or int[B], the group of each episode; None for one.
        **options: of the estimator.
    """
    if not isinstance(turns, TurnBatch):
        turns = play.batch(lines, turns)
    if name == REINFORCE:
        live = trajectories(turns)
        advantage = live.scatter(returns_to_go(live, live.column("reward")))
    else:
        advantage = estimate(name, turns, **options).advantage
    return play.summed(lines, advantage)


@lru_cache(maxsize=16)
def _all_batches(play: ExactPlay, size: int) -> tuple[tuple[Ints, TurnBatch], ...]:
    """Every batch of `size` lines, shared by all estimators."""
    lines = range(play.game.num_lines)
    every = map(np.asarray, itertools.product(lines, repeat=size))
    return tuple((batch, play.batch(batch)) for batch in every)


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
        batches = ((batch, play.batch(batch)) for batch in lines)
    gradients, weights = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FlatPoolWarning)
        for batch, turns in batches:
            gradients.append(gradient_estimate(name, play, batch, turns, **options))
            weights.append(play.probability[batch].prod() if few else 1 / num_batches)
    weight, estimates = np.array(weights), np.array(gradients)
    mean = weight @ estimates
    variance = weight @ (estimates - mean) ** 2
    error = np.zeros_like(mean) if few else np.sqrt(variance / (num_batches - 1))
    return Expectation(mean, variance, error, len(gradients))


def agrees(expectation: Expectation, truth: Floats) -> bool:
    """True if an expectation equals the true gradient.

    Up to rounding if all batches were enumerated. Otherwise by a z-test of each component,
    |mean - truth| / error, with Bonferroni's correction over the components: a correct
    expectation is refused with probability 0.001.
    """
    if not expectation.error.any():
        return bool(np.allclose(expectation.mean, truth, atol=1e-9))
    wide = -NormalDist().inv_cdf(MISTAKE / 2 / len(truth))
    slack = wide * expectation.error + 1e-9
    return bool((np.abs(expectation.mean - truth) <= slack).all())


class Verdict(NamedTuple):
    """Compares an expected gradient to the true one.

    kind: the worst over the seats, see `claims`; "zero" only if it is 0 for every seat.
    cosine: the smallest over the seats.
    factor: the one that minimises |mean - factor · truth|.
    """

    kind: BiasKind
    cosine: float
    factor: float

    @property
    def bias(self) -> float:
        """The bias of the worst seat, after its mean is scaled: the tangent of the angle.

        |mean / c - truth| / |truth|, with the c for which the component of mean / c along truth
        is truth: 0 for a multiple of the gradient, infinite at 90 degrees or more.

        >>> round(Verdict("direction", 0.8, 1.3).bias, 9)
        0.75
        """
        if self.cosine <= 0:
            return math.inf
        return math.sqrt(max(1 / self.cosine**2 - 1, 0.0))


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
        if size <= tolerance * length:  # first: the direction of rounding means nothing
            scaled = False
            cosines.append(0.0)
            continue
        along = got @ want / length**2
        off = np.linalg.norm(got - along * want)
        scaled &= bool(along > 0 and off <= tolerance * max(size, tolerance))
        cosines.append(float(got @ want / (size * length)))
    cosine = min(cosines, default=1.0)
    factor = float(mean @ truth / (truth @ truth))
    kind: BiasKind = "direction" if cosine > tolerance else "reversed"
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
        lines, groups = play.grouped_population(size)
        return lines, play.batch(lines, groups)
    lines = play.population(size)
    return lines, play.batch(lines)


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
    alone, many = (
        compare(gradient, truth, seat, tolerance) for gradient in (large, shared)
    )
    return Finding(two, alone, many, variance)


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
    weighted_batches = []
    for a, b in combinations_with_replacement(range(len(groups)), 2):
        (first_chance, first), (second_chance, second) = groups[a], groups[b]
        lines_of_both = np.array([*first, *second])
        weighted_batches.append(
            (
                first_chance * second_chance * (1 + (a != b)),
                lines_of_both,
                play.batch(lines_of_both, PAIRS),
            )
        )
    return tuple(weighted_batches)


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
    gradients = np.array(
        [
            gradient_estimate(name, play, d, turns, **options)
            for _, d, turns in _pairs(game)
        ]
    )
    mean = weight @ gradients
    factor = float(mean @ play.gradient / (play.gradient @ play.gradient))
    if factor <= 0:
        return math.inf
    return float((weight @ (gradients - mean) ** 2).sum() / factor**2)


def noises(name: str | Estimator) -> dict[str, float]:
    """`exact_variance` in each diagnostic game without a limit, relative to `rloo`."""
    games = [name for name, game in DIAGNOSTICS.items() if game.max_turns is None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FlatPoolWarning)
        return {g: exact_variance(name, g) / exact_variance("rloo", g) for g in games}


def found_claims(findings: Mapping[str, Finding]) -> Claims:
    """The strongest claims about bias that agree with the findings."""
    cut = [game for game in findings if DIAGNOSTICS[game].max_turns is not None]
    bootstraps = all(
        findings[game].bias_infinite.kind in BIAS_KINDS[:3] for game in cut
    )
    counted = [f for game, f in findings.items() if bootstraps or game not in cut]
    kinds = {name: [getattr(f, name).kind for f in counted] for name in BIASES}
    worst = {name: max(each, key=BIAS_KINDS.index) for name, each in kinds.items()}
    return Claims(**worst, bootstraps=bootstraps)


Signature = Literal["turns", "trl", "verl", "episodes"]
# Games whose episodes are cut need a critic, which these signatures do not pass on.
GAMES = tuple(name for name, game in DIAGNOSTICS.items() if game.max_turns is None)
OF_FUNCTIONS = 1e-5  # relative: many functions compute with 32 bits
# Random batches, and episodes of each, if the verdict of the large batch differs from that of small ones.
RANDOM_BATCHES, RANDOM_EPISODES = 64, 128


class AuditRow(NamedTuple):
    """The verdicts in a diagnostic game, by batch; none if the function failed.

    A batch is `"2"` and the like, one group of so many episodes; or `"large"`, every line of play in
    proportion. Where the game has chance also `"2, shared chance"`: all episodes draw the same.
    `"2 + 2"`: two groups of two, each of which draws the same.
    The large batch is one batch: it is left out where it is wrong, all smaller ones are right, and
    64 random batches of 128 episodes do not differ from the gradient (z-test, see `agrees`).

    `noise` is the variance of the gradient, by batch: Σ Var(ĝ) over the logits, of ĝ scaled to the
    true gradient's size (by the factor of `Verdict`), relative to that of `rloo`. Infinite where
    the factor is not positive.
    """

    game: str
    verdicts: dict[str, Verdict]
    error: str = ""  # what the function raised or returned, where it failed
    noise: Mapping[str, float] = MappingProxyType({})


class Counterexample(NamedTuple):
    """The smallest game, and its first batch, in which the expected gradient is reversed."""

    game: str
    batch: str
    # of each logit: seat, information state, number of the action, true and expected gradient
    lines: list[tuple[int, Any, int, float, float]]


class Audit(NamedTuple):
    """The result of `audit`."""

    rows: list[AuditRow]
    counterexample: Counterexample | None

    @property
    def worst(self) -> BiasKind | Literal["error"]:
        """The worst verdict: exact, scaled, direction, zero, reversed; or error."""
        if any(row.error for row in self.rows):
            return "error"
        kinds = (v.kind for row in self.rows for v in row.verdicts.values())
        return max(kinds, key=BIAS_KINDS.index)


def audit(
    function: Callable[..., Any],
    signature: Signature = "turns",
    *,
    games: Sequence[str] = GAMES,
    sizes: Sequence[int] = (2, 4),
) -> Audit:
    """Compares the expected gradient of an advantage function with the true one.

    Args:
        function: as in the table of this module.
        signature: which row of the table.
        games: diagnostic games.
        sizes: of the batches, all of which are enumerated. From 3 on in one order each: a
            function that depends on the order has batches of up to two alone. With a size of 3
            or more, all batches of two groups of two are tried, too.

    Raises:
        ValueError: unknown signature or game, or no games or sizes.
    """
    check_choice("a signature", signature, tuple(_CALLS))
    if isinstance(games, str) or not games:
        raise ValueError(f"want a list of games, got {games!r}; pass games=['bandit']")
    if not sizes or not all(isinstance(size, int) and size > 0 for size in sizes):
        raise ValueError(
            f"want numbers of episodes, of at least 1, got {sizes!r}; pass sizes=(2, 4)"
        )
    for game in games:
        check_choice("games", game, tuple(DIAGNOSTICS))
    call = partial(_CALLS[signature], function)
    rows, counterexample = {}, None
    for game in sorted(games, key=lambda game: play_of(game).game.num_lines):
        play = play_of(game)
        try:
            estimates = _expected(call, game, tuple(sizes))
        except Exception as error:  # of a function that is not ours: a finding
            rows[game] = AuditRow(game, {}, f"{type(error).__name__}: {error}"[:200])
            continue
        verdicts = {
            batch: compare(estimate.mean, play.gradient, play.game.seat, estimate.near)
            for batch, estimate in estimates.items()
        }
        for large in {"large", "large, shared chance"} & verdicts.keys():
            kinds = [verdicts[f"{n}{large[5:]}"].kind for n in sizes]
            small = max(kinds, key=BIAS_KINDS.index)
            is_worse = BIAS_KINDS.index(verdicts[large].kind) > BIAS_KINDS.index(small)
            # the large batch is a single one, in which a median may jump: random batches decide
            if (
                small in BIAS_KINDS[:2]
                and is_worse
                and _right_at_random(call, game, small, shared="shared" in large)
            ):
                del verdicts[large]
        noise = _relative_noise(game, tuple(sizes), estimates, verdicts)
        rows[game] = AuditRow(game, verdicts, noise=noise)
        wrong = [batch for batch, v in verdicts.items() if v.kind == "reversed"]
        if wrong and counterexample is None:
            lines = []
            for column, infoset in enumerate(play.game.infoset):
                number = column - int(np.flatnonzero(play.game.infoset == infoset)[0])
                gradients = (play.gradient, estimates[wrong[0]].mean)
                true, got = (float(gradient[column]) for gradient in gradients)
                lines.append((*play.game.keys[infoset], number, true, got))
            counterexample = Counterexample(game, wrong[0], lines)
    return Audit([rows[game] for game in games], counterexample)


Call = Callable[[Trajectories], Floats]


class _Estimates(NamedTuple):
    """float64[C], the mean over all batches, and the sum of its variances; None for one batch.

    near: relative tolerance of comparisons.
    """

    mean: Floats
    variance: float | None
    near: float


def _estimates(weight: Floats, gradients: Floats) -> _Estimates:
    mean = np.asarray(weight @ gradients, np.float64)
    variance = float((weight @ (gradients - mean) ** 2).sum())
    return _Estimates(mean, variance, OF_FUNCTIONS)


def _expected(call: Call, game: str, sizes: tuple[int, ...]) -> dict[str, _Estimates]:
    """The estimates by batch."""
    play = play_of(game)
    estimates: dict[str, _Estimates] = {}
    names = ("", ", shared chance")[: 1 + has_chance(game)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FlatPoolWarning)
        for size in sorted(sizes):
            lines, batches, weights = _batches(game, size)
            gradients = _gradients(call, play, batches)
            if size > 2 and _by_order(call, play, lines, gradients):
                return estimates  # one order of each batch would not do
            for name, weight in zip(names, weights, strict=False):
                estimates[f"{size}{name}"] = _estimates(weight, gradients)
        if max(sizes) > 2:
            pairs = _pairs(game)
            batches = [trajectories(turns) for _, _, turns in pairs]
            chances = np.array([chance for chance, _, _ in pairs])
            estimates["2 + 2"] = _estimates(chances, _gradients(call, play, batches))
        for name in names:
            group = trajectories(large_group(game, shared=bool(name))[1])
            mean = _gradients(call, play, [group])[0]
            estimates[f"large{name}"] = _Estimates(mean, None, TOLERANCE)
    return estimates


def _right_at_random(call: Call, game: str, kind: BiasKind, *, shared: bool) -> bool:
    """True if the mean over random batches agrees with the gradient, or with a multiple of it.

    The gradient of `rloo` on the same batches, which is exact, stands for the true one.

    Args:
        call: gives the advantages of a batch.
        game: a diagnostic game.
        kind: "exact", or "scaled" for a multiple.
        shared: whether groups share the draws of chance; else there is one group.
    """
    play, rng = play_of(game), np.random.default_rng(0)
    chance, allowed = play.game.starts
    likely = np.where(allowed, play.probability / play.game.flat.chance, 0.0)
    if not shared:
        chance, likely = np.ones(1), play.probability[None]
    group_size = RANDOM_EPISODES // (8 if shared else 1)
    groups = np.arange(RANDOM_EPISODES) // group_size
    batches = []
    for _ in range(RANDOM_BATCHES):
        starts = rng.choice(len(chance), groups[-1] + 1, p=chance / chance.sum())
        lines = [rng.choice(len(p), group_size, p=p / p.sum()) for p in likely[starts]]
        batches.append(trajectories(play.batch(np.concatenate(lines), groups)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FlatPoolWarning)
        gradients = _gradients(call, play, batches)
        exact = _gradients(partial(_by_turns, partial(estimate, "rloo")), play, batches)
    truth, factor = play.gradient, 1.0
    if kind != "exact":
        factor = float(gradients.mean(0) @ truth / (truth @ truth))
    off = gradients - factor * exact
    error = off.std(0, ddof=1) / math.sqrt(len(off))
    expectation = Expectation(off.mean(0), off.var(0), error, len(off))
    return factor > 0 and agrees(expectation, np.zeros_like(truth))


def _relative_noise(
    game: str,
    sizes: tuple[int, ...],
    estimates: Mapping[str, _Estimates],
    verdicts: Mapping[str, Verdict],
) -> dict[str, float]:
    """The variance of a function by batch, relative to that of `rloo`; see `AuditRow`."""
    reference, noise = _of_rloo(game, sizes), {}
    for batch, (_, variance, _) in estimates.items():
        if variance is not None and batch in verdicts:
            factor = verdicts[batch].factor
            scaled = variance / factor**2 if factor > 0 else math.inf
            noise[batch] = scaled / reference[batch]
    return noise


@cache
def _of_rloo(game: str, sizes: tuple[int, ...]) -> dict[str, float]:
    """The variances of `rloo`, which is exact, by batch."""
    call = partial(_by_turns, partial(estimate, "rloo"))
    estimates = _expected(call, game, sizes)
    return {b: e.variance for b, e in estimates.items() if e.variance is not None}


def _gradients(call: Call, play: ExactPlay, batches: Sequence[Trajectories]) -> Floats:
    """float64[N, C]: the gradient estimates of N batches; an action is the number of its column."""
    size, advantages = len(play.policy), []
    for turns in batches:
        advantages.append(advantage := call(turns))
        if advantage.shape != turns.index.shape:
            want = f"an advantage for each of {len(turns.index)} turns"
            raise ValueError(f"want {want}, got an array of shape {advantage.shape}")
        if not np.isfinite(advantage).all():
            raise ValueError("want finite advantages, got NaN or infinity")
    places = [n * size + turns.column("action") for n, turns in enumerate(batches)]
    flat = np.concatenate(places), np.concatenate(advantages), len(batches) * size
    num = [turns.batch.episode.max() + 1 for turns in batches]
    weight = np.bincount(*flat).reshape(-1, size) @ play.scores
    return np.asarray(weight / np.array(num)[:, None], np.float64)


def _by_order(call: Call, play: ExactPlay, lines: Ints, gradients: Floats) -> bool:
    """True if another order of the episodes gives another gradient, in 50 random batches."""
    rng = np.random.default_rng(0)
    some = rng.integers(len(lines), size=50)
    orders = [trajectories(play.batch(rng.permutation(lines[i]))) for i in some]
    near = OF_FUNCTIONS * float(np.abs(gradients).max())
    gaps = np.abs(gradients[some] - _gradients(call, play, orders))
    return bool((gaps > near).any())


@lru_cache(maxsize=4 * len(GAMES))
def _batches(game: str, size: int) -> tuple[Ints, list[Trajectories], Floats]:
    """All batches of one group: lines of play, int64[N, B], and turns.

    Then float64[2, N], their probabilities: own chance, shared chance. Batches of more than two, which
    are many, have one random order each.
    """
    play, rng = play_of(game), np.random.default_rng(0)
    start, allowed = play.game.starts
    likely = np.where(allowed, play.probability / play.game.flat.chance, 0.0)
    lines, ordered = range(play.game.num_lines), size <= 2
    every: Iterable[tuple[int, ...]] = product(lines, repeat=size)
    if not ordered:
        every = combinations_with_replacement(lines, size)
    lots, weights = [], []
    for batch in every:
        sample, orders = np.array(batch), 1
        if not ordered:
            sample = rng.permutation(sample)
            alike = map(math.factorial, Counter(batch).values())
            orders = math.factorial(size) // math.prod(alike)
        lots.append(sample)
        shared = start @ likely[:, sample].prod(axis=1)
        weights.append([orders * play.probability[sample].prod(), orders * shared])
    turns = [trajectories(play.batch(sample)) for sample in lots]
    return np.array(lots), turns, np.transpose(weights)


def _places(turns: Trajectories) -> Ints:
    """int64[M]: the number of each turn in its trajectory, from 0."""
    return turns.num_turns - 1 - turns.left


def _groups(turns: Trajectories) -> list[Ints]:
    """The trajectories of each group and seat, as indices."""
    group, seat = (turns.column(name)[turns.first] for name in ("group", "seat"))
    key = group * (seat.max() + 1) + seat
    return [np.flatnonzero(key == value) for value in np.unique(key)]


def _by_turns(function: Callable[..., Any], turns: Trajectories) -> Floats:
    result = function(turns.batch)
    result = result.advantage if isinstance(result, Credit) else result
    return np.asarray(result, np.float64)[turns.row]


def _by_trl(function: Callable[..., Any], turns: Trajectories) -> Floats:
    torch: Any = importlib.import_module("torch")
    returns = np.bincount(turns.index, turns.column("reward"))
    credit = np.zeros(len(returns))
    for group in _groups(turns):
        advantages = function(
            torch.as_tensor(returns[group]), num_generations=len(group)
        )
        credit[group] = np.asarray(advantages, np.float64)
    return credit[turns.index]


def _by_verl(function: Callable[..., Any], turns: Trajectories) -> Floats:
    torch: Any = importlib.import_module("torch")
    place, num = _places(turns), len(turns.first)
    rewards = torch.zeros(num, int(turns.num_turns.max()), dtype=torch.float64)
    mask = torch.zeros_like(rewards)
    rewards[turns.index, place] = torch.as_tensor(turns.column("reward"))
    mask[turns.index, place] = 1
    index = np.empty(num, dtype=object)
    for number, group in enumerate(_groups(turns)):
        index[group] = f"group-{number}"
    advantages = function(token_level_rewards=rewards, response_mask=mask, index=index)
    advantages = advantages[0] if isinstance(advantages, tuple) else advantages
    return np.asarray(advantages, np.float64)[turns.index, place]


def _by_episodes(function: Callable[..., Any], turns: Trajectories) -> Floats:
    order, place = np.argsort(turns.index, kind="stable"), _places(turns)
    ends = np.cumsum(np.bincount(turns.index))[:-1]
    rewards = np.split(turns.column("reward")[order], ends)
    credit = [np.zeros(len(turn_rewards)) for turn_rewards in rewards]
    for group in _groups(turns):
        advantages = function([rewards[i].copy() for i in group])
        for i, turn_advantages in zip(group, advantages, strict=True):
            credit[i] = np.asarray(turn_advantages, np.float64)
            if credit[i].shape != rewards[i].shape:
                want = f"{len(rewards[i])} advantages of a trajectory"
                raise ValueError(f"want {want}, got shape {credit[i].shape}")
    flat = np.concatenate(credit)
    start = np.cumsum([0, *map(len, credit)])[turns.index]
    return flat[start + place]


_CALLS: dict[str, Callable[[Callable[..., Any], Trajectories], Floats]] = {
    "turns": _by_turns,
    "trl": _by_trl,
    "verl": _by_verl,
    "episodes": _by_episodes,
}
