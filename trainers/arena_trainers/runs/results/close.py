"""Results of a finished run: curves, tables, numbers, their origin, and command lines to go on with."""

import json
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from pathlib import Path
from typing import Any

import yaml
from rich import box
from rich.table import Table
from transformers import TrainingArguments

import arena_envs
from arena_envs.game import bounds_of
from arena_eval.baselines import solver_of
from arena_studio.report.charts import PICTURED, figure_of
from arena_studio.report.curves import charts_of
from arena_studio.report.run_files import metric_records
from arena_studio.report.tables import SHARES, TextTable, result_tables
from arena_trainers.runs.folder import METRICS, RESULTS
from arena_trainers.runs.results.measure import (
    EXACT_SOLVERS,
    Comparison,
    Decision,
    GameOutcome,
    Measurement,
)
from arena_trainers.runs.settings import JobConfig
from arena_trainers.runs.watch import LEARNERS, NO_SCORE, RETURN, BestModel
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.games import GamePlan
from arena_wrappers import Episode, write_episodes
from arena_wrappers.records import whole_file, write_whole

Records = Sequence[Mapping[str, Any]]


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The records of a metrics file, without an incomplete last line of a killed run.

    Raises:
        ValueError: another line is no record; names the line.
    """
    records, bad = metric_records(path)
    num_ends = path.read_bytes().count(b"\n")
    for line in bad:
        if line.line <= num_ends:
            raise ValueError(
                f"{path}, line {line.line}: {line.reason}, got {line.text[:60]!r}; remove "
                "the line"
            )
    return records


def kept_metrics(path: Path, last_step: int) -> list[dict[str, Any]]:
    """The metrics up to a step; deletes later ones from the file."""
    if not path.exists():
        return []
    kept = [r for r in read_metrics(path) if r["step"] <= last_step]
    with whole_file(path) as file:
        file.writelines(json.dumps(record) + "\n" for record in kept)
    return kept


# fits 80 columns
NARROW: Any = {"box": box.SIMPLE_HEAD, "padding": (0, 1, 0, 0), "pad_edge": False}


def outcome_tables(found: GameOutcome) -> list[Table]:
    """The results in one game: those of the report, and action probabilities."""
    tables = [*map(_drawn, result_tables({"outcomes": {found.name: found.to_dict()}}))]
    if found.comparison is not None:
        tables.append(comparison_table(found.comparison))
    return tables


def _drawn(found: TextTable) -> Table:
    """A table of the report for a terminal, without `SHARES`."""
    caption = "\n".join(found.notes) or None
    table = Table(title=found.title, caption=caption, **NARROW)
    columns = zip(found.heads, zip(*found.rows, strict=True), strict=True)
    shown = {head: cells for head, cells in columns if head not in SHARES}
    for head in shown:
        is_name, is_text = head in ("policy", "measure"), head == "against"
        justify: Any = "left" if is_name or is_text else "right"
        table.add_column(head, justify=justify, no_wrap=not is_name)
    for cells in zip(*shown.values(), strict=True):
        table.add_row(*(str(cell) for cell in cells))
    return table


def comparison_table(found: Comparison) -> Table:
    """The probabilities side by side; of two actions only the second is shown."""
    pair, caption = (
        _only_pair(found.decisions),
        "CFR+ found no equilibrium of this game",
    )
    what = f"P({pair[1]})" if pair else "probabilities"
    if found.values is not None:
        values = ", ".join(f"{value:.4f}" for value in found.values)
        caption = (
            f"One equilibrium (CFR+, returns {values}). Others may exist; NashConv 0 means "
            "the policy is one."
        )
    table = Table(
        title=f"{found.game}: {what} of the trained policy and an equilibrium",
        caption=caption,
        box=box.SIMPLE_HEAD,
    )
    table.add_column("seat", justify="right")
    table.add_column("reads", overflow="fold")
    if not pair:
        table.add_column("action", overflow="fold")
    table.add_column("policy", justify="right", no_wrap=True)
    table.add_column("equilibrium", justify="right", no_wrap=True)
    for decision in found.decisions:
        chances = list(_chances(decision, bool(pair)))
        for number, (action, own, other) in enumerate(chances):
            first = (str(decision.seat), decision.text)
            cells = ("", "") if number else first
            named = () if pair else (action,)
            numbers = f"{own:.3f}", "-" if other is None else f"{other:.3f}"
            table.add_row(*cells, *named, *numbers)
    return table


def _chances(
    decision: Decision, is_pair: bool
) -> Iterable[tuple[str, float, float | None]]:
    """Each action, with its probability under the policy and at the equilibrium.

    Of a pair of actions only the second.
    """
    none: Sequence[float | None] = [None] * len(decision.actions)
    beside = decision.equilibrium or none
    rows = zip(decision.actions, decision.policy, beside, strict=True)
    return islice(rows, int(is_pair), None)


def draw_comparisons(found: Sequence[Comparison], path: Path) -> None:
    """Writes a picture with a panel per game and a pair of bars per probability."""
    from matplotlib.figure import Figure

    panels = [_bars(comparison) for comparison in found]
    heights = [1.2 + 0.3 * len(labels) for labels, _, _ in panels]
    figure = Figure(figsize=(9, sum(heights)), layout="constrained")
    axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
    for panel, comparison, (labels, own, other) in zip(
        axes, found, panels, strict=True
    ):
        places = range(len(labels))
        panel.barh([y - 0.2 for y in places], own, 0.4, label="trained policy")
        known = [(y, p) for y, p in zip(places, other, strict=True) if p is not None]
        if known:
            where, sizes = zip(*known, strict=True)
            panel.barh([y + 0.2 for y in where], sizes, 0.4, label="an equilibrium")
        panel.set_yticks(places, labels, fontsize=8)
        panel.invert_yaxis()
        panel.set_xlim(0, 1)
        pair = _only_pair(comparison.decisions)
        panel.set_xlabel(f"P({pair[1]})" if pair else "probability")
        panel.set_title(f"{comparison.game}: the policy and an equilibrium")
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2)
    figure.savefig(path, dpi=120)


def _bars(found: Comparison) -> tuple[list[str], list[float], list[float | None]]:
    """Labels, the policy's probabilities and the equilibrium's, one for each bar."""
    pair = _only_pair(found.decisions)
    bars = [
        (decision.text if pair else f"{decision.text} [{action}]", own, other)
        for decision in found.decisions
        for action, own, other in _chances(decision, bool(pair))
    ]
    labels, owns, others = zip(*bars, strict=True)
    return list(labels), list(owns), list(others)


def _only_pair(decisions: Sequence[Decision]) -> list[str] | None:
    """The two actions of the game, if the same two are legal in every decision."""
    first = decisions[0].actions
    same = all(decision.actions == first for decision in decisions)
    return first if same and len(first) == 2 else None


def results_of(outcomes: Sequence[GameOutcome], late: float | None) -> dict[str, Any]:
    """The results of a run: a summary of the first game, and all of each game.

    A run against other policies leads with the return of the seats that learn.

    Args:
        outcomes: of each game; its stages are uniform play, before and after self-play.
        late: mean NashConv over the last quarter of the steps.
    """
    uniform, start, final = outcomes[0].stages
    learner = {
        name: {
            "against": row.opponent,
            "mean": row.mean_return,
            "95 %": [row.low, row.high],
        }
        for name, row in (("warm_start", start.learner), ("final", final.learner))
        if row is not None
    }
    return {
        **({"learner_return": learner} if learner else {}),
        "nash_conv": {
            "uniform": uniform.nash_conv,
            "warm_start": start.nash_conv,
            "final": final.nash_conv,
            "last_quarter_mean": late,
        },
        "legal_rate": final.legal_rate,
        "outcomes": {outcome.name: outcome.to_dict() for outcome in outcomes},
    }


def step_zero(stages: Sequence[tuple[str, Measurement]]) -> dict[str, Any]:
    """The metrics before self-play, as a record of step 0.

    Args:
        stages: name of each game, and its stage before self-play.
    """
    record: dict[str, Any] = {"step": 0}
    if stages[0][1].nash_conv is not None:
        record["arena/nash_conv"] = stages[0][1].nash_conv
    rates = [stage.legal_rate for _, stage in stages if stage.legal_rate is not None]
    if rates:
        record["arena/legal_rate"] = sum(rates) / len(rates)
    for name, stage in stages:
        for seat, interval in enumerate(stage.returns):
            record[f"arena/{name}/player_{seat}/return"] = interval.mean
    return record


PACKAGES = ("arena-envs", "torch", "transformers", "trl", "accelerate", "numpy")
# options that change the results, and whose defaults depend on the machine or the games
RESOLVED = ("seed", "bf16", "max_completion_length")


def config_text(
    settings: Mapping[str, Any], args: TrainingArguments, adapter: Path | None = None
) -> str:
    """`config.yaml`: the settings, with the values of `RESOLVED`.

    `arena train config.yaml` repeats the run, unless an adapter goes on training.

    Args:
        settings: options by name, of the recipe and of the command line.
        args: the trainer's settings that follow from them.
        adapter: folder of the adapter that goes on training, which no option names.
    """
    resolved = {name: getattr(args, name) for name in RESOLVED if hasattr(args, name)}
    text = yaml.safe_dump({**resolved, **settings}, sort_keys=False)
    told = "arena train config.yaml repeats this run"
    if adapter is not None:
        told = f"part of a loop: goes on from the adapter in {str(adapter)!r}, which no option names"
    return f"# {told}\n{text}"


def provenance(
    job: JobConfig, args: TrainingArguments, plans: Sequence[GamePlan]
) -> dict[str, Any]:
    """Games, model, versions, commit, command line and cost, for `results.json`."""
    return {
        "games": [plan.name for plan in plans],
        "model": job.model,
        "seed": args.seed,
        "command": shlex.join(["arena", *sys.argv[1:]]),
        "commit": git_commit(),
        "processes": args.world_size,
        "device": str(args.device),
        "versions": versions(),
        "cost": cost(),
    }


def cost() -> dict[str, float]:
    """The cost of this process so far: CPU seconds, and its largest memory in bytes.

    Windows does not tell a process's largest memory in this way; it is left out there.
    """
    found: dict[str, float] = {"cpu_seconds": round(time.process_time(), 1)}
    if sys.platform != "win32":
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        found["peak_memory_bytes"] = peak if sys.platform == "darwin" else peak * 1024
    return found


def versions() -> dict[str, str | None]:
    """Versions of Python and of the packages that the results depend on."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # arena-envs from its sources
            found[name] = None
    return found


