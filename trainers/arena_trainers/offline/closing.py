"""What a run that learns from rows measures, writes and shows at its end."""

import json
import shlex
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import (
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from arena_trainers.lm.prompt_file import PROMPT_FILE
from arena_trainers.runs.folder import METRICS, RESULTS
from arena_trainers.runs.results.card import CardSource, base_model, code, save_cards
from arena_trainers.runs.results.close import (
    Frame,
    closing_lines,
    cost,
    draw_curves,
    git_commit,
    outcome_tables,
    read_metrics,
    results_of,
    versions,
)
from arena_trainers.runs.results.measure import GameOutcome
from arena_wrappers import write_episodes
from arena_wrappers.records import whole_file

if TYPE_CHECKING:
    from arena_trainers.runs.rows import RowJob

_FIGURES = {
    "loss": "loss",
    "arena/nash_conv": "NashConv",
    "rewards/accuracies": "accuracy",
}


class PromptFiles(TrainerCallback):
    """Writes `arena_prompt.json` into every checkpoint, so that it plays or scores.

    Args:
        content: of the file.
    """

    def __init__(self, content: str) -> None:
        self.content = content

    def on_save(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        folder = Path(str(args.output_dir)) / f"checkpoint-{state.global_step}"
        if state.is_world_process_zero and folder.is_dir():
            (folder / PROMPT_FILE).write_text(self.content)


def figures_of(logs: Mapping[str, Any]) -> list[str]:
    """The figures of a log that are shown.

    >>> figures_of({"loss": 0.5, "learning_rate": 1e-3})
    ['loss 0.500']
    """
    found = {label: logs.get(name) for name, label in _FIGURES.items()}
    return [
        f"{label} {value:.3f}" for label, value in found.items() if value is not None
    ]


def close_run(run: "RowJob") -> dict[str, Any]:
    """Evaluates the trained model; writes and shows the results.

    Returns:
        What `results.json` holds.
    """
    folder, policy = run.folder, run.policy
    episodes, outcomes = [], []
    (folder / "model" / PROMPT_FILE).write_text(run.player.prompt_json())
    if policy is not None:
        for meter in run.meters:
            episodes.append(meter.measure("after training", policy))
            evaluated = meter.evaluate(policy)
            given = meter.plan.name, meter.stages, evaluated, meter.compare()
            outcomes.append(GameOutcome(*given))
    if episodes:
        share = -(-run.job.saved_episodes // len(episodes))  # of each game
        kept = [episode for played in episodes for episode in played[:share]]
        write_episodes(folder / "episodes.jsonl", kept)
    results = _results(run, outcomes)
    with whole_file(folder / RESULTS) as file:
        file.write(json.dumps(results, indent=2) + "\n")
    metrics = read_metrics(folder / METRICS)
    draw_curves(metrics, folder / "curves.png", _frame(run, outcomes))
    save_cards(_card(run, outcomes, results))
    _show(run, outcomes)
    return results


def _results(run: "RowJob", outcomes: list[GameOutcome]) -> dict[str, Any]:
    args, rows = run.args, run.rows
    return {
        **(results_of(outcomes, None) if outcomes else {}),
        "trainer": rows.trainer,
        "data": {"file": rows.data, "rows": run.facts.num_rows},
        "trained_tokens": run.facts.num_trained,
        "steps": run.trainer.state.global_step,
        "best": None,
        "seconds": round(time.monotonic() - run.began, 1),
        "recipe": run.recipe,
        "games": [plan.name for plan in run.player.plans],
        "model": run.job.model,
        "seed": args.seed,
        "command": shlex.join(["arena", *sys.argv[1:]]),
        "commit": git_commit(),
        "processes": args.world_size,
        "device": str(args.device),
        "versions": versions(),
        "cost": cost(),
    }


def _frame(run: "RowJob", outcomes: list[GameOutcome]) -> Frame:
    games = [meter.plan.game for meter in run.meters]
    return Frame(
        title=f"trainer {run.rows.trainer}, model {run.job.model}, seed {run.args.seed}",
        first_game=outcomes[0].name if outcomes else "",
        return_range=(
            min((game.min_return for game in games), default=0.0),
            max((game.max_return for game in games), default=1.0),
        ),
        uniform=outcomes[0].stages[0].nash_conv if outcomes else None,
        panels={"loss": ["loss"]},
    )


def _card(
    run: "RowJob", outcomes: list[GameOutcome], results: Mapping[str, Any]
) -> CardSource:
    name, steps = run.rows.trainer, run.trainer.state.global_step
    return CardSource(
        run.folder,
        base_model(run.job.model, run.model),
        run.job,
        run.player.args,
        [meter.plan for meter in run.meters],
        outcomes,
        results,
        f"by `{name}` on rows of recorded episodes",
        ("arena-envs", "trl", name),
        [
            ("trainer", code(name)),
            ("rows", f"{run.facts.num_rows:,} {run.kind.rows}"),
            ("steps", f"{steps:,} of {run.rows.batch_size} rows"),
        ],
    )


def _show(run: "RowJob", outcomes: list[GameOutcome]) -> None:
    for outcome in outcomes:
        for table in outcome_tables(outcome):
            run.console.print(table)
    run.say(f"results are in {run.folder}")
    if outcomes:
        plans = [meter.plan for meter in run.meters]
        for line in closing_lines(run.folder, plans, run.player.args):
            run.say(line)
