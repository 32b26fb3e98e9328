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
