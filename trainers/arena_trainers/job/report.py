"""The tables that a training run prints at its end."""

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

from arena_trainers.evaluate.tables import interval_text, score_notes, score_text
from arena_trainers.job.beside_equilibrium import comparison_table
from arena_trainers.job.outcome import GameOutcome, Interval, Stage

# fits 80 columns
NARROW: Any = {"box": box.SIMPLE_HEAD, "padding": (0, 1, 0, 0), "pad_edge": False}


def outcome_tables(found: GameOutcome) -> list[Table]:
    """The results in one game: stages, returns, measures, and action probabilities."""
    tables = [stage_table(found.name, found.stages), return_table(found)]
    if any(stage.measures for stage in found.stages):
        tables.append(_measure_table(found))
    if found.comparison is not None:
        tables.append(comparison_table(found.comparison))
    return tables


def stage_table(game: str, stages: Sequence[Stage]) -> Table:
    """The stages of a run side by side: legal-reply rate and, where exact, NashConv."""
    is_exact = any(stage.nash_conv is not None for stage in stages)
    table = Table(
        title=escape(f"{game}: the policy in self-play"),
        caption="NashConv is of the policy among its legal replies"
        if is_exact
        else None,
        **NARROW,
    )
    table.add_column("policy")
    table.add_column("legal replies", justify="right")
    if is_exact:
        table.add_column("exact NashConv (0 = equilibrium)", justify="right")
    for stage in stages:
        legal = "-" if stage.legal_rate is None else f"{100 * stage.legal_rate:.1f} %"
        conv = "-" if stage.nash_conv is None else f"{stage.nash_conv:.4f}"
        if is_exact or stage.legal_rate is not None:
            table.add_row(stage.name, legal, *([conv] if is_exact else []))
    return table


def return_table(found: GameOutcome) -> Table:
    """Mean returns by opponent and seat with intervals; scores of the last policy."""
    rows = [] if found.evaluation is None else found.evaluation.rows
    rows = [row for row in rows if row.role == "policy"]
    table = Table(
        title=escape(f"{found.name}: mean returns of n episodes"),
        caption=escape("\n".join(score_notes(rows))) or None,
        **NARROW,
    )
    table.add_column("against", no_wrap=True)
    for column in ("seat", "n", "return", "95 %"):
        table.add_column(column, justify="right", no_wrap=True)
    if rows:
        table.add_column("score (95 %)", justify="right", no_wrap=True)
    for stage in found.stages:
        when = "" if stage is found.stages[-1] else f", {stage.name.split()[0]}"
        for seat, interval in enumerate(stage.returns):
            cells = [
                f"itself{when}",
                str(seat),
                str(stage.num_episodes),
                *_interval(interval),
            ]
            table.add_row(*cells, *([""] if rows else []))
    for row in rows:
        cells = [row.opponent, str(row.seat), str(row.num_episodes)]
        cells += _interval(Interval(row.mean_return, row.low, row.high))
        table.add_row(*cells, score_text(row))
    return table


def _measure_table(found: GameOutcome) -> Table:
    title = f"{found.name}: the game's measures of self-play with 95 % intervals"
    table = Table(title=escape(title), **NARROW)
    table.add_column("policy")
    table.add_column("measure")
    for column in ("mean", "95 %"):
        table.add_column(column, justify="right", no_wrap=True)
    for stage in found.stages:
        for name, interval in stage.measures.items():
            table.add_row(stage.name, escape(name), *_interval(interval))
    return table


def _interval(found: Interval) -> tuple[str, str]:
    return f"{found.mean:.3f}", interval_text(found.low, found.high)
