"""One run of the comparison of credit, tabular or of the tiny model, and the file of all runs."""

import json
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import comparing
from arena_trainers.cli.suggest import REFERENCE
from arena_trainers.credit import FlatPoolWarning, estimate, needed_columns
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
    ActionValues,
    ExactPolicy,
    Floats,
    Played,
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
            *("tic-tac-toe-tiny", "--max_steps", "60", "--eval_episodes", "50"),
            *("--critic", "null", "--critic_args", "{}", "--games", _TIC_TAC_TOE),
            *("--warm_start_steps", "300", "--warm_start_episodes", "1500"),
            *("--warm_start_batch_size", "64", "--episodes_per_step", "128"),
            *("--beta", "0.03"),
        ),
        "arena/tic_tac_toe/player_0/return",  # as first player
        higher=True,
    ),
    "mini_hanabi_model": ModelSetting(
        "Mini Hanabi, tiny model",
        ("mini-hanabi-tiny", "--max_steps", "24", "--eval_episodes", "50"),
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
WRITE_EVERY = 20  # runs
Found = dict[str, dict[str, dict[int, Run]]]  # by setting, variant, seed


def read_runs(path: Path) -> Found:
    """The runs of a results file with the settings and options of today."""
    found = comparing.read(path, made_with())
    return {
        setting: {
            name: {seed: Run(*run) for seed, run in seeds.items()}
            for name, seeds in variants_of.items()
        }
        for setting, variants_of in found.items()
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
    runs = read_runs(path)

    def keep(task: Task, run: Run, count: int) -> None:
        setting, name, seed = task
        add(runs, task, run)
        if count % WRITE_EVERY == 0 or setting in MODELS:
            write_runs(path, runs)
        tell(f"{count}/{len(todo)} {setting} {name} seed {seed}")

    try:
        comparing.do_runs(todo, _run, keep, num_jobs)
    finally:
        write_runs(path, runs)
    return runs


def _run(setting: str, name: str, seed: int) -> Run:
    return (learn if setting in SETTINGS else train)(setting, name, seed)
