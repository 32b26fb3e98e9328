"""Language games learned by self-play: returns with frozen strangers before and after.

    python benchmarks/language_rl.py
    python docs/build_language.py --write

The first command does the missing runs one after another, and adds each to
`docs/games/language.json`; the second writes the page. A run is `arena train` with the tiny model, then
`arena eval` of the model before (`start`) and after self-play (`model`). A stranger is a scripted player
that did not learn with the model.
"""

import contextlib
import io
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import typer
import yaml

from arena_trainers.cli import main as cli
from arena_trainers.runs.mappings import typed_words
from comparing import (
    NumSeeds,
    OnlySettings,
    chosen,
    kept_runs,
    missing,
    read,
    run_missing,
    run_script,
    tell_outdated,
)
from gains import be_quiet

FILE = Path("docs", "games", "language.json")
SELF_PLAY = "self_play"  # the one way to learn here
NUM_EPISODES = 200  # per seat of an evaluation
NUM_SHOWN = 2  # episodes whose replies are kept
SEED = 10**6  # of the first episode of an evaluation; training draws others


@dataclass(frozen=True)
class Setting:
    """A small variant of a game, and a stranger that plays it.

    Args:
        params: of the game.
        stranger: policy string of the scripted player.
    """

    params: Mapping[str, Any]
    stranger: str


SETTINGS: dict[str, Setting] = {
    "say_select": Setting(
        {"num_balls": 3, "max_paying": 1, "num_rounds": 1}, "say_selector:honest"
    ),
    "taboo": Setting(
        {"num_cards": 3, "num_rounds": 1, "show_words": True}, "taboo:honest"
    ),
    "negotiation": Setting(
        {
            "num_rounds": 1,
            "num_offers": 9,
            "min_gain": 0.25,
            "factors": [[0.5, 0.75], [1.0, 1.25]],
        },
        "negotiator:honest",
    ),
    "persuasion": Setting(
        {"num_rounds": 2, "prior": 0.4, "value": 2.0}, "persuader:honest"
    ),
    "auction": Setting(
        {
            "num_players": 2,
            "items": [[3, 1, 0]],
            "budget": 8,
            "pricing": "first",
            "messages": False,
        },
        "bidder:honest",
    ),
}
OPTIONS: dict[str, Any] = {
    "parsing": "tolerant",
    "max_completion_length": 8,
    "max_steps": 100,
    "episodes_per_step": 128,
    "learning_rate": 1e-3,
    "beta": 0.05,
    "sync_ref_model": False,
    "evaluate_every": 0,
    "eval_episodes": 20,
    "saved_episodes": 2,
    "saved_groups": 0,
    "save_best": False,
    "logging_steps": 50,
    "save_steps": 100,
}


def train_arguments(game: str, seed: int, folder: str) -> list[str]:
    """The arguments of `arena` for a run's training."""
    setting = SETTINGS[game]
    options = {
        **OPTIONS,
        "games": [{"id": game, "params": dict(setting.params)}],
        "seed": seed,
    }
    arguments = [
        word
        for name, value in options.items()
        for word in typed_words(name, _text(value))
    ]
    return ["train", "kuhn-tiny", *arguments, "--output_dir", folder]


def _text(value: Any) -> str:
    """A value as the command line reads it."""
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=1e6)
    return text.removesuffix("...\n").strip()


def eval_arguments(game: str, model: str, out: str) -> list[str]:
    """The arguments of `arena` that measure a model with itself and with the stranger."""
    setting = SETTINGS[game]
    params = [f"{name}={_text(value)}" for name, value in setting.params.items()]
    return [
        "eval",
        f"lm:{model}",
        game,
        *(x for p in params for x in ("-p", p)),
        "--against",
        "self",
        "--against",
        setting.stranger,
        "-n",
        str(NUM_EPISODES),
        "--seed",
        str(SEED),
        "--no-baselines",
        "--json",
        "--out",
        out,
    ]


def arena(arguments: Sequence[str]) -> str:
    """What the `arena` command prints, in this process."""
    be_quiet()
    out = io.StringIO()
    sys.argv = ["arena", *arguments]
    with contextlib.redirect_stdout(out):
        try:
            cli.main()
        except SystemExit as stopped:
            if stopped.code:
                raise RuntimeError(
                    f"arena {arguments} ended with status {stopped.code}"
                ) from None
    return out.getvalue()


def train(game: str, name: str, seed: int) -> dict[str, Any]:
    """A run: rows of both evaluations, and replies of their first episodes."""
    with tempfile.TemporaryDirectory() as folder:
        arena(train_arguments(game, seed, folder))
        return {
            when: measured(game, f"{folder}/{model}", f"{folder}/{when}.jsonl")
            for when, model in (("before", "start"), ("after", "model"))
        }


def measured(game: str, model: str, out: str) -> dict[str, Any]:
    """Returns of a model by opponent and seat, and what was said with the stranger."""
    evaluation = json.loads(arena(eval_arguments(game, model, out)))
    rows = [
        [row["opponent"], str(row["seat"]), row["num_episodes"]]
        + [round(row[key], 4) for key in ("mean_return", "low", "high")]
        for row in evaluation["rows"]
    ]
    with open(out, encoding="utf-8") as lines:
        episodes = [json.loads(line) for line in lines]
    replies = [
        [[turn["seat"], turn["action"] or turn["reply"]] for turn in episode["turns"]]
        for episode in episodes[-NUM_EPISODES:][:NUM_SHOWN]
    ]
    return {"rows": rows, "said": replies}


def made_with() -> dict[str, Any]:
    """What decides the numbers of the runs."""
    options = {**OPTIONS, "num_episodes": NUM_EPISODES, "first_seed": SEED}
    settings = {name: asdict(setting) for name, setting in SETTINGS.items()}
    return {"settings": settings, "variants": {SELF_PLAY: options}}


def main(num_seeds: NumSeeds = 3, game: OnlySettings = None) -> None:
    """Does the missing runs, one after another."""
    tell_outdated(FILE, made_with())
    todo = missing(
        read(FILE, made_with()), [SELF_PLAY], chosen(game, SETTINGS), num_seeds
    )
    with kept_runs(FILE):
        run_missing(FILE, made_with(), todo, train, 1, typer.echo)


if __name__ == "__main__":
    run_script(main)
