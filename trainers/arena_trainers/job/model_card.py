"""The model card of a run: `README.md` in its folder and in `model/`, as the hub reads it."""

import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml
from huggingface_hub import ModelCard, ModelCardData
from rich.table import Table
from rich.text import Text

from arena_trainers.job.base_model import BaseModel, base_model
from arena_trainers.job.closing import eval_commands, last_rollouts, play_commands
from arena_trainers.job.local_paths import local_folders, without_folders
from arena_trainers.job.markdown import cell, code, code_block, table
from arena_trainers.job.outcome import GameOutcome
from arena_trainers.job.report import outcome_tables
from arena_trainers.job.run_folder import CONFIG
from arena_trainers.job.settings import JobConfig
from arena_trainers.lm.models import CARD
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.games import GamePlan

if TYPE_CHECKING:
    from arena_trainers.job.job import TrainingJob

TAGS = ("arena-envs", "self-play", "reinforcement-learning", "grpo", "trl")
HOME = "https://github.com/arena-envs/arena-envs"
_NO_BASE = "none: this run made a small model with random weights"


class CardSource(NamedTuple):
    """What a model card tells of.

    Attributes:
        folder: the run folder.
        base: the model that the run started from.
        job: the job's settings.
        args: the trainer's settings.
        plans: the games.
        outcomes: the results in each game.
        results: what `results.json` holds.
        how: how it was trained, for the first sentence.
        tags: for the hub.
        training: rows of the model's table.
    """

    folder: Path
    base: BaseModel
    job: JobConfig
    args: TurnGRPOConfig
    plans: Sequence[GamePlan]
    outcomes: Sequence[GameOutcome]
    results: Mapping[str, Any]
    how: str
    tags: Sequence[str]
    training: Sequence[tuple[str, str]]


def write_cards(
    run: "TrainingJob", outcomes: Sequence[GameOutcome], results: Mapping[str, Any]
) -> None:
    """Writes `README.md` into the run folder and into its `model/`.

    Args:
        run: the run, which has saved its model.
        outcomes: its results in each game.
        results: what `results.json` holds.
    """
    base = base_model(run.job.model, run.model)
    plans = [meter.plan for meter in run.meters]
    given = run.folder, base, run.job, run.args, plans, outcomes, results
    rows = _self_play(run.job, run.args, results["credit"])
    save_cards(CardSource(*given, "by self-play", TAGS, rows))


def _self_play(
    job: JobConfig, args: TurnGRPOConfig, credit: Mapping[str, Any]
) -> list[tuple[str, str]]:
    return [
        ("supervised start", f"{job.warm_start_steps} steps"),
        ("self-play", f"{args.max_steps} of {args.episodes_per_step} episodes"),
        ("credit", code(f"{credit['estimator']} {credit['args'] or ''}")),
    ]


def save_cards(source: CardSource) -> None:
    """Writes `README.md` into a run folder and into its `model/`."""
    for folder, model in (
        (source.folder, "model"),
        (source.folder / "model", "."),
    ):
        model_card(source, model).save(folder / CARD)


def model_card(source: CardSource, model: str) -> ModelCard:
    """The card of a run.

    Args:
        source: what it tells of.
        model: path from the card's folder to the model's. The commands of the card name it,
            so that they work wherever the folder is. Other paths have their last part only.
    """
    config = yaml.safe_load((source.folder / CONFIG).read_text(encoding="utf-8"))
    folders = {*local_folders(config), *local_folders(source.base.name)}
    recipe = yaml.safe_dump(config, sort_keys=False, allow_unicode=True, width=math.inf)
    parts = [
        f"# {code(source.folder.absolute().name)}",
        f"A language model trained {source.how} with [arena-envs]({HOME}).",
        "## Model",
        _model_table(source),
        *(_played(source, model) if source.outcomes else []),
        "## Recipe",
        f"`arena train {CONFIG}` repeats the run with this file."
        + (" Paths have their last part only here." if folders else ""),
        code_block(recipe, "yaml"),
        "## Versions",
        _version_table(source.results),
    ]
    text = without_folders("\n\n".join(parts), folders)
    return ModelCard(f"---\n{_card_data(source).to_yaml()}\n---\n\n{text}\n")


