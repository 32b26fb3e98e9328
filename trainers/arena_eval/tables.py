"""An evaluation as tables: with all columns for pipes, or within a terminal's width."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from itertools import groupby
from typing import Any

from rich import box
from rich.table import Table

from arena_envs.bots import BOTS, make_bot
from arena_eval.luck import Adjusted, worth_text
from arena_eval.matches import Difference, Evaluation
from arena_eval.result_rows import ResultRow, against

SCORE = (
    "score: an estimate from the mean return, with the luck taken out where that helps; exact "
    "ends: 0 = uniform random play, 100 = a best response"
)
LUCK = (
    "luck out: returns less corrections of mean 0 for each draw with known probabilities; "
    "unbiased as the return is; as good as 2 times the games: a raw mean needs twice as many"
)
EXACT_SCORE = "score: 0 = uniform random play, 100 = a best response, all exact"
EXACT = (
    "exact: sums over all states, in place of means of episodes; episodes give turns, "
    "tokens and invalid replies alone"
)
UNSEEN = (
    "intervals of differences: no interval covers a rare, large loss that these episodes "
    "never showed"
)

# of results in a terminal: two spaces between columns
ANY_TIME = (
    "intervals hold at all numbers of episodes together, so that play may stop by them"
)
STYLE: Any = {"box": box.SIMPLE_HEAD, "caption_justify": "left", "pad_edge": False}
STYLE |= {"padding": (0, 1, 0, 0), "show_edge": False}


def as_table(evaluation: Evaluation) -> Table:
    """All rows and columns of an evaluation."""
    heads, cells = all_columns(evaluation)
    table = Table(*heads, **STYLE | {"show_edge": True})
    table.title, table.caption = title(evaluation), caption(evaluation) or None
    for row in cells:
        table.add_row(*row)
    return table


HEADS = (
    "policy",
    "against",
    "role",
    "seat",
    "episodes",
    "distinct",
    "return",
    "95 %",
    "luck out (95 %)",
    "as good as",
    "score (95 %)",
    "win/draw/loss",
    "invalid",
    "turns",
    "tokens",
)


def all_columns(evaluation: Evaluation) -> tuple[list[str], list[list[str]]]:
    """The names of all columns that have values, and the cells of each row."""
    rows, empty = evaluation.rows, set[str]()
    if not any(row.opponent for row in rows):
        empty.add("against")
    if not any(row.adjusted for row in rows):
        empty |= {"luck out (95 %)", "as good as"}
    if all(row.num_tokens is None for row in rows):
        empty.add("tokens")
    places = [place for place, head in enumerate(HEADS) if head not in empty]
    cells = map(_cells, rows)
    return [HEADS[i] for i in places], [[texts[i] for i in places] for texts in cells]


def title(evaluation: Evaluation) -> str:
    """The game and its parameters."""
    params = ", ".join(f"{name}={value!r}" for name, value in evaluation.params.items())
    return f"{evaluation.game} ({params})" if params else evaluation.game


def caption(evaluation: Evaluation) -> str:
    """Lines about the known value, the meaning of scores, and measures."""
    lines = []
    if evaluation.known_value:
        lines.append(f"Known value: {evaluation.known_value}")
    if split := evaluation.params.get("split"):
        other_split = "test" if split == "train" else "train"
        lines.append(f"Split: {split}; -p split={other_split} draws other instances")
    for difference in evaluation.partners:
        lines.append(
            f"With itself {difference.value:.3f}, with the stranger {difference.opponent} "
            f"{difference.base_value:.3f}: difference {difference.difference:z.3f} ({ends_text(difference)})"
        )
    for difference in evaluation.differences:
        lines.append(
            f"{evaluation.rows[0].policy} less {difference.base}{against(difference.opponent)}"
            f"{'' if difference.is_exact else f', paired by {difference.num_seeds} seeds'}: "
            f"{difference.difference:z.3f} ({ends_text(difference)})"
        )
    if evaluation.stops:
        lines += [f"played: {text}" for text in evaluation.stops]
        if not all(row.is_exact for row in evaluation.rows):
            lines.append(ANY_TIME)
    if not all(
        difference.is_exact
        for difference in (*evaluation.partners, *evaluation.differences)
    ):
        lines.append(UNSEEN)
    lines += exact_notes(evaluation.rows)
    lines += luck_notes(evaluation)
    lines += score_notes([vars(row) for row in evaluation.rows])
    for name in dict.fromkeys(
        row.policy for row in evaluation.rows if row.role == "solver"
    ):
        if not (kind := reference_kind(name)).startswith("solver"):
            lines.append(f"{name} is a {kind}, not a solver")
    for row in evaluation.rows:
        where = f"seat {row.seat}{against(row.opponent)}"
        for name, measured in row.measures.items() if row.role == "policy" else ():
            value, low, high, num = measured
            ends = interval_text(low, high)
            lines.append(f"{name} in {where}: {value:z.3f} ({ends}; n = {num})")
    for row in filter(lambda row: row.num_lost, evaluation.rows):
        whose = f"{row.policy}{against(row.opponent)}"
        lost = f"{row.num_lost} episodes of {whose} in seat {row.seat}, left out of all means"
        if row.seat == "all":
            lost = (
                f"row all of {whose} has only the {row.num_episodes} episodes of seeds "
            )
            lost += "that are complete in every seat"
        lines.append(f"lost: {lost}")
    return "\n".join(lines)


def exact_notes(rows: Sequence[ResultRow]) -> list[str]:
    """Lines that explain exact rows, and what invalid replies cost in them."""
    lines = [EXACT] if any(row.is_exact for row in rows) else []
    for row in rows:
        if row.is_exact and row.invalid_mass > 0 and row.role in ("policy", "base"):
            lines.append(
                f"{row.policy} in seat {row.seat}{against(row.opponent)}: invalid replies "
                f"count, in {row.invalid_mass:.2%} of episodes"
            )
    return lines


def score_notes(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Lines that explain the scores 0, 100 and "-" of rows, which are given by field."""
    reasons: dict[str, dict[str, None]] = {}
    row_reasons = [
        TOO_WIDE if is_too_wide(row.get("score_interval")) else row.get("no_score")
        for row in rows
    ]
    for row, reason in zip(rows, row_reasons, strict=True):
        if reason:
            where = f"seat {row['seat']}{against(row['opponent'])}"
            reasons.setdefault(reason, {})[where] = None
    scored = [row for row in rows if row.get("score") is not None]
    are_exact = all(row.get("is_exact") for row in scored)
    lines = [EXACT_SCORE if are_exact else SCORE] if scored else []
    for reason, places in reasons.items():
        is_everywhere = all(row_reason == reason for row_reason in row_reasons)
        where = "" if is_everywhere else f" ({', '.join(places)})"
        lines.append(f"score -: {reason}{where}")
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


