"""Results of a run of rounds: a table and curves of its scores."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from arena_studio.report.curves import Chart, Curve
from arena_studio.report.figures import figure_of
from arena_trainers.runs.round_stages import SELECTION

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CURVES = "curves.png"
CONV = "exact NashConv"


def read_score(path: Path) -> float:
    """The score in a file of scores; higher is better."""
    return float(json.loads(path.read_text(encoding="utf-8"))["score"])


def round_entry(folder: Path, path: Path) -> dict[str, Any]:
    """The round of a file of scores, without the single seats of its evaluation."""
    scores = json.loads(path.read_text(encoding="utf-8"))
    here = path.parent
    entry: dict[str, Any] = {"round": None, "model": "start", "rows": None}
    if here != folder:
        selection = json.loads((here / SELECTION).read_text(encoding="utf-8"))
        number = int(here.name.partition("-")[2])
        entry = {"round": number, "model": f"{here.name}/model"}
        entry["rows"] = selection["rows"]
    games = {
        name: {"nash_conv": game["nash_conv"], "returns": game["returns"]}
        for name, game in scores["games"].items()
    }
    return {**entry, "score": scores["score"], "games": games}


def _figures_of(entry: Mapping[str, Any]) -> dict[str, float]:
    """The figures of a round by name: NashConv, and returns against each opponent."""
    figures = {}
    for name, game in entry["games"].items():
        of_game = f"{name}: " if len(entry["games"]) > 1 else ""
        if game["nash_conv"] is not None:
            figures[f"{of_game}{CONV}"] = float(game["nash_conv"])
        for opponent, value in game["returns"].items():
            figures[f"{of_game}return against {opponent}"] = float(value)
    return figures


def scores_table(
    title: str, rounds: Sequence[Mapping[str, Any]], best: Mapping[str, Any]
) -> Table:
    """The rows and scores of each round, and the best one marked."""
    table = Table("round", "rows", "score", title=title)
    for name in _figures_of(rounds[0]):
        table.add_column(name, justify="right", overflow="fold")
    for entry in rounds:
        number = "start" if entry["round"] is None else str(entry["round"])
        rows = "" if entry["rows"] is None else f"{entry['rows']:,}"
        mark = " (best)" if entry is best else ""
        figures = [f"{value:z.3f}" for value in _figures_of(entry).values()]
        table.add_row(number, rows, f"{entry['score']:z.3f}{mark}", *figures)
    return table


def rounds_figure(rounds: Sequence[Mapping[str, Any]]) -> "Figure":
    """A panel for NashConv, if there is one, and one for returns; the start is at 0."""
    lines: dict[str, list[Curve]] = {CONV: [], "mean return": []}
    for name in _figures_of(rounds[0]):
        points = [
            (number, _figures_of(entry)[name]) for number, entry in enumerate(rounds)
        ]
        title = CONV if name.endswith(CONV) else "mean return"
        lines[title].append(Curve(name, points))
    charts = [Chart(title, curves) for title, curves in lines.items() if curves]
    figure: Figure = figure_of(charts, "", along="rounds trained")
    return figure
