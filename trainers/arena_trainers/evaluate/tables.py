"""An evaluation as one table with all columns, for pipes; `terminal` fits a width."""

from collections.abc import Sequence

from rich import box
from rich.markup import escape
from rich.table import Table

from arena_envs.bots import BOTS, make_bot
from arena_trainers.evaluate.matches import Evaluation
from arena_trainers.evaluate.result_rows import Row, against
from arena_trainers.evaluate.suites import SuiteEvaluation


def as_table(found: Evaluation) -> Table:
    """All rows and columns of an evaluation."""
    heads = ["policy", "against", "role", "seat", "episodes", "distinct", "return"]
    heads += ["95 %", "score", "win/draw/loss", "invalid", "turns", "tokens"]
    cells = [_cells(row, found.rows) for row in found.rows]
    if all(row.num_tokens is None for row in found.rows):
        heads, cells = heads[:-1], [row[:-1] for row in cells]
    if not any(row.opponent for row in found.rows):
        heads, cells = [heads[0], *heads[2:]], [[row[0], *row[2:]] for row in cells]
    table = Table(
        *heads,
        title=escape(title(found)),
        box=box.SIMPLE_HEAD,
        caption=escape(caption(found)) or None,
        caption_justify="left",
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for row in cells:
        table.add_row(*map(escape, row))
    return table


def title(found: Evaluation) -> str:
    """The game and its parameters."""
    params = ", ".join(f"{name}={value!r}" for name, value in found.params.items())
    return f"{found.game} ({params})" if params else found.game


def caption(found: Evaluation) -> str:
    """Lines about the known value, the meaning of scores, and measures."""
    lines = []
    if found.known_value:
        lines.append(f"Known value: {found.known_value}")
    lines += _legend(found.rows)
    if any(row.score_interval is not None for row in found.rows):
        lines.append("Scores use the exact returns of the baselines")
    elif any(row.normalised is not None for row in found.rows):
        lines.append("Scores use the sampled returns of the baselines")
    for row in found.rows:
        if row.role == "policy":
            lines += _notes(row)
    return "\n".join(lines)


def _legend(rows: Sequence[Row]) -> list[str]:
    """Lines that explain the scores 0, 100 and "-"."""
    scored = [row for row in rows if row.normalised is not None]
    solvers = dict.fromkeys(row.policy for row in scored if row.role == "solver")
    lines = []
    for name in solvers:
        kind = reference_kind(name)
        full = f"the {kind} ({name})" if kind.startswith("solver") else name
        lines.append(f"score: 0 = uniform random play, 100 = {full}")
        if kind == "search":
            lines.append(f"{name} is a search, not a solver")
        elif kind == "heuristic":
            lines.append(f"{name} is a heuristic, not a solver")
        if any(score_without_interval(row, rows) == "-" for row in scored):
            lines.append(
                f"score -: the 95 % intervals of uniform random play and {name} overlap"
            )
    return lines


def reference_kind(name: str) -> str:
    """The kind of the solver baseline: "solver", "search" or "heuristic".

    In language games: "solver of the core", the finite set of legal actions.
    """
    if "mcts" in name:
        return "search"
    if name.startswith("core_"):
        return "solver of the core"
    is_bot = name.partition(":")[0] in BOTS
    is_exact = not is_bot or getattr(make_bot(name), "is_exact", False)
    return "solver" if is_exact else "heuristic"


def score_without_interval(row: Row, rows: Sequence[Row]) -> str:
    """The score of a row among all rows of an evaluation.

    "-" if it is undefined, or if the 95 % intervals of uniform play and solver overlap;
    empty without a solver.
    """
    ends = {
        other.role: other
        for other in rows
        if (other.opponent, other.seat) == (row.opponent, row.seat)
    }
    if "solver" not in ends:
        return ""
    overlap = ends["solver"].low <= ends["uniform"].high
    if row.normalised is None or (row.score_interval is None and overlap):
        return "-"
    return f"{row.normalised:z.1f}"


def percentages(row: Row) -> list[str]:
    """Percentages of wins, draws and losses; empty in cooperative games."""
    shares = (row.wins, row.draws, row.losses)
    return [f"{100 * share:.0f}" for share in shares if share is not None]


def _notes(row: Row) -> list[str]:
    """A line for each of the game's measures, with interval."""
    where = f"seat {row.seat}{against(row.opponent)}"
    return [
        f"{name} in {where}: {mean:z.3f} ({interval_text(low, high)})"
        for name, (mean, low, high) in row.measures.items()
    ]


def interval_text(low: float | None, high: float | None) -> str:
    """An interval as `"0.120 to 0.340"`; "?" stands for an unknown end.

    >>> interval_text(0.5, None)
    '0.500 to ?'
    """
    return " to ".join("?" if end is None else f"{end:z.3f}" for end in (low, high))


def suite_table(found: SuiteEvaluation) -> Table:
    """The scores of a suite."""
    table = Table(
        title=escape(f"{found.policy} in the suite {found.suite!r}"),
        box=box.SIMPLE_HEAD,
        caption="The score formulas are inferred from published tables.",
        caption_justify="left",
        padding=(0, 1, 0, 0),
        show_edge=False,
    )
    table.add_column("game", no_wrap=True, overflow="fold")
    table.add_column("against", overflow="fold")
    for name in ("seat", "return", "score"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("formula of the score", overflow="fold")
    for row in found.scores:
        table.add_row(
            row.game,
            escape(", ".join(row.opponents)),
            str(row.seat),
            f"{row.mean_return:z.3f}",
            "" if row.score is None else f"{row.score:z.1f}",
            row.formula,
        )
    return table


def _cells(row: Row, rows: Sequence[Row]) -> list[str]:
    results = "/".join(f"{share}%" for share in percentages(row))
    invalid = ", ".join(f"{reason} {rate:.1%}" for reason, rate in row.invalid.items())
    return [
        row.policy,
        row.opponent,
        row.role,
        str(row.seat),
        str(row.num_episodes),
        str(row.num_distinct),
        f"{row.mean_return:z.3f}",
        f"{row.low:z.3f} to {row.high:z.3f}",
        score_without_interval(row, rows),
        results,
        invalid or "0",
        f"{row.num_turns:.1f}",
        "" if row.num_tokens is None else f"{row.num_tokens:.1f}",
    ]
