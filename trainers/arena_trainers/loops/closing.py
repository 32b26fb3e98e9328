"""The end of a loop: `results.json`, a table and a curve over rounds."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from arena_trainers.loops.stages import SELECTION
from arena_trainers.runs.folder import RESULTS
from arena_trainers.train.games import GamePlan
from arena_wrappers.records import whole_file

CURVES = "curves.png"
CONV = "exact NashConv"


def score_of(path: Path) -> float:
    """The score in a file of scores; higher is better."""
    return float(json.loads(path.read_text(encoding="utf-8"))["score"])


def close_loop(
    folder: Path,
    played: Sequence[Path],
    plans: Sequence[GamePlan],
    console: Console,
) -> dict[str, Any]:
    """Writes and shows what the rounds reached.

    Args:
        folder: the run folder.
        played: files of scores: of the start, then of each round.
        plans: the games.
        console: where the table is shown.

    Returns:
        What `results.json` holds.
    """
    rounds = [_entry(folder, path) for path in played]
    best = max(rounds, key=lambda entry: float(entry["score"]))
    games = [plan.name for plan in plans]
    results = {"games": games, "best": best["model"], "rounds": rounds}
    with whole_file(folder / RESULTS) as file:
        file.write(json.dumps(results, indent=1) + "\n")
    _figure(rounds).savefig(folder / CURVES, format="png", dpi=120)
    console.print(_table(", ".join(games), rounds, best))
    text = f"results are in {folder}; the best model is {folder / best['model']}"
    console.print(text, markup=False, highlight=False, soft_wrap=True)
    return results


def _entry(folder: Path, path: Path) -> dict[str, Any]:
    """The round of a file of scores, without the single seats of its evaluation."""
    found = json.loads(path.read_text(encoding="utf-8"))
    here = path.parent
    entry: dict[str, Any] = {"round": None, "model": "start", "rows": None}
    if here != folder:
        selection = json.loads((here / SELECTION).read_text(encoding="utf-8"))
        number = int(here.name.partition("-")[2])
        entry = {"round": number, "model": f"{here.name}/model"}
        entry["rows"] = selection["rows"]
    games = {
        name: {"nash_conv": game["nash_conv"], "returns": game["returns"]}
        for name, game in found["games"].items()
    }
    return {**entry, "score": found["score"], "games": games}


def _values(entry: Mapping[str, Any]) -> dict[str, float]:
    """The figures of a round by name: NashConv, and returns against each opponent."""
    found = {}
    for name, game in entry["games"].items():
        of_game = f"{name}: " if len(entry["games"]) > 1 else ""
        if game["nash_conv"] is not None:
            found[f"{of_game}{CONV}"] = float(game["nash_conv"])
        for opponent, value in game["returns"].items():
            found[f"{of_game}return against {opponent}"] = float(value)
    return found


def _table(
    title: str, rounds: Sequence[Mapping[str, Any]], best: Mapping[str, Any]
) -> Table:
    table = Table("round", "rows", "score", title=title)
    for name in _values(rounds[0]):
        table.add_column(escape(name), justify="right", overflow="fold")
    for entry in rounds:
        number = "start" if entry["round"] is None else str(entry["round"])
        rows = "" if entry["rows"] is None else f"{entry['rows']:,}"
        mark = " (best)" if entry is best else ""
        figures = [f"{value:z.3f}" for value in _values(entry).values()]
        table.add_row(number, rows, f"{entry['score']:z.3f}{mark}", *figures)
    return table


def _figure(rounds: Sequence[Mapping[str, Any]]) -> Any:
    """A panel for NashConv, if there is one, and one for returns; the start is at 0."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    names = list(_values(rounds[0]))
    panels = {
        CONV: [name for name in names if name.endswith(CONV)],
        "mean return": [name for name in names if not name.endswith(CONV)],
    }
    shown = {title: lines for title, lines in panels.items() if lines}
    figure = Figure(figsize=(5.5 * len(shown), 4), layout="constrained")
    axes = figure.subplots(1, len(shown), squeeze=False).ravel()
    for panel, (title, lines) in zip(axes, shown.items(), strict=True):
        for name in lines:
            values = [_values(entry)[name] for entry in rounds]
            panel.plot(range(len(values)), values, marker=".", label=name)
        panel.set(title=title, xlabel="rounds trained")
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        panel.legend(fontsize=8)
    return figure
