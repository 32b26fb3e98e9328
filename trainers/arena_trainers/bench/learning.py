"""One run of the comparison: what a variant learns, and how good its gradient is."""

import warnings
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from arena_trainers.bench.exact_values import (
    EXACT,
    ActionValues,
    ExactPolicy,
    with_exact_values,
)
from arena_trainers.bench.graph import Floats
from arena_trainers.bench.settings import (
    NUM_POINTS,
    SETTINGS,
    graph_of,
)
from arena_trainers.bench.tabular import Played, TabularPolicy, summed
from arena_trainers.bench.variants import Variant, variants
from arena_trainers.credit import FlatPoolWarning, estimate, needed_columns

REFERENCE = "mars"  # the trainer's default; the others are compared with it
NUM_WARM, NUM_LOOKED_AT = 10, 40  # batches that only a running mean sees, and others


class Run(NamedTuple):
    """The result of a run.

    curve: `NUM_POINTS` values of the setting's measure.
    variance: E[A²] E[A*²] / E[A A*]², with the exact advantage A*; at least 1. None where
        E[A A*] is not positive.
    cosine: between the gradient of a batch and the exact one; mean over batches.
    direction: cosine between the mean gradient of all batches and the exact one.

    The last three are None in a game that is too large for exact values.
    """

    curve: list[float]
    variance: float | None
    cosine: float | None
    direction: float | None


def learn(setting: str, name: str, seed: int) -> Run:
    """A run of a variant.

    Args:
        setting: a key of `SETTINGS`.
        name: a key of `variants()`.
        seed: of all random numbers.
    """
    variant = variants()[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FlatPoolWarning)
        learner = Learner(setting, variant, seed)
        learner.train(SETTINGS[setting].num_batches)
        if not SETTINGS[setting].exact:
            return Run(learner.curve, None, None, None)
        return Run(learner.curve, *gradient_of(setting, variant, seed))


class Learner:
    """A policy in training.

    Attributes:
        table: the policy.
        curve: the points so far.
    """

    def __init__(self, setting: str, variant: Variant, seed: int) -> None:
        self.setting = SETTINGS[setting]
        self.table = TabularPolicy(graph_of(setting))
        self.curve: list[float] = []
        self._credit = Crediting(variant)
        self._rng = np.random.default_rng(seed)
        self._number = 0
        self._since: list[float] = []

    def play(self) -> Played:
        """The next batch."""
        setting = self.setting
        return self.table.play(setting.num_starts, setting.num_samples, self._rng)

    def train(self, num_batches: int) -> None:
        """Trains on some batches; the step falls to 0 over those of the setting."""
        chosen = self.setting
        for _ in range(num_batches):
            played = self.play()
            self._since.append(played.mean_return)
            advantage = self._credit(self.table, played)
            step = chosen.step * (1 - self._number / chosen.num_batches)
            self.table.update(played, advantage, step, chosen.bonus)
            self._number += 1
            if self._number % (chosen.num_batches // NUM_POINTS) == 0:
                self.curve.append(round(self._point(), 4))
                self._since.clear()

    def _point(self) -> float:
        if not self.setting.exact:
            return float(np.mean(self._since))
        exact = ExactPolicy(self.table)
        if self.setting.measure == "return":
            return float(exact.returns().mean())
        return exact.nash_conv()


class Crediting:
    """A variant with the state of its estimator."""

    def __init__(self, variant: Variant) -> None:
        self._variant = variant
        self._options = variant.all_options
        self._exact = not EXACT.isdisjoint(needed_columns(variant.estimator))
        self._state: Mapping[str, Any] | None = None

    def __call__(self, table: TabularPolicy, played: Played) -> Floats:
        """The advantage of each turn."""
        turns = with_exact_values(table, played) if self._exact else played.turns
        credit = estimate(
            self._variant.estimator, turns, state=self._state, **self._options
        )
        self._state = credit.state
        return credit.advantage


class _Looked(NamedTuple):
    """A policy on the way, batches that it played, and its exact values."""

    table: TabularPolicy
    batches: list[Played]
    exact: ActionValues


@lru_cache(maxsize=2)
def _looked_at(setting: str, seed: int) -> _Looked:
    """The policy of the reference after a quarter of its batches; all variants share it."""
    learner = Learner(setting, variants()[REFERENCE], seed)
    learner.train(SETTINGS[setting].num_batches // 4)
    exact = ExactPolicy(learner.table).action_values()
    batches = [learner.play() for _ in range(NUM_WARM + NUM_LOOKED_AT)]
    return _Looked(learner.table, batches, exact)


def gradient_of(
    setting: str, variant: Variant, seed: int
) -> tuple[float | None, float, float]:
    """Variance, cosine and direction of a variant, as in `Run`."""
    table, batches, exact = _looked_at(setting, seed)
    credit = Crediting(variant)
    squares, products, gradients = [], [], []
    for number, played in enumerate(batches):
        advantage = credit(table, played)
        if number < NUM_WARM:
            continue
        row, action = played.row, played.action
        true = exact.action_value[row, action] - exact.value[row]
        squares.append((np.mean(advantage**2), np.mean(true**2)))
        products.append(np.mean(advantage * true))
        gradients.append(_gradient(table, played, advantage))
    (own, ideal), slope = np.mean(squares, axis=0), float(np.mean(products))
    variance = float(own * ideal / slope**2) if slope > 0 else None
    cosines = [_cosine(found, exact.gradient) for found in gradients]
    mean = np.mean(gradients, axis=0)
    found = float(np.mean(cosines)), _cosine(mean, exact.gradient)
    return variance and round(variance, 3), round(found[0], 4), round(found[1], 4)


def _cosine(one: Floats, other: Floats) -> float:
    """The cosine of two gradients; 0 if one is 0."""
    size = float(np.sqrt((one**2).sum() * (other**2).sum()))
    return float((one * other).sum()) / size if size else 0.0


def _gradient(table: TabularPolicy, played: Played, advantage: Floats) -> Floats:
    """float64[rows, num_actions]: the gradient that a batch estimates."""
    rows = np.arange(len(table.graph.rows))
    return summed(played.row, played.action, advantage, table.probabilities(rows))
