"""Results as tables of text: of a run, of evaluations, of tournaments, with links to episodes."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from arena_envs.checks import is_number
from arena_eval.luck import Adjusted
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
# errors of reading results that have other fields than those of this version
FIELD_ERRORS = (KeyError, TypeError, AttributeError, IndexError)
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
    for game, outcome in (results.get("outcomes") or {}).items():
        stages = outcome.get("stages") or []
        rows = [x for x in outcome.get("evaluation") or [] if x.get("role") == "policy"]
        both = [_stage_table(game, stages), _return_table(game, stages, rows)]
        if stages and stages[-1].get("learner"):
            both.reverse()
        tables += [*both, _measure_table(game, stages)]
    return [table for table in tables if table.rows]


def source_link(source: str) -> str:
    """The button that opens the episodes of a source."""
    return f"#{urlencode({'from': source})}"


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


def number_cell(value: object, digits: int = 3) -> str:
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
    single, opponent = sorted(set(lineup), key=list(lineup).count)
    return f"{game}: {single} against {opponent}"


def _typed(values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a row or a difference as read from JSON, with `adjusted` as an `Adjusted`."""
    adjusted = values.get("adjusted")
    return {**values, "adjusted": Adjusted(**adjusted) if adjusted else None}


def evaluation_table(results: Mapping[str, Any], sources: Collection[str]) -> TextTable:
    """The rows of an evaluation.

    Args:
        results: what `Evaluation.to_dict` gave.
        sources: sources of the episodes in the page, to which rows link.
    """
    rows = tuple(ResultRow(**_typed(values)) for values in results["rows"])
    difference_rows = {
        name: tuple(Difference(**_typed(values)) for values in results[name])
        for name in ("partners", "differences")
    }
    evaluation = Evaluation(**{**results, "rows": rows, **difference_rows})
    heads, cells = all_columns(evaluation)
    linked: list[list[str | TableCell]] = [
        [
            TableCell(name, _link(_lineup_of(evaluation.game, row, sources), sources)),
            *others,
        ]
        for row, (name, *others) in zip(rows, cells, strict=True)
    ]
    return TextTable(title(evaluation), heads, linked, caption(evaluation).splitlines())


def _lineup_of(game: str, row: ResultRow, sources: Collection[str]) -> str:
    """The source of a row's episodes; empty if the page has none."""
    other_policy = row.policy if row.opponent == "self" else row.opponent
    seat = 0 if row.opponent == "self" else row.seat
    max_players = max(source.count(" / ") + 1 for source in sources)
    for num_players in range(1, max_players + 1):
        # the others have no turn if the policy forfeits
        for other_name in (other_policy, UNKNOWN):
            if isinstance(seat, int) and seat < num_players:
                lineup = [other_name] * num_players
                lineup[seat] = row.policy
                if (name := lineup_name(game, lineup)) in sources:
                    return name
    return ""


def _link(source: str, sources: Collection[str]) -> str:
    return source_link(source) if source in sources else ""


def tournament_tables(
    results: Mapping[str, Any], sources: Collection[str]
) -> list[TextTable]:
    """Payoffs of each game, ratings, and forfeits if there were any.

    Args:
        results: what `Tournament.to_dict` gave.
        sources: sources of the episodes in the page, to which payoffs link.
    """
    tables = [_payoffs(results["policies"], game, sources) for game in results["games"]]
    for ranking, columns, notes in rankings(results):
        rows = [[*map(_one_line, row)] for row in zip(*columns.values(), strict=True)]
        tables.append(TextTable(ranking, [*columns], rows, notes))
    forfeits = [
        [policy, str(count), reason]
        for policy, reasons in results["forfeits"].items()
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
    largest = max(map(abs, means), default=0.0) or 1.0
    rows = []
    for row_policy, payoffs in zip(policies, game["payoffs"], strict=True):
        row: list[str | TableCell] = [row_policy]
        for column_policy, payoff in zip(policies, payoffs, strict=True):
            if payoff is None:
                row.append(NONE)
                continue
            source = match_name(game["game"], [row_policy, column_policy])
            if source not in sources:  # its form depends on the number of seats
                source = match_name(
                    game["game"], [row_policy, column_policy, column_policy]
                )
            heat = round(HEATS * payoff["mean"] / largest)
            row.append(
                TableCell(_one_line(mean_cell(payoff)), _link(source, sources), heat)
            )
        rows.append(row)
    notes = [*payoff_caption(game).splitlines(), "a click opens episodes of the two"]
    return TextTable(f"{game['game']}: payoffs", ["against", *policies], rows, notes)


def _one_line(cell: str) -> str:
    value, _, more = cell.partition("\n")
    return f"{value} ({more})" if more else value
