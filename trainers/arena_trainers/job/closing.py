"""The command lines that a finished training run prints; they work as printed."""

import json
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from arena_trainers.evaluate.baselines import solver_of
from arena_trainers.job.best import LEARNERS, NO_SCORE, RETURN, BestModel
from arena_trainers.job.outcome import EXACT_SOLVERS
from arena_trainers.report.run_page import write_report
from arena_trainers.report.runs import read_run_files
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.games import GamePlan

REPORT = "report.html"
NUM_GROUPS = 2  # of each step in the report, as `arena report` shows


def write_last_report(folder: Path) -> None:
    """Writes the report of a finished run, if it has stored training episodes."""
    if last_rollouts(folder) is not None:
        write_report(folder / REPORT, read_run_files(folder, NUM_GROUPS))


def closing_lines(
    folder: Path, plans: Sequence[GamePlan], args: TurnGRPOConfig
) -> list[str]:
    """Lines that evaluate the model, play against it, and show the run and its episodes.

    Args:
        folder: the run folder.
        plans: the games that were trained on.
        args: the trainer's settings.
    """
    model = f"lm:{folder / 'model'}"
    lines = ["evaluate it:", *_indented(eval_commands(model, plans, args))]
    lines += ["play against it:", *_indented(play_commands(model, plans))]
    page = folder / REPORT
    seen = str(page) if page.is_file() else _command("report", str(folder))
    lines += ["see the run as a page:", *_indented([seen])]
    files = [folder / "episodes.jsonl", last_rollouts(folder)]
    when = "after training" + (" and in training (with credit)" if files[1] else "")
    lines.append(f"look at episodes {when}:")
    lines += _indented(
        _command("replay", str(file)) for file in files if file is not None
    )
    return lines


def eval_commands(
    model: str, plans: Sequence[GamePlan], args: TurnGRPOConfig
) -> list[str]:
    """Commands that evaluate a model in the games of its run, as it was trained.

    Args:
        model: its policy string.
        plans: the games.
        args: the trainer's settings.
    """
    referee = _referee(args)
    return [
        _command("eval", model, *_game(plan), *referee, *_against(plan))
        for plan in plans
    ]


def play_commands(model: str, plans: Sequence[GamePlan]) -> list[str]:
    """Commands with which a person plays these games against a model.

    Args:
        model: its policy string.
        plans: the games; those of one seat are played alone.
    """
    commands = []
    for plan in plans:
        against = ("--against", model) if plan.game.num_players > 1 else ()
        commands.append(_command("play", *_game(plan), *against))
    return commands


def best_line(folder: Path, kept: BestModel | None, is_wanted: bool, every: int) -> str:
    """Where the best model is, or why there is none.

    Args:
        folder: the run folder.
        kept: what keeps the best model; None if nothing does.
        is_wanted: whether one should be kept.
        every: steps between measurements of the exact NashConv.
    """
    if not is_wanted:
        return "no best model is kept: save_best is false"
    if kept is None:
        return NO_SCORE
    if kept.best is not None:
        return f"the best model of training is in {folder / 'best'} ({kept.best})"
    state = kept.trainer.state
    steps = state.global_step
    is_return = kept.metric in (RETURN, LEARNERS)
    if not is_return and steps < every:
        return (
            f"no best model is kept: the run had {steps} steps, fewer than evaluate_every "
            f"({every}), so training measured no score; give a smaller --evaluate_every"
        )
    if is_return and steps < state.logging_steps:
        return (
            f"no best model is kept: the run had {steps} steps, fewer than logging_steps "
            f"({state.logging_steps:g}), so training logged no mean return; give a smaller "
            "--logging_steps"
        )
    return NO_SCORE


def rollouts_lines(folder: Path, num_groups: int, args: TurnGRPOConfig) -> list[str]:
    """A line that says why no training episodes were written; none if there are some.

    Args:
        folder: the run folder.
        num_groups: groups that are written at a time.
        args: the trainer's settings.
    """
    if num_groups == 0 or last_rollouts(folder) is not None:
        return []
    return [
        f"no training episodes are in {folder / 'rollouts'}: they are written every "
        f"logging_steps ({args.logging_steps:g}) steps; give a smaller --logging_steps"
    ]


def last_rollouts(folder: Path) -> Path | None:
    """The newest file of training episodes of a run."""
    found = (folder / "rollouts").glob("step-*.jsonl")
    return max(found, key=lambda path: int(path.stem.rpartition("-")[2]), default=None)


def _command(*words: str) -> str:
    return shlex.join(["arena", *words])


def _indented(commands: Iterable[str]) -> list[str]:
    return [f"  {command}" for command in commands]


def _game(plan: GamePlan) -> list[str]:
    """The id, the parameters and the limit of turns, as the commands read them."""
    # JSON is YAML
    given = [("-p", f"{k}={json.dumps(value)}") for k, value in plan.params.items()]
    limit = [] if plan.max_turns is None else ["--max-turns", str(plan.max_turns)]
    return [plan.id, *(word for pair in given for word in pair), *limit]


def _referee(args: TurnGRPOConfig) -> list[str]:
    """The options for invalid replies, if they are not the defaults of `arena eval`."""
    if args.on_invalid == "forfeit":
        return []
    words = ["--on-invalid", args.on_invalid]
    if args.on_invalid == "retry":
        words += ["--max-retries", str(args.max_retries)]
    return words


def _against(plan: GamePlan) -> list[str]:
    game = plan.game
    if game.num_players < 2 or game.kind == "cooperative":
        return ["--against", "self"]
    solver = solver_of(game)
    return ["--against", solver if solver in EXACT_SOLVERS else "random"]