WIDE = 100.0  # width of a score's interval, from uniform random play to a best response
TOO_WIDE = "its 95 % interval is wider than the scale; play more episodes (-n)"


def is_too_wide(score_interval: Sequence[float] | None) -> bool:
    """Whether the interval of a score is wider than the scale, so that it tells nothing."""
    return score_interval is not None and score_interval[1] - score_interval[0] > WIDE


def score_text(row: ResultRow, interval: bool = True) -> str:
    """The score of a row with its interval; "-" if it has none, or one that tells nothing."""
    if row.score is None or row.score_interval is None:
        return "-"
    if is_too_wide(row.score_interval):
        return "-"
    low, high = row.score_interval
    interval = interval and not row.is_exact
    return f"{row.score:z.1f}" + (f" ({low:z.0f} to {high:z.0f})" if interval else "")


def percentages(row: ResultRow) -> list[str]:
    """Percentages of wins, draws and losses; empty in cooperative games."""
    shares = (row.wins, row.draws, row.losses)
    return [f"{100 * share:.0f}" for share in shares if share is not None]


def _adjusted_cells(row: ResultRow) -> list[str]:
    adjusted = row.adjusted
    if adjusted is None:
        return ["-", "-"]
    ends = interval_text(adjusted.low, adjusted.high)
    return [f"{adjusted.mean:z.3f} ({ends})", worth_text(adjusted.worth)]


def adjusted_text(adjusted: Adjusted) -> str:
    """A mean with the luck taken out, and what it is worth."""
    ends = interval_text(adjusted.low, adjusted.high)
    worth = "" if adjusted.worth is None else "as good as "
    return f"{adjusted.mean:z.3f} ({ends}), {worth}{worth_text(adjusted.worth)}"


def luck_notes(evaluation: Evaluation) -> list[str]:
    """Lines with means and differences whose luck is taken out, where that helps."""
    lines = [
        f"luck out, {row.policy} in seat {row.seat}{against(row.opponent)}: "
        f"{adjusted_text(row.adjusted)}"
        for row in evaluation.rows
        if row.adjusted
    ]
    lines += [
        f"luck out, difference from {difference.base}{against(difference.opponent)}: "
        f"{adjusted_text(difference.adjusted)}"
        for difference in (*evaluation.partners, *evaluation.differences)
        if difference.adjusted
    ]
    seconds: dict[str, float] = {}
    adjusted = [row.adjusted for row in evaluation.rows]
    adjusted += [
        difference.adjusted
        for difference in (*evaluation.partners, *evaluation.differences)
    ]
    for mean in filter(None, adjusted):
        seconds[mean.values] = max(seconds.get(mean.values, 0.0), mean.seconds)
    for name, duration in seconds.items():
        fit = f", fitted in {duration:.1f} s of CPU time, once" if duration else ""
        lines.append(f"{LUCK} (values: {name}{fit})")
    return lines


