"""One run of the comparison of credit, tabular or of the tiny model, and the file of all runs."""

import itertools
import json
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import comparing
from arena_credit import FlatPoolWarning, TurnBatch, estimate, needed_columns
from arena_trainers.cli.suggest import REFERENCE
from comparing import Task, add
from credit_settings import (
    NUM_POINTS,
    NUM_SAMPLES,
    NUM_STARTS,
    SETTINGS,
    Variant,
    graph_of,
    runnable,
    variants,
)
from tabular import (
    EXACT,
    ExactPolicy,
    Floats,
    Ints,
    Played,
    TabularPolicies,
    TabularPolicy,
    summed,
    with_exact_values,
)

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


def learn(setting: str, names: Sequence[str], seed: int) -> list[Run]:
    """Runs of variants, in lockstep; each is the same, to the last digit, as alone.

    Args:
        setting: a key of `SETTINGS`.
        names: keys of `variants()`.
        seed: of all random numbers.
    """
    variants_to_run = [variants()[name] for name in names]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FlatPoolWarning)
        learner = Learner(setting, variants_to_run, seed)
        learner.train(SETTINGS[setting].num_batches)
        if not SETTINGS[setting].exact:
            return [Run(curve, None, None, None) for curve in learner.curves]
        return [
            Run(curve, *gradient_of(setting, variant, seed))
            for curve, variant in zip(learner.curves, variants_to_run, strict=True)
        ]


