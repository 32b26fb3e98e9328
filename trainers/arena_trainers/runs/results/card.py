"""The model card of a run, as Markdown and as the hub reads it."""

import math
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from huggingface_hub import EvalResult, ModelCard, ModelCardData

from arena_envs import yaml_text
from arena_studio.report.tables import result_tables
from arena_trainers.lm.models import CARD, are_adapters
from arena_trainers.runs.folder import CONFIG
from arena_trainers.runs.results.base_model import BaseModel
from arena_trainers.runs.results.commands import (
    eval_commands,
    last_rollouts,
    play_commands,
    player_of,
)
from arena_trainers.runs.results.markdown import cell, code, code_block, table
from arena_trainers.runs.results.measure import GameOutcome
from arena_trainers.runs.settings import JobConfig
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.games import GamePlan

# the folders of "/home/me/model", "lm:/home/me/model" and "noisy:0.1(lm:/home/me/model)"
_FOLDERS = re.compile(r"(?<![\w./~])/(?:[^/,#()]+/)+(?=[^/,#()])")


def local_folders(settings: object) -> Iterator[str]:
    """The folders of the absolute paths in settings, such as `"/home/me/"`."""
    if isinstance(settings, str):
        yield from _FOLDERS.findall(settings)
    elif isinstance(settings, Mapping):
        for name, value in settings.items():
            yield from local_folders(name)
            yield from local_folders(value)
    elif isinstance(settings, list | tuple):
        for value in settings:
            yield from local_folders(value)


def without_folders(text: str, folders: Iterable[str]) -> str:
    """A text in which paths have their last part only.

    >>> without_folders("lm:/home/me/model", local_folders("lm:/home/me/model"))
    'lm:model'
    """
    for folder in sorted(set(folders), key=len, reverse=True):
        text = text.replace(folder, "")
    return text


TAGS = ("arena-envs", "self-play", "reinforcement-learning", "grpo", "trl")
HOME = "https://github.com/arena-envs/arena-envs"
_NO_BASE = "none: this run made a small model with random weights"


class CardSource(NamedTuple):
    """The contents of a model card.

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


def save_cards(source: CardSource) -> None:
    """Writes `README.md` into a run folder and into its `model/`."""
    model_card(source, "model").save(source.folder / CARD)
    model_card(source, ".").save(source.folder / "model" / CARD)


def model_card(source: CardSource, model: str) -> ModelCard:
    """The card of a run.

    Args:
        source: what it tells of.
        model: path from the card's folder to the model's. The commands of the card name it,
            so that they work wherever the folder is. Other paths have their last part only.
    """
    config = yaml_text.read((source.folder / CONFIG).read_text(encoding="utf-8"))
    folders = {*local_folders(config), *local_folders(source.base.name)}
    recipe = yaml.safe_dump(config, sort_keys=False, allow_unicode=True, width=math.inf)
    parts = [
        f"# {code(source.folder.absolute().name)}",
        f"A language model trained {source.how} with [arena-envs]({HOME}).",
        "## Model",
        _model_table(source),
        *(_results_and_use(source, model) if source.outcomes else []),
        "## Recipe",
        f"`arena train {CONFIG}` repeats the run with this file."
        + (" Paths have their last part only here." if folders else ""),
        code_block(recipe, "yaml"),
        "## Versions",
        _version_table(source.results),
    ]
    text = "\n\n".join(parts)
    card = f"---\n{_card_data(source).to_yaml()}\n---\n\n{text}\n"
    return ModelCard(without_folders(card, folders))


def _results_and_use(source: CardSource, model: str) -> list[str]:
    return [
        "## Results",
        "*Against* is who played the other seats: the model itself or a baseline. "
        "Intervals are of 95 %.",
        *_results(source.outcomes),
        "## Evaluate it and play with it",
        _commands(source, model),
    ]


def _card_data(source: CardSource) -> ModelCardData:
    """The front matter. A licence that nobody stated is `unknown`, one of the hub's names."""
    adapted = bool(_adapters(source))
    tags = [*source.tags, *(plan.id for plan in source.plans)]
    licence: dict[str, Any] = {"license": "unknown", **source.base.licence}
    return ModelCardData(
        model_name=source.folder.absolute().name,
        eval_results=eval_results(source.outcomes) or None,
        base_model=source.base.hub_id,
        library_name="peft" if adapted else "transformers",
        pipeline_tag="text-generation" if source.outcomes else None,
        tags=[*tags, "lora"] if adapted else tags,
        **licence,
    )


