"""The results of a run as tables of text, from `results.json`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from arena_trainers.evaluate.tables import SCORE
from arena_trainers.report.charts import is_number

NONE = "-"


class Cell(NamedTuple):
    """A cell that is more than text.

    Attributes:
        text: what it shows.
        link: what a click opens; empty for nothing.
        heat: the color, from -5 to 5; None for none.
    """

    text: str
    link: str = ""
    heat: int | None = None


class TextTable(NamedTuple):
    """A table of text.

    Attributes:
        title: what it shows.
        heads: names of the columns.
        rows: cells by row.
        notes: sentences below the table.
        num_keys: number of first columns that name the row.
    """

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str | Cell]]
    notes: Sequence[str] = ()
    num_keys: int = 1


def result_tables(results: Mapping[str, Any]) -> list[TextTable]:
    """For each game: before and after training, measures, and play against baselines.

    Args:
        results: what `results.json` holds; what it lacks is shown as "-" or left out.
    """
    tables = []
    for game, found in (results.get("outcomes") or {}).items():
        stages = found.get("stages") or []
        tables.append(_stage_table(game, stages))
        tables.append(_measure_table(game, stages))
        tables.append(_opponent_table(game, found.get("evaluation") or []))
    return [table for table in tables if table.rows]


def source_link(source: str) -> str:
    """What opens the episodes of a source."""
    return f"#{urlencode({'from': source})}"


def fact_table(runs: Mapping[str, Mapping[str, Any]]) -> TextTable:
    """What produced the results, a column for each run.

    Args:
        runs: what `results.json` holds, by name of the run.
    """
    columns = [dict(facts(results)) for results in runs.values()]
    names = dict.fromkeys(name for column in columns for name in column)
    rows = [[name, *(column.get(name, NONE) for column in columns)] for name in names]
    return TextTable("", ["", *runs], rows)


def facts(results: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Name and value of what produced the results: model, credit, seed, versions, cost."""
    credit, best = results.get("credit") or {}, results.get("best") or {}
    cost = results.get("cost") or {}
    shown = {
        "recipe": results.get("recipe"),
        "games": ", ".join(results.get("games") or []),
        "model": results.get("model"),
        "credit": credit.get("estimator"),
        "credit options": _options(credit.get("args") or {}),
        "critic": credit.get("critic"),
        "seed": results.get("seed"),
        "best model": f"step {best['step']}, {best['metric']} {best['score']:.4f}"
        if best
        else None,
        "seconds": results.get("seconds"),
        "episodes per second": results.get("episodes_per_second"),
        "CPU seconds": cost.get("cpu_seconds"),
        "peak memory, MiB": _mebibytes(cost.get("peak_memory_bytes")),
        "device": results.get("device"),
        "processes": results.get("processes"),
        "commit of arena-envs": results.get("commit"),
        **(results.get("versions") or {}),
    }
    return [
        (name, str(value)) for name, value in shown.items() if value not in (None, "")
    ]


def _options(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _mebibytes(num_bytes: Any) -> str | None:
    return f"{num_bytes / 2**20:.0f}" if is_number(num_bytes) else None


def _stage_table(game: str, stages: Sequence[Mapping[str, Any]]) -> TextTable:
    num_seats = max((len(stage.get("returns") or []) for stage in stages), default=0)
    heads = ["policy", "episodes", "legal replies", "exact NashConv"]
    heads += [f"return of player_{seat} (95 %)" for seat in range(num_seats)]
    rows = []
    for stage in stages:
        returns = [*map(interval, stage.get("returns") or [])]
        row = [str(stage.get("name")), str(stage.get("num_episodes") or NONE)]
        row += [percent(stage.get("legal_rate")), number(stage.get("nash_conv"), 4)]
        rows.append([*row, *returns, *[NONE] * (num_seats - len(returns))])
    return TextTable(f"{game}: before and after, in self-play", heads, rows)


def _measure_table(game: str, stages: Sequence[Mapping[str, Any]]) -> TextTable:
    rows = [
        [str(stage.get("name")), name, interval(found)]
        for stage in stages
        for name, found in (stage.get("measures") or {}).items()
    ]
    heads = ["policy", "measure", "mean (95 %)"]
    return TextTable(
        f"{game}: the game's measures in self-play", heads, rows, num_keys=2
    )


def _opponent_table(game: str, found: Iterable[Mapping[str, Any]]) -> TextTable:
    rows: list[list[str]] = []
    notes: dict[str, None] = {}
    for row in found:
        if row.get("role") == "policy":
            mean, shares = row.get("mean_return"), ("wins", "draws", "losses")
            ends = {"low": row.get("low"), "high": row.get("high")}
            low, high = row.get("score_interval") or (None, None)
            score = {"mean": row.get("score"), "low": low, "high": high}
            cells = [str(row.get("opponent")), str(row.get("seat"))]
            cells += [str(row.get("num_episodes")), interval({"mean": mean, **ends})]
            cells += [interval(score, 0)]
            reason = row.get("no_score")
            notes[f"score -: {reason}" if reason else SCORE] = None
            rows.append([*cells, *(percent(row.get(share)) for share in shares)])
    heads = ["against", "seat", "episodes", "return (95 %)"]
    heads += ["score (95 %)", "won", "drawn", "lost"]
    return TextTable(f"{game}: against baselines", heads, rows, [*notes], num_keys=2)


def number(value: Any, digits: int = 3) -> str:
    """A number with its digits after the point; "-" for anything else."""
    return f"{value:.{digits}f}" if is_number(value) else NONE


def percent(value: Any) -> str:
    """A share as a percentage; "-" for anything else than a number."""
    return f"{100 * value:.1f} %" if is_number(value) else NONE


def interval(found: Mapping[str, Any], digits: int = 3) -> str:
    """A mean with its interval, such as "0.645 (-0.080 to 1.330)"."""
    mean, low, high = (found.get(name) for name in ("mean", "low", "high"))
    if low is None or high is None:
        return number(mean, digits)
    ends = f"{number(low, digits)} to {number(high, digits)}"
    return f"{number(mean, digits)} ({ends})"
