"""Results as tables of text: of a run, of evaluations, of tournaments, with links to episodes."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from arena_envs.checks import is_number
from arena_eval.matches import Difference, Evaluation
from arena_eval.result_rows import ResultRow
from arena_eval.tables import (
    all_columns,
    caption,
    interval_text,
    is_too_wide,
    score_notes,
    title,
)
from arena_eval.tournament.round_robin import mean_cell, payoff_caption, rankings

NONE = "-"
SHARES = ("won", "drawn", "lost")  # columns of a page; a terminal has no room for them


class TableCell(NamedTuple):
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
    rows: Sequence[Sequence[str | TableCell]]
    notes: Sequence[str] = ()
    num_keys: int = 1


def result_tables(results: Mapping[str, Any]) -> list[TextTable]:
    """For each game: the stages, mean returns by opponent and seat, and the game's measures.

    Args:
        results: what `results.json` holds; what it lacks is shown as "-" or left out.
    """
    tables = []
    for game, found in (results.get("outcomes") or {}).items():
        stages = found.get("stages") or []
        rows = [x for x in found.get("evaluation") or [] if x.get("role") == "policy"]
        both = [_stage_table(game, stages), _return_table(game, stages, rows)]
        if stages and stages[-1].get("learner"):
            both.reverse()
        tables += [*both, _measure_table(game, stages)]
    return [table for table in tables if table.rows]


def source_link(source: str) -> str:
    """The button that opens the episodes of a source."""
    return f"#{urlencode({'from': source})}"


def fact_table(runs: Mapping[str, Mapping[str, Any]]) -> TextTable:
    """The origin of the results, a column for each run.

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
    cost, args = results.get("cost") or {}, credit.get("args") or {}
    peak: Any = cost.get("peak_memory_bytes")
    shown = {
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
        (name, str(value)) for name, value in shown.items() if value not in (None, "")
    ]


def _stage_table(game: str, stages: Sequence[Mapping[str, Any]]) -> TextTable:
    """The stages of a run side by side: legal-reply rate and, where exact, NashConv."""
    is_exact = any(stage.get("nash_conv") is not None for stage in stages)
    rows = [
        [
            str(stage.get("name")),
            percent(stage.get("legal_rate")),
            *([number(stage.get("nash_conv"), 4)] if is_exact else []),
        ]
        for stage in stages
        if is_exact or stage.get("legal_rate") is not None
    ]
    heads = ["policy", "legal replies"]
    heads += ["exact NashConv (0 = equilibrium)"] if is_exact else []
    notes = ["NashConv is of the policy among its legal replies"] if is_exact else []
    return TextTable(f"{game}: the policy in self-play", heads, rows, notes)


def _return_table(
    game: str, stages: Sequence[Mapping[str, Any]], found: Sequence[Mapping[str, Any]]
) -> TextTable:
    """Mean returns by opponent and seat with intervals; scores of the last policy."""
    heads = ["against", "seat", "n", "return", "95 %"]
    heads += ["score (95 %)", *SHARES] if found else []
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
    for row in found:
        cells = [str(row.get(name)) for name in ("opponent", "seat", "num_episodes")]
        shares = [percent(row.get(share)) for share in ("wins", "draws", "losses")]
        rows.append([*cells, *_figures(row), _score(row), *shares])
    notes = score_notes(found)
    return TextTable(f"{game}: mean returns of n episodes", heads, rows, notes, 2)


def _measure_table(game: str, stages: Sequence[Mapping[str, Any]]) -> TextTable:
    rows = [
        [str(stage.get("name")), name, *_figures(found)]
        for stage in stages
        for name, found in (stage.get("measures") or {}).items()
    ]
    title = f"{game}: the game's measures of self-play with 95 % intervals"
    return TextTable(title, ["policy", "measure", "mean", "95 %"], rows, num_keys=2)


def _figures(found: Mapping[str, Any]) -> list[str]:
    mean = number(found.get("mean", found.get("mean_return")))
    if found.get("is_exact"):
        return [mean, "exact"]
    return [mean, interval_text(found.get("low"), found.get("high"))]


def _score(row: Mapping[str, Any]) -> str:
    low, high = row.get("score_interval") or (None, None)
    if is_too_wide(row.get("score_interval")):
        return NONE
    ends = (
        ""
        if low is None or row.get("is_exact")
        else f" ({number(low, 0)} to {number(high, 0)})"
    )
    return f"{number(row.get('score'), 1)}{ends}"


def number(value: Any, digits: int = 3) -> str:
    """A number with its digits after the point; "-" for anything else."""
    return f"{value:z.{digits}f}" if is_number(value) else NONE


def percent(value: Any) -> str:
    """A share as a percentage; "-" for anything else than a number."""
    return f"{100 * value:.1f} %" if is_number(value) else NONE