def eval_results(outcomes: Iterable[GameOutcome]) -> list[EvalResult]:
    """What the hub reads as `model-index`: returns, and NashConv, of the final policy."""
    eval_results_of_games = []
    for outcome in outcomes:
        final = outcome.stages[-1]
        metrics: dict[str, float | None] = {"NashConv": final.nash_conv}
        for seat, interval in enumerate(final.returns):
            metrics[f"mean return of player_{seat} in self-play"] = interval.mean
        for row in outcome.evaluation.rows if outcome.evaluation else ():
            if row.role == "policy":
                metric = f"mean return against {row.opponent}, seat {row.seat}"
                metrics[metric] = row.mean_return
        eval_results_of_games += [
            EvalResult(
                task_type="reinforcement-learning",
                dataset_type=f"arena/{outcome.name}",
                dataset_name=outcome.name,
                metric_type="nash_conv" if name == "NashConv" else "mean_return",
                metric_name=name,
                metric_value=value,
            )
            for name, value in metrics.items()
            if value is not None and math.isfinite(value)
        ]
    return eval_results_of_games


def _model_table(source: CardSource) -> str:
    job, base, recipe = source.job, source.base, source.results["recipe"]
    return table(
        ("", ""),
        [
            ("base model", _NO_BASE if job.model == "tiny" else code(base.name)),
            ("licence", _licence(base, job.model == "tiny")),
            ("games", ", ".join(code(plan.name) for plan in source.plans)),
            ("trained", _adapters(source) or _whole_models(source)),
            *source.training,
            ("recipe", code(recipe) if recipe else "options"),
        ],
    )


def _adapters(source: CardSource) -> str:
    rank, roles = source.job.lora_r, getattr(source.args, "roles", {})
    ranks = [
        f"{role} ({options.get('lora_r', rank)})" for role, options in roles.items()
    ]
    if ranks and are_adapters(source.args.roles, rank > 0):
        return (
            f"LoRA adapters of the roles or seats {', '.join(ranks)}, with their ranks"
        )
    return f"LoRA adapter of rank {rank}" if rank else ""


def _whole_models(source: CardSource) -> str:
    if not getattr(source.args, "roles", {}):
        return "all weights"
    args = source.args
    starts = zip(args.learner_names, args.learner_starts(None), strict=True)
    learners = [
        f"{name} (from {code(path)})" if path else name for name, path in starts
    ]
    return f"a whole model for each of {', '.join(learners)}"


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
        for result_table in result_tables(
            {"outcomes": {outcome.name: outcome.to_dict()}}
        ):
            rows = [[cell(str(text)) for text in row] for row in result_table.rows]
            parts += [
                table([*map(cell, result_table.heads)], rows),
                *result_table.notes,
            ]
    return parts


def _commands(source: CardSource, model: str) -> str:
    """Commands for a shell in the folder of the card."""
    name = player_of(f"lm:{model}", source.args)
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
    names = [str(source.args.agent), *(plan.id for plan in source.plans)]
    if any(":" in name for name in names):
        parts.append("Set `PYTHONPATH` to the folder of the modules that are named.")
    if _adapters(source):
        parts.append(
            "A folder with `adapter_config.json` holds an adapter. That file says where its base "
            "model was; `arena data export FOLDER --merged --out OUT` writes one whole model."
        )
    return "\n\n".join(parts)


def _version_table(results: Mapping[str, Any]) -> str:
    facts = {**results["versions"], "commit of arena-envs": results["commit"]}
    facts |= {"device": results["device"], "processes": results["processes"]}
    facts["hours"] = f"{results['seconds'] / 3600:.2f}"
    rows = [(name, cell(str(value))) for name, value in facts.items() if value]
    return table(("", ""), rows)