def ends_text(row: ResultRow | Difference) -> str:
    """The interval of a mean, or "exact"."""
    return "exact" if row.is_exact else interval_text(row.low, row.high)


def interval_text(low: float | None, high: float | None) -> str:
    """An interval as `"0.120 to 0.340"`; "?" stands for an unknown end.

    >>> interval_text(0.5, None)
    '0.500 to ?'
    """
    return " to ".join("?" if end is None else f"{end:z.3f}" for end in (low, high))


def _cells(row: ResultRow) -> list[str]:
    """The cells of a row, in the order of `HEADS`."""
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
        ends_text(row),
        *_adjusted_cells(row),
        score_text(row),
        results,
        invalid or "0",
        f"{row.num_turns:.1f}",
        "" if row.num_tokens is None else f"{row.num_tokens:.1f}",
    ]


NAME = 20  # longest name without a line break
SHARES = "win/draw\n/loss %"
DROPPED = ("turns", "tokens", SHARES, "invalid")  # in this order


def evaluation_tables(
    evaluation: Evaluation, width: int | None, has_baselines: bool = True
) -> list[Table]:
    """One table per opponent, with the columns that fit into `width` characters.

    Policy, seat, number of episodes, return, interval and score always stay. None as width
    gives one table with all columns. Without `has_baselines`, lines below the table have the
    baselines' returns in place of their rows.
    """
    lines = [] if has_baselines else baseline_lines(evaluation.rows)
    if not has_baselines:
        others = tuple(row for row in evaluation.rows if row.role not in BASELINES)
        evaluation = replace(evaluation, rows=others)
    if width is None:
        table = as_table(evaluation)
        table.caption = "\n".join(filter(None, [*lines, caption(evaluation)])) or None
        return [table]
    opponents = dict.fromkeys(row.opponent for row in evaluation.rows)
    tables = [_table(evaluation, opponent, width) for opponent in opponents]
    remarks = [*lines, caption(evaluation), *_invalid(evaluation.rows)]
    tables[-1].caption = "\n".join(filter(None, remarks)) or None
    return tables


BASELINES = ("uniform", "solver", "constant")  # roles of rows


def baseline_lines(rows: Sequence[ResultRow]) -> list[str]:
    """Two lines per opponent: the returns of uniform play and the solver, and of a constant."""
    lines = []
    for opponent in dict.fromkeys(row.opponent for row in rows):
        last = {
            row.role: row for row in rows if row.opponent == opponent
        }  # of all seats
        parts = []
        if row := last.get("uniform"):
            parts.append(f"uniform play {_mean(row)}")
        if row := last.get("solver"):
            parts.append(f"{reference_kind(row.policy)}: {row.policy} {_mean(row)}")
        if parts:
            lines.append(f"{'; '.join(parts)}{against(opponent)}")
        if row := last.get("constant"):
            lines.append(
                f"best constant: {row.policy} {_mean(row)}; --baselines prints all"
            )
    return lines


def _mean(row: ResultRow) -> str:
    return f"{row.mean_return:z.3f} ({ends_text(row)})"


def _table(evaluation: Evaluation, opponent: str, width: int) -> Table:
    rows = [row for row in evaluation.rows if row.opponent == opponent]
    columns = {
        "policy": _names(rows),
        "seat": [str(row.seat) for row in rows],
        **_counts(rows),
        "return": [f"{row.mean_return:z.3f}" for row in rows],
        "95 %": [ends_text(row) for row in rows],
        **_optional(rows),
    }
    widths, gap = _fitting(columns, width)
    if _total(widths, 1) > width:
        columns["score"] = [score_text(row, interval=False) for row in rows]
        widths, gap = _fitting(columns, width)
    table = Table(**STYLE | {"padding": (0, gap - 1, 0, 0)})
    table.title = f"{title(evaluation)}{against(opponent)}"
    for name in widths:
        is_name = name == "policy"
        table.add_column(
            name,
            justify="left" if is_name else "right",
            no_wrap=not is_name,
            overflow="fold",
            width=widths[name],
        )
    for cells in zip(*(columns[name] for name in widths), strict=True):
        table.add_row(*cells)
    return table


