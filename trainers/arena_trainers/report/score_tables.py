"""The results of evaluations and tournaments as tables of text, with links to episodes."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from arena_trainers.evaluate.result_rows import Row, against
from arena_trainers.evaluate.tables import score_notes, score_text
from arena_trainers.report.result_tables import (
    NONE,
    Cell,
    TextTable,
    interval,
    number,
    percent,
    source_link,
)

UNKNOWN = "?"  # the policy of a seat without a turn
HEATS = 5  # shades of a color
EVALUATION = (
    "policy", "against", "role", "seat", "episodes", "distinct", "return (95 %)",
    "score (95 %)", "won", "drawn", "lost", "invalid replies", "turns", "tokens",
)  # fmt: skip
PAYOFF = (
    "Mean return of the row's policy in one seat, with the column's in all other seats; "
    "95 % interval. A click opens episodes of the two."
)
ELO = "Elo and OpenSkill count wins; they ignore the size of returns."


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
    rows = [Row(**values) for values in found["rows"]]
    params = ", ".join(f"{name}={value}" for name, value in found["params"].items())
    title = f"{found['game']} ({params})" if params else found["game"]
    notes = []
    if found["known_value"]:
        notes.append(f"Known value: {found['known_value']}")
    notes += score_notes(rows)
    for row in rows:
        if row.role == "policy":
            notes += [
                f"{name} in seat {row.seat}{against(row.opponent)}: "
                + interval({"mean": mean, "low": low, "high": high})
                for name, (mean, low, high) in row.measures.items()
            ]
    cells = [_evaluated(found["game"], row, sources) for row in rows]
    return TextTable(title, EVALUATION, cells, notes)


def _evaluated(game: str, row: Row, sources: Collection[str]) -> list[str | Cell]:
    returns = interval({"mean": row.mean_return, "low": row.low, "high": row.high})
    invalid = ", ".join(f"{why} {percent(rate)}" for why, rate in row.invalid.items())
    shares = [percent(share) for share in (row.wins, row.draws, row.losses)]
    link = _link(_lineup_of(game, row, sources), sources)
    tokens = number(row.num_tokens, 1)
    return [
        Cell(row.policy, link),
        *[row.opponent or NONE, row.role, str(row.seat)],
        *[str(row.num_episodes), str(row.num_distinct), returns, score_text(row)],
        *[*shares, invalid or "none", number(row.num_turns, 1), tokens],
    ]


def _lineup_of(game: str, row: Row, sources: Collection[str]) -> str:
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
    policies = found["policies"]
    for game in found["games"]:
        tables.append(_ranking(policies, game["game"], game))
    if len(found["games"]) > 1:
        tables.append(_ranking(policies, "all games", found))
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
        row: list[str | Cell] = [name]
        for other, payoff in zip(policies, payoffs, strict=True):
            if payoff is None:
                row.append(NONE)
                continue
            source = _pairing(game["game"], name, other, sources)
            heat = round(HEATS * payoff["mean"] / most)
            row.append(Cell(interval(payoff), _link(source, sources), heat))
        rows.append(row)
    notes = [PAYOFF]
    if cross := game["cross_play"]:
        gap = interval(
            {"mean": cross["gap"], "low": cross["low"], "high": cross["high"]}
        )
        notes.append(
            f"Self-play {number(cross['self_play'])} less cross-play "
            f"{number(cross['cross_play'])}: {gap}"
        )
    return TextTable(f"{game['game']}: payoffs", ["against", *policies], rows, notes)


def _pairing(game: str, one: str, other: str, sources: Collection[str]) -> str:
    """The source of a pairing, whose form depends on the number of seats."""
    of_two = match_name(game, [one, other])
    return of_two if of_two in sources else match_name(game, [one, other, other])


def _ranking(
    policies: Sequence[str], title: str, found: Mapping[str, Any]
) -> TextTable:
    """The policies of a game, or of all by their mean rank; the best first."""
    nash, ratings, notes = found.get("nash"), found["ratings"], []
    columns: dict[str, list[str]] = {}
    if ranks := found.get("mean_ranks"):
        columns["mean rank"] = [number(rank, 2) for rank in ranks]
    else:
        ranks = [found["ranking"].index(name) for name in policies]
        columns["return (95 %)"] = [interval(mean) for mean in found["means"]]
        notes.append("Return: the mean over the other policies.")
    if nash:
        columns |= {
            f"Nash {name}": [number(value) for value in nash[key]]
            for name, key in (("average", "ratings"), ("weight", "weights"))
        }
        notes.append("Ordered by Nash average, then by return.")
    if ratings:
        columns["Elo (95 %)"] = [
            interval({"mean": x["elo"], "low": x["elo_low"], "high": x["elo_high"]}, 0)
            for x in ratings
        ]
        columns["OpenSkill"] = [number(x["mu"], 2) for x in ratings]
        columns["sigma"] = [number(x["sigma"], 2) for x in ratings]
        notes.append(ELO)
    rows = [
        [policies[place], *(column[place] for column in columns.values())]
        for place in sorted(range(len(policies)), key=ranks.__getitem__)
    ]
    return TextTable(f"Ranking: {title}", ["policy", *columns], rows, notes)