def _played(source: CardSource, model: str) -> list[str]:
    return [
        "## Results",
        "*Against* is who played the other seats: the model itself or a baseline. "
        "Intervals are of 95 %.",
        *_results(source.outcomes),
        "## Evaluate it and play against it",
        _use(source, model),
    ]


def _card_data(source: CardSource) -> ModelCardData:
    """The front matter. A licence that nobody stated is `unknown`, one of the hub's names."""
    adapted = source.job.lora_r > 0
    tags = [*source.tags, *(plan.id for plan in source.plans)]
    licence: dict[str, Any] = {"license": "unknown", **source.base.licence}
    return ModelCardData(
        base_model=source.base.hub_id,
        library_name="peft" if adapted else "transformers",
        pipeline_tag="text-generation" if source.outcomes else None,
        tags=[*tags, "lora"] if adapted else tags,
        **licence,
    )


def _model_table(source: CardSource) -> str:
    job, base, recipe = source.job, source.base, source.results["recipe"]
    adapter = f"LoRA adapter of rank {job.lora_r}"
    return table(
        ("", ""),
        [
            ("base model", _NO_BASE if job.model == "tiny" else code(base.name)),
            ("licence", _licence(base, job.model == "tiny")),
            ("games", ", ".join(code(plan.name) for plan in source.plans)),
            ("trained", adapter if job.lora_r else "all weights"),
            *source.training,
            ("recipe", code(recipe) if recipe else "options"),
        ],
    )


def _licence(base: BaseModel, is_tiny: bool) -> str:
    stated = base.licence.get("license_name") or base.licence.get("license")
    if stated is not None:
        return f"{code(stated)}, of the base model"
    if is_tiny:
        return "none stated; write yours into `license` above before you publish it"
    return (
        "unknown: the base model's folder states none; write it into `license` above "
        "before you publish it"
    )


def _results(outcomes: Iterable[GameOutcome]) -> list[str]:
    parts = []
    for outcome in outcomes:
        parts.append(f"### {code(outcome.name)}")
        for found in outcome_tables(outcome._replace(comparison=None)):
            if found.row_count:
                parts.append(_markdown_table(found))
                parts += [_plain(found.caption)] if found.caption else []
    return parts


def _markdown_table(found: Table) -> str:
    columns = [[cell(_plain(text)) for text in c.cells] for c in found.columns]
    heads = [cell(_plain(column.header)) for column in found.columns]
    return table(heads, zip(*columns, strict=True))


def _plain(text: Any) -> str:
    return Text.from_markup(str(text)).plain


def _use(source: CardSource, model: str) -> str:
    """Commands for a shell in the folder of the card."""
    name = f"lm:{model}"
    lines = [
        *eval_commands(name, source.plans, source.args),
        *play_commands(name, source.plans),
    ]
    if model != ".":
        files = [source.folder / "episodes.jsonl", last_rollouts(source.folder)]
        paths = [file.relative_to(source.folder) for file in files if file is not None]
        lines += [f"arena replay {shlex.quote(str(path))}" for path in paths]
    install = (
        "Install arena-envs in a clone of its repository: `pip install '.[train]'`."
    )
    parts = [install, "In the folder of this file:", code_block("\n".join(lines), "sh")]
    if any(":" in plan.id for plan in source.plans):
        parts.append("Set `PYTHONPATH` to the folder of the games' modules.")
    if source.job.lora_r:
        parts.append(
            "A folder with `adapter_config.json` holds an adapter. That file says where its "
            "base model was; `arena export . --merged --out FOLDER` writes one whole model."
        )
    return "\n\n".join(parts)


def _version_table(results: Mapping[str, Any]) -> str:
    found = {**results["versions"], "commit of arena-envs": results["commit"]}
    found |= {"device": results["device"], "processes": results["processes"]}
    found["hours"] = f"{results['seconds'] / 3600:.2f}"
    rows = [(name, cell(str(value))) for name, value in found.items() if value]
    return table(("", ""), rows)
