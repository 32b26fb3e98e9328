"""Tables for a terminal, and the picture of a policy beside an equilibrium."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from arena_studio.report.tables import SHARES, result_tables
from arena_studio.report.text_tables import TextTable
from arena_trainers.runs.results.equilibrium import Comparison, Decision
from arena_trainers.runs.results.measure import GameOutcome

# fits 80 columns
NARROW: Any = {"box": box.SIMPLE_HEAD, "padding": (0, 1, 0, 0), "pad_edge": False}


def outcome_tables(outcome: GameOutcome) -> list[Table]:
    """The results in one game: those of the report, and action probabilities."""
    of_report = result_tables({"outcomes": {outcome.name: outcome.to_dict()}})
    tables = [_terminal_table(table) for table in of_report]
    if outcome.comparison is not None:
        tables.append(equilibrium_table(outcome.comparison))
    return tables


def _terminal_table(texts: TextTable) -> Table:
    """A table of the report for a terminal, without `SHARES`."""
    table = Table(title=texts.title, caption="\n".join(texts.notes) or None, **NARROW)
    columns = [number for number, head in enumerate(texts.heads) if head not in SHARES]
    for number in columns:
        head = texts.heads[number]
        is_name = head in ("policy", "measure")
        justify: Any = "left" if is_name or head == "against" else "right"
        table.add_column(head, justify=justify, no_wrap=not is_name)
    for row in texts.rows:
        table.add_row(*(str(row[number]) for number in columns))
    return table


def equilibrium_table(comparison: Comparison) -> Table:
    """The probabilities side by side; of two actions only the second is shown."""
    pair = _only_pair(comparison.decisions)
    subject = f"P({pair[1]})" if pair else "probabilities"
    caption = "CFR+ found no equilibrium of this game"
    if comparison.values is not None:
        values = ", ".join(f"{value:.4f}" for value in comparison.values)
        caption = (
            f"One equilibrium (CFR+, returns {values}). Others may exist; NashConv 0 means "
            "the policy is one."
        )
    table = Table(
        title=f"{comparison.game}: {subject} of the trained policy and an equilibrium",
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
        seat, text = str(decision.seat), decision.text
        for action, policy, equilibrium in _probabilities(decision, bool(pair)):
            cells = [seat, text] if pair else [seat, text, action]
            cells.append(f"{policy:.3f}")
            cells.append("-" if equilibrium is None else f"{equilibrium:.3f}")
            table.add_row(*cells)
            seat = text = ""  # once for all actions of a decision
    return table


def _probabilities(
    decision: Decision, is_pair: bool
) -> list[tuple[str, float, float | None]]:
    """Each action, with its probability under the policy and at the equilibrium.

    Of a pair of actions only the second.
    """
    equilibrium: Sequence[float | None] = decision.equilibrium or []
    if not equilibrium:
        equilibrium = [None] * len(decision.actions)
    rows = list(zip(decision.actions, decision.policy, equilibrium, strict=True))
    return rows[1:] if is_pair else rows


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
        panel.barh(
            [place - 0.2 for place in places], policy, 0.4, label="trained policy"
        )
        bars = {
            place: probability
            for place, probability in zip(places, equilibrium, strict=True)
            if probability is not None
        }
        if bars:
            panel.barh(
                [place + 0.2 for place in bars],
                list(bars.values()),
                0.4,
                label="an equilibrium",
            )
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
        for action, policy, equilibrium in _probabilities(decision, bool(pair))
    ]
    labels, policy_bars, equilibrium_bars = zip(*bars, strict=True)
    return list(labels), list(policy_bars), list(equilibrium_bars)


def _only_pair(decisions: Sequence[Decision]) -> list[str] | None:
    """The two actions of the game, if the same two are legal in every decision."""
    first = decisions[0].actions
    same = all(decision.actions == first for decision in decisions)
    return first if same and len(first) == 2 else None
