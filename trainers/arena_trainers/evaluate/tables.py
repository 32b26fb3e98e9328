"""An evaluation as a table to be read."""

from rich import box
from rich.markup import escape
from rich.table import Table

from arena_trainers.evaluate.matches import Evaluation
from arena_trainers.evaluate.rows import Row
from arena_trainers.evaluate.suites import SuiteEvaluation

WIDTH = 12  # of a name that is not folded, where the table has 120 columns
ATTRIBUTES = {"policy": "policy", "against": "opponent"}


def as_table(found: Evaluation) -> Table:
    """The rows of an evaluation; the known value of the game is its caption."""
    has_tokens = any(row.num_tokens is not None for row in found.rows)
    params = ", ".join(f"{name}={value!r}" for name, value in found.params.items())
    table = Table(
        title=escape(f"{found.game} ({params})" if params else found.game),
        box=box.SIMPLE_HEAD,
        caption=escape(_caption(found)) or None,
        padding=(0, 0 if has_tokens else 1, 0, 0),
        pad_edge=False,
    )
    for name in ("policy", "against"):
        longest = max(len(getattr(row, ATTRIBUTES[name])) for row in found.rows)
        width = min(max(longest, len(name)), WIDTH)
        table.add_column(name, overflow="fold", min_width=width)
    table.add_column("role", no_wrap=True)
    for name in (
        "seat",
        "episodes",
        "distinct",
        "return",
        "95 %",
        "score",
        "win/draw/loss",
    ):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("invalid", justify="right")
    table.add_column("turns", justify="right", no_wrap=True)
    cells = [_cells(row) for row in found.rows]
    if has_tokens:
        table.add_column("tokens", justify="right", no_wrap=True)
    else:
        cells = [row[:-1] for row in cells]
    for row in cells:
        table.add_row(*map(escape, row))
    return table


def _caption(found: Evaluation) -> str:
    lines = []
    if found.known_value:
        lines.append(f"Known value: {found.known_value}")
    if any(row.score_interval is not None for row in found.rows):
        lines.append("Scores: by exact returns of the baselines")
    elif any(row.normalised is not None for row in found.rows):
        lines.append(
            "Scores: by sampled returns of the baselines, so without intervals"
        )
    searches = {
        row.policy
        for row in found.rows
        if row.role == "solver" and "mcts" in row.policy
    }
    for row in found.rows:
        if row.role == "policy":
            lines += _notes(row)
    lines += [f"{name} searches, it does not solve" for name in sorted(searches)]
    return "\n".join(lines)


def _notes(row: Row) -> list[str]:
    """What the game measures, with intervals."""
    where = f"seat {row.seat} against {row.opponent}"
    return [
        f"{name} in {where}: {mean:.3f} ({interval_text(low, high)})"
        for name, (mean, low, high) in row.measures.items()
    ]


def interval_text(low: float | None, high: float | None) -> str:
    """An interval as `"0.120 to 0.340"`; "?" for an end that is unknown.

    >>> interval_text(0.5, None)
    '0.500 to ?'
    """
    return " to ".join("?" if end is None else f"{end:.3f}" for end in (low, high))


def suite_table(found: SuiteEvaluation) -> Table:
    """The scores of a suite."""
    table = Table(
        title=escape(f"{found.policy} in the suite {found.suite!r}"),
        box=box.SIMPLE_HEAD,
        caption="Score formulas are inferred from published tables.",
    )
    for name in ("game", "against"):
        table.add_column(name, overflow="fold")
    for name in ("seat", "return", "score"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("formula of the score", overflow="fold")
    for row in found.scores:
        table.add_row(
            row.game,
            escape(", ".join(row.opponents)),
            str(row.seat),
            f"{row.mean_return:.3f}",
            "" if row.score is None else f"{row.score:.1f}",
            row.formula,
        )
    return table


def _cells(row: Row) -> list[str]:
    shares = (row.wins, row.draws, row.losses)
    results = "/".join(f"{share:.0%}" for share in shares if share is not None)
    invalid = ", ".join(f"{reason} {rate:.1%}" for reason, rate in row.invalid.items())
    return [
        row.policy,
        row.opponent,
        row.role,
        str(row.seat),
        str(row.num_episodes),
        str(row.num_distinct),
        f"{row.mean_return:.3f}",
        f"{row.low:.3f} to {row.high:.3f}",
        "" if row.normalised is None else f"{row.normalised:.1f}",
        results,
        invalid or "0",
        f"{row.num_turns:.1f}",
        "" if row.num_tokens is None else f"{row.num_tokens:.1f}",
    ]