def git_commit(source: Path = Path(arena_envs.__file__)) -> str | None:
    """The commit of arena-envs, with "+" if files differ from it.

    None if the package is not in a git repository of its own, such as an installed wheel.
    """
    try:
        _git(source, "ls-files", "--error-unmatch", source.name)
        commit = _git(source, "rev-parse", "HEAD")
        return f"{commit}+" if _git(source, "status", "--porcelain") else commit
    except (OSError, subprocess.SubprocessError):
        return None


def _git(source: Path, *arguments: str) -> str:
    command = ["git", "-C", str(source.parent), *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=10
    )
    return done.stdout.strip()


EPISODES = "episodes.jsonl"
REPORT = "report.html"
NUM_GROUPS = 2  # of each step in the report, as `arena report` shows


def write_results(
    folder: Path,
    results: Mapping[str, Any],
    plans: Sequence[GamePlan],
    episodes: Sequence[Sequence[Episode]],
    num_saved: int,
    *,
    title: str,
    moves: Sequence[int] = (),
) -> None:
    """Writes `results.json`, the curves, and episodes after training.

    Args:
        folder: the run folder.
        results: of the run.
        plans: the games.
        episodes: after training, by game.
        num_saved: episodes to write, of all games together.
        title: of the curves.
        moves: optimizer steps after which the reference model was synchronised.
    """
    if episodes:
        share = -(-num_saved // len(episodes))  # of each game
        kept = [episode for played in episodes for episode in played[:share]]
        write_episodes(folder / EPISODES, kept)
    # it ends a live report
    write_whole(folder / RESULTS, json.dumps(results, indent=2) + "\n")
    ranges = {plan.name: bounds_of(plan.game) for plan in plans}
    charts = charts_of(read_metrics(folder / METRICS), results, ranges)
    shown = [chart for chart in charts if PICTURED.fullmatch(chart.title)]
    figure_of(shown, title, moves).savefig(folder / "curves.png", dpi=120)


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
    seen = str(page) if page.is_file() else _command("report", str(folder))
    lines += ["see the run as a page:", *_indented([seen])]
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
    name, _, rest = (args.agent or "by_seat").partition("(")
    own = [f"{role}={model}/{role}" for role in args.learner_names] or [model]
    return f"agent:{name}({', '.join([*own, *filter(None, [rest[:-1]])])})"


def eval_commands(
    model: str, plans: Sequence[GamePlan], args: TurnGRPOConfig
) -> list[str]:
    """Commands that evaluate a model in the games of its run, as it was trained."""
    referee, commands = [], list[str]()
    if args.on_invalid != "forfeit":  # the default of `arena eval`
        referee += ["--on-invalid", args.on_invalid]
    if args.on_invalid == "retry":
        referee += ["--max-retries", str(args.max_retries)]
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


def best_line(folder: Path, kept: BestModel | None, is_wanted: bool, every: int) -> str:
    """The folder of the best model, or why there is none.

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
    """A line that says why no training episodes were written; none if there are some."""
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