class Learner:
    """Policies in training, in lockstep: one for each variant.

    Attributes:
        tables: the policies.
        curves: the points so far, of each.
    """

    def __init__(
        self, setting: str, variants_to_run: Sequence[Variant], seed: int
    ) -> None:
        self.setting = SETTINGS[setting]
        self.tables = TabularPolicies(graph_of(setting), len(variants_to_run))
        self.curves: list[list[float]] = [[] for _ in variants_to_run]
        self._credits = [Crediting(variant) for variant in variants_to_run]
        self._rngs = [np.random.default_rng(seed) for _ in variants_to_run]
        self._number = 0
        self._since: list[list[float]] = [[] for _ in variants_to_run]

    def play(self) -> list[Played]:
        """The next batch of each policy."""
        setting = self.setting
        return self.tables.play(setting.num_starts, setting.num_samples, self._rngs)

    def train(self, num_batches: int) -> None:
        """Trains on some batches; the step falls to 0 over those of the setting."""
        setting = self.setting
        for _ in range(num_batches):
            batches = self.play()
            advantages = [
                credit(self.tables[number], played)
                for number, (credit, played) in enumerate(
                    zip(self._credits, batches, strict=True)
                )
            ]
            step = setting.step * (1 - self._number / setting.num_batches)
            self.tables.update(batches, advantages, step, setting.bonus)
            self._number += 1
            for since, played in zip(self._since, batches, strict=True):
                since.append(played.mean_return)
            if self._number % (setting.num_batches // NUM_POINTS) == 0:
                for number, curve in enumerate(self.curves):
                    curve.append(round(self._point(number), 4))
                    self._since[number].clear()

    def _point(self, number: int) -> float:
        if not self.setting.exact:
            return float(np.mean(self._since[number]))
        exact = ExactPolicy(self.tables[number])
        if self.setting.measure == "return":
            return float(exact.returns().mean())
        return exact.nash_conv()


def with_surprise(turns: TurnBatch, policy: Floats, action: Ints) -> TurnBatch:
    """The batch with the log-probability of each action, its only token, and the entropy.

    Args:
        turns: of a batch.
        policy: float64[T, num_actions], of each turn.
        action: int64[T].
    """
    logs = np.log(np.where(policy > 0, policy, 1.0))
    logprob = logs[np.arange(len(action)), action]
    tokens = {"logprob": logprob, "entropy": -(policy * logs).sum(axis=1)}
    return replace(turns, tokens=tokens)


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
        if "surprise" in self._options:
            turns = with_surprise(turns, table.probabilities(played.row), played.action)
        credit = estimate(
            self._variant.estimator, turns, state=self._state, **self._options
        )
        self._state = credit.state
        return credit.advantage


class _Looked(NamedTuple):
    """A policy on the way, batches that it played, and its exact values and gradient.

    true: the exact advantage of each turn of each batch.
    """

    table: TabularPolicy
    batches: list[Played]
    true: list[Floats]
    gradient: Floats
    chances: Floats


@lru_cache(maxsize=2)
def _looked_at(setting: str, seed: int) -> _Looked:
    """The policy of the reference after a quarter of its batches; all variants share it."""
    learner = Learner(setting, [variants()[REFERENCE]], seed)
    learner.train(SETTINGS[setting].num_batches // 4)
    table = learner.tables[0]
    exact = ExactPolicy(table).action_values()
    batches = [learner.play()[0] for _ in range(NUM_WARM + NUM_LOOKED_AT)]
    true = [
        exact.action_value[played.row, played.action] - exact.value[played.row]
        for played in batches
    ]
    chances = table.probabilities(np.arange(len(table.graph.rows)))
    return _Looked(table, batches, true, exact.gradient, chances)


def gradient_of(
    setting: str, variant: Variant, seed: int
) -> tuple[float | None, float, float]:
    """Variance, cosine and direction of a variant, as in `Run`."""
    looked = _looked_at(setting, seed)
    credit = Crediting(variant)
    squares, products, gradients = [], [], []
    for number, played in enumerate(looked.batches):
        advantage, true = credit(looked.table, played), looked.true[number]
        if number < NUM_WARM:
            continue
        squares.append((np.mean(advantage**2), np.mean(true**2)))
        products.append(np.mean(advantage * true))
        gradients.append(summed(played.row, played.action, advantage, looked.chances))
    (own, ideal), slope = np.mean(squares, axis=0), float(np.mean(products))
    variance = float(own * ideal / slope**2) if slope > 0 else None
    cosines = [_cosine(found, looked.gradient) for found in gradients]
    mean = np.mean(gradients, axis=0)
    found = float(np.mean(cosines)), _cosine(mean, looked.gradient)
    return variance and round(variance, 3), round(found[0], 4), round(found[1], 4)


def _cosine(first: Floats, second: Floats) -> float:
    """The cosine of two gradients; 0 if one is 0."""
    size = float(np.sqrt((first**2).sum() * (second**2).sum()))
    return float((first * second).sum()) / size if size else 0.0


NUM_MODEL_SEEDS = 5
COMPARED = (
    "mars",
    "episode (game, seat)",
    "mars (group, seat)",
    "episode",
    "mars (group, seat, turn)",
)  # names of variants: `mars` and `episode` over equal pools, and the turn in the pool

MODEL_PAIRS = (("mars", "episode (game, seat)"), ("mars (group, seat)", "episode"))

_BOT = '"noisy:0.5(minimax)"'
_TIC_TAC_TOE = (  # in each seat
    f"[{{id: tic_tac_toe, opponents: [self, {_BOT}]}}, "
    f"{{id: tic_tac_toe, opponents: [{_BOT}, self]}}]"
)


@dataclass(frozen=True)
class ModelSetting:
    """A training run of the tiny model.

    Args:
        title: of the game.
        options: of `arena train`, besides those of the credit and the seed; the first may
            be the name of a recipe.
        metric: the curve, a key of `metrics.jsonl`.
        higher: whether more is better.
    """

    title: str
    options: tuple[str, ...]
    metric: str
    higher: bool = False


MODELS: Mapping[str, ModelSetting] = {
    "kuhn_model": ModelSetting("Kuhn poker, tiny model", (), "arena/nash_conv"),
    "tic_tac_toe_model": ModelSetting(
        "Tic-tac-toe, tiny model",
        (
            "tic-tac-toe-tiny",
            "--max_steps",
            "60",
            "--callbacks.eval_episodes",
            "50",
            "--critic",
            "null",
            "--critic_args",
            "{}",
            "--games",
            _TIC_TAC_TOE,
            "--warm_start.steps",
            "300",
            "--warm_start.episodes",
            "1500",
            "--warm_start.batch_size",
            "64",
            "--episodes_per_step",
            "128",
            "--beta",
            "0.03",
        ),
        "arena/tic_tac_toe/player_0/return",  # as first player
        higher=True,
    ),
    "mini_hanabi_model": ModelSetting(
        "Mini Hanabi, tiny model",
        ("mini-hanabi-tiny", "--max_steps", "24", "--callbacks.eval_episodes", "50"),
        "arena/mini_hanabi/player_0/return",
        higher=True,
    ),
}


def command(setting: str, name: str, seed: int, folder: str) -> list[str]:
    """The command line of a run.

    Args:
        setting: a key of `MODELS`.
        name: of a variant.
        seed: of the run.
        folder: of its files.
    """
    variant = variants()[name]
    options = [
        f"--{key}={value}"
        for key, value in (
            ("credit", variant.estimator),
            ("credit_args", json.dumps(dict(variant.options))),
            ("seed", seed),
            ("output_dir", folder),
        )
    ]
    start = [sys.executable, "-m", "arena_trainers", "train"]
    return [*start, *MODELS[setting].options, *options]


def train(setting: str, name: str, seed: int) -> Run:
    """A run of a variant: the metric at each step that logs it, without a gradient."""
    with tempfile.TemporaryDirectory() as folder:
        line = command(setting, name, seed, folder)
        subprocess.run(line, check=True, stdout=subprocess.DEVNULL)
        text = (Path(folder) / "metrics.jsonl").read_text()
    records = [json.loads(record) for record in text.splitlines()]
    key = MODELS[setting].metric
    measured = {r["step"]: r[key] for r in records if r.get(key) is not None}
    curve = [round(value, 4) for step, value in sorted(measured.items()) if step > 0]
    if not curve:
        raise ValueError(f"want {key} in the metrics of {line}, got none")
    return Run(curve, None, None, None)


NUM_SEEDS = 10
TOGETHER = 22  # tabular runs in lockstep; an interruption repeats those in progress
Found = dict[str, dict[str, dict[int, Run]]]  # by setting, variant, seed


def read_runs(path: Path) -> Found:
    """The runs of a results file with the settings and options of today."""
    runs = comparing.read(path, made_with())
    return {
        setting: {
            name: {seed: Run(*run) for seed, run in seeds.items()}
            for name, seeds in variants_of.items()
        }
        for setting, variants_of in runs.items()
    }


def made_with() -> dict[str, Any]:
    """What decides the numbers, as read back from JSON: batches, settings, options."""
    settings = {name: asdict(s) for name, s in SETTINGS.items()}
    settings |= {name: asdict(s) for name, s in MODELS.items()}
    options = {
        name: {"estimator": variant.estimator, **variant.all_options}
        for name, variant in variants().items()
    }
    batches = {
        "starts": NUM_STARTS,
        "samples": NUM_SAMPLES,
        "points": NUM_POINTS,
        "reference": REFERENCE,
        "looked_at": [NUM_WARM, NUM_LOOKED_AT],
    }
    return comparing.as_json(
        {"batches": batches, "settings": settings, "variants": options}
    )


def write_runs(path: Path, runs: Found) -> None:
    """Writes a results file with its settings and options; whole or not at all."""
    comparing.write(path, runs, made_with())


def missing(
    runs: Found, names: Sequence[str], settings: Sequence[str], num_seeds: int
) -> list[Task]:
    """The runs to do: (setting, variant, seed), by seed, then by setting.

    Args:
        runs: what there is.
        names: of variants.
        settings: keys of `SETTINGS` and `MODELS`.
        num_seeds: seeds count up from 0; of a model there are at most five.
    """
    return [
        (setting, name, seed)
        for seed in range(num_seeds)
        for setting in settings
        if setting in SETTINGS or seed < NUM_MODEL_SEEDS
        for name in (runnable(setting) if setting in SETTINGS else COMPARED)
        if name in names and seed not in runs.get(setting, {}).get(name, {})
    ]


def run_missing(
    path: Path, todo: Sequence[Task], num_jobs: int, tell: Callable[[str], None]
) -> Found:
    """Does runs in several processes; writes the file now and then, and at the end."""
    runs, done = read_runs(path), itertools.count(1)

    def keep(task: Task, variant_runs: Sequence[Run], _: int) -> None:
        setting, names, seed = task
        for name, run in zip(names, variant_runs, strict=True):
            add(runs, (setting, name, seed), run)
            tell(f"{next(done)}/{len(todo)} {setting} {name} seed {seed}")
        write_runs(path, runs)

    try:
        comparing.do_runs(_together(todo), _run, keep, num_jobs)
    finally:
        write_runs(path, runs)
    return runs


def _together(todo: Sequence[Task]) -> list[tuple[str, tuple[str, ...], int]]:
    """The runs of a setting and seed that follow each other, at most `TOGETHER` of a table."""
    groups = []
    for (setting, seed), tasks in itertools.groupby(todo, lambda one: (one[0], one[2])):
        names = [name for _, name, _ in tasks]
        most = TOGETHER if setting in SETTINGS else 1
        for start in range(0, len(names), most):
            groups.append((setting, tuple(names[start : start + most]), seed))
    return groups


def _run(setting: str, names: Sequence[str], seed: int) -> list[Run]:
    if setting in SETTINGS:
        return learn(setting, names, seed)
    return [train(setting, name, seed) for name in names]
