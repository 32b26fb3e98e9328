"""The results of a run as tables of text."""

from collections.abc import Mapping, Sequence
from typing import Any

from arena_envs.checks import is_number
from arena_eval.tables import (
    interval_text,
    is_too_wide,
    score_notes,
)
from arena_studio.report.text_tables import (
    NONE,
    TextTable,
    number_cell,
    percent,
)

# errors of reading results that have other fields or values than those of this version
FIELD_ERRORS = (
    KeyError,
    TypeError,
    AttributeError,
    IndexError,
    OverflowError,
    RecursionError,
)
SHARES = ("won", "drawn", "lost")  # columns of a page; a terminal has no room for them


def result_tables(results: Mapping[str, Any]) -> list[TextTable]:
    """For each game: the stages, mean returns by opponent and seat, and the game's measures.

    Args:
        results: what `results.json` holds; what it lacks is shown as "-" or left out.
    """
    tables = []
    for game, outcome in (results.get("outcomes") or {}).items():
        stages = outcome.get("stages") or []
        rows = [x for x in outcome.get("evaluation") or [] if x.get("role") == "policy"]
        both = [_stage_table(game, stages), _return_table(game, stages, rows)]
        if stages and stages[-1].get("learner"):
            both.reverse()
        tables += [*both, _measure_table(game, stages)]
    return [table for table in tables if table.rows]


def fact_table(runs: Mapping[str, Sequence[tuple[str, str]]]) -> TextTable:
    """The origin of the results, a column for each run.

    Args:
        runs: the facts of each run by its name.
    """
    columns = [dict(run_facts) for run_facts in runs.values()]
    names = dict.fromkeys(name for column in columns for name in column)
    rows = [[name, *(column.get(name, NONE) for column in columns)] for name in names]
    return TextTable("", ["", *runs], rows)


def facts(results: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Name and value of what produced the results: model, credit, seed, versions, cost."""
    credit, best = results.get("credit") or {}, results.get("best") or {}
    cost, args = results.get("cost") or {}, credit.get("args") or {}
    peak: Any = cost.get("peak_memory_bytes")
    values_by_name = {
        "recipe": results.get("recipe"),
        "games": ", ".join(results.get("games") or []),
        "model": results.get("model"),
        "credit": credit.get("estimator"),
        "credit options": ", ".join(f"{name}={x}" for name, x in args.items()),
        "critic": credit.get("critic"),
        "seed": results.get("seed"),
        "best model": f"step {best['step']}, {best['metric']} {best['score']:.4f}"
        if best
        else None,
        "seconds": results.get("seconds"),
        "episodes per second": results.get("episodes_per_second"),
        "CPU seconds": cost.get("cpu_seconds"),
        "peak memory, MiB": f"{peak / 2**20:.0f}" if is_number(peak) else None,
        "device": results.get("device"),
        "processes": results.get("processes"),
        "commit of arena-envs": results.get("commit"),
        **(results.get("versions") or {}),
    }
    return [
        (name, str(value))
        for name, value in values_by_name.items()
        if value not in (None, "")
    ]


def _stage_table(game: str, stages: Sequence[Mapping[str, Any]]) -> TextTable:
    """The stages of a run side by side: legal-reply rate and, where exact, NashConv."""
    is_exact = any(stage.get("nash_conv") is not None for stage in stages)
    rows = [
        [
            str(stage.get("name")),
            percent(stage.get("legal_rate")),
            *([number_cell(stage.get("nash_conv"), 4)] if is_exact else []),
        ]
        for stage in stages
        if is_exact or stage.get("legal_rate") is not None
    ]
    heads = ["policy", "legal replies"]
    heads += ["exact NashConv (0 = equilibrium)"] if is_exact else []
    notes = ["NashConv is of the policy among its legal replies"] if is_exact else []
    return TextTable(f"{game}: the policy in self-play", heads, rows, notes)


def _return_table(
    game: str,
    stages: Sequence[Mapping[str, Any]],
    evaluation_rows: Sequence[Mapping[str, Any]],
) -> TextTable:
    """Mean returns by opponent and seat with intervals; scores of the last policy."""
    heads = ["against", "seat", "n", "return", "95 %"]
    heads += ["score (95 %)", *SHARES] if evaluation_rows else []
    rows = []
    timed = [
        ("" if stage is stages[-1] else f", {str(stage.get('name')).split()[0]}", stage)
        for stage in stages
    ]
    for when, stage in timed:
        if row := stage.get("learner"):
            cells = [f"opponents{when}", str(row["seat"]), str(row["num_episodes"])]
            rows.append([*cells, *_figures(row)])
    for when, stage in timed:
        for seat, mean in enumerate(stage.get("returns") or []):
            cells = [f"itself{when}", str(seat), str(stage.get("num_episodes"))]
            rows.append([*cells, *_figures(mean)])
    rows = [[*row, *[""] * (len(heads) - len(row))] for row in rows]
    for row in evaluation_rows:
        cells = [str(row.get(name)) for name in ("opponent", "seat", "num_episodes")]
        shares = [percent(row.get(share)) for share in ("wins", "draws", "losses")]
        rows.append([*cells, *_figures(row), _score(row), *shares])
    notes = score_notes(evaluation_rows)
    return TextTable(f"{game}: mean returns of n episodes", heads, rows, notes, 2)


def _measure_table(game: str, stages: Sequence[Mapping[str, Any]]) -> TextTable:
    rows = [
        [str(stage.get("name")), name, *_figures(figures)]
        for stage in stages
        for name, figures in (stage.get("measures") or {}).items()
    ]
    title = f"{game}: the game's measures of self-play with 95 % intervals"
    return TextTable(title, ["policy", "measure", "mean", "95 %"], rows, num_keys=2)


def _figures(figures: Mapping[str, Any]) -> list[str]:
    mean = number_cell(figures.get("mean", figures.get("mean_return")))
    if figures.get("is_exact"):
        return [mean, "exact"]
    return [mean, interval_text(figures.get("low"), figures.get("high"))]


def _score(row: Mapping[str, Any]) -> str:
    low, high = row.get("score_interval") or (None, None)
    if is_too_wide(row.get("score_interval")):
        return NONE
    ends = (
        ""
        if low is None or row.get("is_exact")
        else f" ({number_cell(low, 0)} to {number_cell(high, 0)})"
    )
    return f"{number_cell(row.get('score'), 1)}{ends}"