def _fitting(
    columns: Mapping[str, Sequence[str]], width: int
) -> tuple[dict[str, int], int]:
    """Widths of the columns that fit, and the number of spaces between them.

    Columns are dropped in the order of `DROPPED`; the policy's gets the remaining space.
    """
    widths = {
        name: max(len(line) for text in (name, *cells) for line in text.split("\n"))
        for name, cells in columns.items()
    }
    longest, widths["policy"] = widths["policy"], min(widths["policy"], NAME)
    for name in DROPPED:
        if name in widths and _total(widths, 1) > width:
            del widths[name]
    gap = 2 if _total(widths, 2) <= width else 1
    spare = max(0, width - _total(widths, gap))
    widths["policy"] = min(longest, widths["policy"] + spare)
    return widths, gap


def _total(widths: Mapping[str, int], gap: int) -> int:
    return sum(widths.values()) + gap * (len(widths) - 1)


def _invalid(rows: Sequence[ResultRow]) -> list[str]:
    """Lines with the evaluated policy's invalid replies by reason, which have no column."""
    last = {row.opponent: row for row in rows if row.role == "policy"}  # of all seats
    return [
        f"invalid replies{against(opponent)}: "
        + ", ".join(f"{reason} {rate:.1%}" for reason, rate in row.invalid.items())
        for opponent, row in last.items()
        if row.invalid
    ]


def _names(rows: Sequence[ResultRow]) -> list[str]:
    """A policy's name in its first row, the kind of a baseline in its second."""
    cells: list[str] = []
    for (name, role), group in groupby(rows, lambda row: (row.policy, row.role)):
        kind = {
            "solver": reference_kind(name),
            "constant": "best constant",
        }.get(role, role)
        lines = [name] if role == "policy" else [name, f"  ({kind})"]
        number = len(list(group))
        column = lines + [""] * (number - len(lines))
        cells += ["\n".join(column)] if number == 1 else column
    return cells


def _counts(rows: Sequence[ResultRow]) -> dict[str, list[str]]:
    """Numbers of episodes; in brackets the distinct ones, if some repeat."""
    if all(row.num_distinct == row.num_episodes for row in rows):
        return {"n": [str(row.num_episodes) for row in rows]}
    return {
        "n\n(distinct)": [f"{row.num_episodes} ({row.num_distinct})" for row in rows]
    }


def _optional(rows: Sequence[ResultRow]) -> dict[str, list[str]]:
    """The optional columns for which the rows have values."""
    columns = {}
    columns["score"] = [score_text(row) for row in rows]
    if any(row.wins is not None for row in rows):
        columns[SHARES] = ["/".join(percentages(row)) for row in rows]
    if any(row.invalid for row in rows):
        columns["invalid"] = [f"{sum(row.invalid.values()):.1%}" for row in rows]
    columns["turns"] = [f"{row.num_turns:.1f}" for row in rows]
    if any(row.num_tokens is not None for row in rows):
        columns["tokens"] = [
            "" if row.num_tokens is None else f"{row.num_tokens:.1f}" for row in rows
        ]
    return columns


def nash_conv_table(game: str, conv_by_name: Mapping[str, float]) -> Table:
    """A row for each policy, in the order of `conv_by_name`."""
    table = Table(title=f"Exact NashConv: {game}", **STYLE)
    table.caption = "0 = an equilibrium; of the policy among its legal replies"
    table.add_column("policy", overflow="fold")
    table.add_column("NashConv", justify="right", no_wrap=True)
    for name, value in conv_by_name.items():
        table.add_row(name, f"{value:.4f}")
    return table


ADJUSTED = [each.name for each in fields(Adjusted)]


def records_of(
    evaluation: Evaluation, nash_conv: Mapping[str, float]
) -> list[dict[str, Any]]:
    """The rows of an evaluation as flat records, for CSV."""
    game = {"game": evaluation.game, "params": json.dumps(evaluation.params)}
    records = []
    for row in evaluation.rows:
        values = game | asdict(row)
        del values["measures"]
        for name, (value, *more) in row.measures.items():
            ends = zip(("low", "high", "n"), more, strict=True)
            values |= {name: value, **{f"{name}_{end}": x for end, x in ends}}
        low, high = values.pop("score_interval") or (None, None)
        uniform, best = values.pop("scale") or (None, None)
        values |= {"score_low": low, "score_high": high}
        values |= {f"adjusted_{name}": None for name in ADJUSTED}
        for name, value in (values.pop("adjusted") or {}).items():
            values[f"adjusted_{name}"] = value
        values |= {"uniform_return": uniform, "best_return": best}
        values |= {"invalid": sum(row.invalid.values())}
        records.append(values | {"nash_conv": nash_conv.get(row.policy)})
    return records
