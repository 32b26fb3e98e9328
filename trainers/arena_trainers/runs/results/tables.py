"""Tables for a terminal, and the picture of a policy beside an equilibrium."""

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from arena_studio.report.tables import SHARES, TextTable, result_tables
from arena_trainers.runs.results.equilibrium import Comparison, Decision
from arena_trainers.runs.results.measure import GameOutcome

# fits 80 columns
NARROW: Any = {"box": box.SIMPLE_HEAD, "padding": (0, 1, 0, 0), "pad_edge": False}


def outcome_tables(outcome: GameOutcome) -> list[Table]:
    """The results in one game: those of the report, and action probabilities."""
    tables = [
        *map(
            _terminal_table,
            result_tables({"outcomes": {outcome.name: outcome.to_dict()}}),
        )
    ]
    if outcome.comparison is not None:
        tables.append(comparison_table(outcome.comparison))
    return tables


def _terminal_table(table_of_texts: TextTable) -> Table:
    """A table of the report for a terminal, without `SHARES`."""
    caption = "\n".join(table_of_texts.notes) or None
    table = Table(title=table_of_texts.title, caption=caption, **NARROW)
    columns = zip(
        table_of_texts.heads, zip(*table_of_texts.rows, strict=True), strict=True
    )
    cells_by_head = {head: cells for head, cells in columns if head not in SHARES}
    for head in cells_by_head:
        is_name, is_text = head in ("policy", "measure"), head == "against"
        justify: Any = "left" if is_name or is_text else "right"
        table.add_column(head, justify=justify, no_wrap=not is_name)
    for cells in zip(*cells_by_head.values(), strict=True):
        table.add_row(*(str(cell) for cell in cells))
    return table


def comparison_table(comparison: Comparison) -> Table:
    """The probabilities side by side; of two actions only the second is shown."""
    pair, caption = (
        _only_pair(comparison.decisions),
        "CFR+ found no equilibrium of this game",
    )
    probabilities = f"P({pair[1]})" if pair else "probabilities"
    if comparison.values is not None:
        values = ", ".join(f"{value:.4f}" for value in comparison.values)
        caption = (
            f"One equilibrium (CFR+, returns {values}). Others may exist; NashConv 0 means "
            "the policy is one."
        )
    table = Table(
        title=f"{comparison.game}: {probabilities} of the trained policy and an equilibrium",
        caption=caption,
        box=box.SIMPLE_HEAD,
    )
    table.add_column("seat", justify="right")
    table.add_column("reads", overflow="fold")
    if not pair:
        table.add_column("action", overflow="fold")
    table.add_column("policy", justify="right", no_wrap=True)
    table.add_column("equilibrium", justify="right", no_wrap=True)
    for decision in comparison.decisions:
        chances = list(_chances(decision, bool(pair)))
        for number, (action, policy, equilibrium) in enumerate(chances):
            first = (str(decision.seat), decision.text)
            cells = ("", "") if number else first
            action_cell = () if pair else (action,)
            numbers = (
                f"{policy:.3f}",
                "-" if equilibrium is None else f"{equilibrium:.3f}",
            )
            table.add_row(*cells, *action_cell, *numbers)
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


def draw_comparisons(comparisons: Sequence[Comparison], path: Path) -> None:
    """Writes a picture with a panel per game and a pair of bars per probability."""
    from matplotlib.figure import Figure

    panels = [_bars(comparison) for comparison in comparisons]
    heights = [1.2 + 0.3 * len(labels) for labels, _, _ in panels]
    figure = Figure(figsize=(9, sum(heights)), layout="constrained")
    axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
    for panel, comparison, (labels, policy, equilibrium) in zip(
        axes, comparisons, panels, strict=True
    ):
        places = range(len(labels))
        panel.barh([y - 0.2 for y in places], policy, 0.4, label="trained policy")
        known_bars = [
            (y, p) for y, p in zip(places, equilibrium, strict=True) if p is not None
        ]
        if known_bars:
            where, sizes = zip(*known_bars, strict=True)
            panel.barh([y + 0.2 for y in where], sizes, 0.4, label="an equilibrium")
        panel.set_yticks(places, labels, fontsize=8)
        panel.invert_yaxis()
        panel.set_xlim(0, 1)
        pair = _only_pair(comparison.decisions)
        panel.set_xlabel(f"P({pair[1]})" if pair else "probability")
        panel.set_title(f"{comparison.game}: the policy and an equilibrium")
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2)
    figure.savefig(path, dpi=120)


def _bars(comparison: Comparison) -> tuple[list[str], list[float], list[float | None]]:
    """Labels, the policy's probabilities and the equilibrium's, one for each bar."""
    pair = _only_pair(comparison.decisions)
    bars = [
        (decision.text if pair else f"{decision.text} [{action}]", policy, equilibrium)
        for decision in comparison.decisions
        for action, policy, equilibrium in _chances(decision, bool(pair))
    ]
    labels, policy_bars, equilibrium_bars = zip(*bars, strict=True)
    return list(labels), list(policy_bars), list(equilibrium_bars)


def _only_pair(decisions: Sequence[Decision]) -> list[str] | None:
    """The two actions of the game, if the same two are legal in every decision."""
    first = decisions[0].actions
    same = all(decision.actions == first for decision in decisions)
    return first if same and len(first) == 2 else None
