"""The comparison with a language model: `arena train` with the tiny model."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from arena_trainers.bench.learning import Run
from arena_trainers.bench.variants import variants

NUM_SEEDS = 5
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
