"""Tables of an evaluation and of a tournament, with links to episodes."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from arena_eval.luck import Adjusted
from arena_eval.matches import Difference, Evaluation
from arena_eval.result_rows import ResultRow
from arena_eval.tables import (
    all_columns,
    caption,
    title,
)
from arena_eval.tournament.round_robin import mean_cell, payoff_caption, rankings
from arena_studio.report.text_tables import (
    HEATS,
    NONE,
    TableCell,
    TextTable,
    source_link,
)

UNKNOWN = "?"  # the policy of a seat without a turn


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
