"""Command lines that go on with a finished run, and lines about what it left out."""

import json
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from arena_eval.baselines import solver_of
from arena_trainers.runs.callbacks.best import (
    LEARNER_RETURN,
    MEAN_RETURN,
    NO_SCORE,
    BestModel,
)
from arena_trainers.runs.results.files import REPORT
from arena_trainers.runs.results.measure import EXACT_SOLVERS
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.games import GamePlan


def closing_lines(
    folder: Path, plans: Sequence[GamePlan], args: TurnGRPOConfig
) -> list[str]:
    """Lines that evaluate the model, play with it, and show the run and its episodes.

    Args:
        folder: the run folder.
        plans: the games that were trained on.
        args: the trainer's settings.
    """
    model = player_of(f"lm:{folder / 'model'}", args)
    lines = ["evaluate it:", *_indented(eval_commands(model, plans, args))]
    plays = _indented(play_commands(model, plans))
    lines += ["play against it, or with its hints:", *plays]
    page = folder / REPORT
    report = str(page) if page.is_file() else _command("report", str(folder))
    lines += ["see the run as a page:", *_indented([report])]
    files = [folder / "episodes.jsonl", last_rollouts(folder)]
    when = "after training" + (" and in training (with credit)" if files[1] else "")
    lines.append(f"look at episodes {when}:")
    lines += _indented(
        _command("replay", str(file)) for file in files if file is not None
    )
    return lines


def player_of(model: str, args: TurnGRPOConfig) -> str:
    """The policy string of what was trained."""
    if args.agent is None and not args.roles:
        return model
    name, _, arguments = (args.agent or "by_seat").partition("(")
    models = [f"{role}={model}/{role}" for role in args.learner_names] or [model]
    return f"agent:{name}({', '.join([*models, *filter(None, [arguments[:-1]])])})"


def eval_commands(
    model: str, plans: Sequence[GamePlan], args: TurnGRPOConfig
) -> list[str]:
    """Commands that evaluate a model in the games of its run, as it was trained."""
    referee, commands = [], list[str]()
    if args.on_invalid != "forfeit":  # the default of `arena eval`
        referee += ["--prompt", f"on_invalid={args.on_invalid}"]
    if args.on_invalid == "retry":
        referee += ["--prompt", f"max_retries={args.max_retries}"]
    for plan in plans:
        solver = solver_of(plan.game)
        against = solver if solver in EXACT_SOLVERS else "random"
        if plan.game.num_players < 2 or plan.game.kind == "cooperative":
            against = "self"
        words = *_game(plan), *referee, "--against", against
        commands.append(_command("eval", model, *words))
    return commands


def play_commands(model: str, plans: Sequence[GamePlan]) -> list[str]:
    """Commands with which a person plays these games against a model, or alone with its hints."""
    commands = []
    for plan in plans:
        part = "--against" if plan.game.num_players > 1 else "--hint"
        commands.append(_command("play", *_game(plan), part, model))
    return commands


def best_line(
    folder: Path, best_model: BestModel | None, is_wanted: bool, every: int
) -> str:
    """The folder of the best model, or why there is none.

    Args:
        folder: the run folder.
        best_model: what keeps the best model; None if nothing does.
        is_wanted: whether one should be kept.
        every: steps between measurements of the exact NashConv.
    """
    if not is_wanted:
        return "no best model is kept: save_best is false"
    if best_model is None:
        return NO_SCORE
    if best_model.best is not None:
        return f"the best model of training is in {folder / 'best'} ({best_model.best})"
    state = best_model.trainer.state
    steps = state.global_step
    is_return = best_model.metric in (MEAN_RETURN, LEARNER_RETURN)
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
    """A line that says why no training episodes were written; none if there are some."""
    if num_groups == 0 or last_rollouts(folder) is not None:
        return []
    return [
        f"no training episodes are in {folder / 'rollouts'}: they are written every "
        f"logging_steps ({args.logging_steps:g}) steps; give a smaller --logging_steps"
    ]


def last_rollouts(folder: Path) -> Path | None:
    """The newest file of training episodes of a run."""
    files = (folder / "rollouts").glob("step-*.jsonl")
    return max(files, key=lambda path: int(path.stem.rpartition("-")[2]), default=None)


def _command(*words: str) -> str:
    return shlex.join(["arena", *words])


def _indented(commands: Iterable[str]) -> list[str]:
    return [f"  {command}" for command in commands]


def _game(plan: GamePlan) -> list[str]:
    """The id, the parameters and the limit of turns, as the commands read them."""
    # JSON is YAML
    words = [plan.id]
    for name, value in plan.params.items():
        words += ["-p", f"{name}={json.dumps(value)}"]
    if plan.max_turns is not None:
        words += ["--max-turns", str(plan.max_turns)]
    return words