UNKNOWN = "?"  # the policy of a seat without a turn
HEATS = 5  # shades of a color


def lineup_name(game: str, lineup: Sequence[str]) -> str:
    """The name of the episodes of a lineup: the game, and the policy of each seat."""
    return f"{game}: {' / '.join(lineup)}"


def match_name(game: str, lineup: Sequence[str]) -> str:
    """The name of the episodes of a pairing.

    With two seats it has both orders. With more, one policy has one seat.

    >>> match_name("kuhn_poker-v0", ["b", "a"])
    'kuhn_poker-v0: a and b'
    >>> match_name("kuhn_poker-v0", ["b", "b", "a"])
    'kuhn_poker-v0: a against b'
    """
    if len(set(lineup)) == 1:
        return f"{game}: {lineup[0]} with itself"
    if len(lineup) == 2:
        return f"{game}: {' and '.join(sorted(lineup))}"
    one, others = sorted(set(lineup), key=list(lineup).count)
    return f"{game}: {one} against {others}"


def evaluation_table(found: Mapping[str, Any], sources: Collection[str]) -> TextTable:
    """The rows of an evaluation.

    Args:
        found: what `Evaluation.to_dict` gave.
        sources: sources of the episodes in the page, to which rows link.
    """
    rows = tuple(ResultRow(**values) for values in found["rows"])
    paired = {
        name: tuple(Difference(**values) for values in found[name])
        for name in ("partners", "differences")
    }
    read = Evaluation(**{**found, "rows": rows, **paired})
    heads, cells = all_columns(read)
    linked: list[list[str | TableCell]] = [
        [TableCell(name, _link(_lineup_of(read.game, row, sources), sources)), *others]
        for row, (name, *others) in zip(rows, cells, strict=True)
    ]
    return TextTable(title(read), heads, linked, caption(read).splitlines())


def _lineup_of(game: str, row: ResultRow, sources: Collection[str]) -> str:
    """The source of a row's episodes; empty if the page has none."""
    other = row.policy if row.opponent == "self" else row.opponent
    seat = 0 if row.opponent == "self" else row.seat
    most = max(source.count(" / ") + 1 for source in sources)
    for num_players in range(1, most + 1):
        for rest in (other, UNKNOWN):  # the others have no turn if the policy forfeits
            if isinstance(seat, int) and seat < num_players:
                lineup = [rest] * num_players
                lineup[seat] = row.policy
                if (name := lineup_name(game, lineup)) in sources:
                    return name
    return ""


def _link(source: str, sources: Collection[str]) -> str:
    return source_link(source) if source in sources else ""


def tournament_tables(
    found: Mapping[str, Any], sources: Collection[str]
) -> list[TextTable]:
    """Payoffs of each game, ratings, and forfeits if there were any.

    Args:
        found: what `Tournament.to_dict` gave.
        sources: sources of the episodes in the page, to which payoffs link.
    """
    tables = [_payoffs(found["policies"], game, sources) for game in found["games"]]
    for ranking, columns, notes in rankings(found):
        rows = [[*map(_one_line, row)] for row in zip(*columns.values(), strict=True)]
        tables.append(TextTable(ranking, [*columns], rows, notes))
    forfeits = [
        [policy, str(count), reason]
        for policy, reasons in found["forfeits"].items()
        for reason, count in reasons.items()
    ]
    if forfeits:
        tables.append(TextTable("Forfeits", ["policy", "times", "reason"], forfeits))
    return tables


def _payoffs(
    policies: Sequence[str], game: Mapping[str, Any], sources: Collection[str]
) -> TextTable:
    """The matrix; the largest absolute mean has the full color."""
    means = [cell["mean"] for row in game["payoffs"] for cell in row if cell]
    most = max(map(abs, means), default=0.0) or 1.0
    rows = []
    for name, payoffs in zip(policies, game["payoffs"], strict=True):
        row: list[str | TableCell] = [name]
        for other, payoff in zip(policies, payoffs, strict=True):
            if payoff is None:
                row.append(NONE)
                continue
            source = match_name(game["game"], [name, other])
            if source not in sources:  # its form depends on the number of seats
                source = match_name(game["game"], [name, other, other])
            heat = round(HEATS * payoff["mean"] / most)
            row.append(
                TableCell(_one_line(mean_cell(payoff)), _link(source, sources), heat)
            )
        rows.append(row)
    notes = [*payoff_caption(game).splitlines(), "a click opens episodes of the two"]
    return TextTable(f"{game['game']}: payoffs", ["against", *policies], rows, notes)


def _one_line(cell: str) -> str:
    value, _, more = cell.partition("\n")
    return f"{value} ({more})" if more else value
