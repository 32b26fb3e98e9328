"""Which curves a report has, from the records of `metrics.jsonl`."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Records = Sequence[Mapping[str, Any]]
Points = Sequence[tuple[int, float]]

PLAYER = re.compile(r"arena/(?P<game>.+)/(?P<line>player_\d+)/(?P<metric>\w+)")
OPPONENT = re.compile(r"arena/(?P<game>.+)/against/(?P<line>.+)/return")
EPISODES = re.compile(r"arena/(?P<game>.+)/episode_share")
START = re.compile(r"arena/(?P<game>.+)/against_start")
WIDTH = 1.96  # standard errors on each side of a 95 % interval
BEFORE, AFTER = "before", "after"  # the first words of stages of results.json


@dataclass(frozen=True)
class Line:
    """A curve.

    Attributes:
        label: its name in the legend.
        points: optimizer step and value.
        intervals: optimizer step, low and high end of a 95 % interval.
        run: number of its run in a comparison, from 0; None in other reports.
        series: its name within the run, in a comparison.
    """

    label: str
    points: Points
    intervals: Sequence[tuple[int, float, float]] = ()
    run: int | None = None
    series: str = ""


@dataclass(frozen=True)
class Chart:
    """Curves over the same axes.

    Attributes:
        title: of the chart, with the unit.
        lines: its curves.
        levels: constant values by name, drawn as dashed lines.
        low: lower end of the axis of values; None for that of the data.
        high: upper end; None for that of the data.
        is_stacked: whether the curves are parts of a whole, drawn on top of each other.
    """

    title: str
    lines: Sequence[Line]
    levels: Mapping[str, float] = field(default_factory=dict)
    low: float | None = None
    high: float | None = None
    is_stacked: bool = False


def charts_of(metrics: Records, results: Mapping[str, Any]) -> list[Chart]:
    """The curves of a run; those without data are left out.

    Args:
        metrics: records of `metrics.jsonl`, with values of any type.
        results: what `results.json` holds; empty if there is none.
    """
    values = _series(metrics)
    uniform: Any = _mapping(results.get("nash_conv")).get("uniform")
    levels = {"uniform random play": uniform} if is_number(uniform) else {}
    charts = [
        *_return_charts(values, results),
        _start_chart(values),
        Chart(
            "Exact NashConv",
            _named(values, {"arena/nash_conv": "NashConv"}),
            levels,
            low=0,
        ),
        Chart(
            "Legal replies, share",
            _named(values, {"arena/legal_rate": "legal"}),
            low=0,
            high=1,
        ),
        Chart(
            "Invalid replies by reason, share",
            _prefixed(values, "arena/invalid/"),
            low=0,
        ),
        Chart(
            "Length of replies, tokens",
            _named(values, {"arena/reply_tokens": "mean"}),
            low=0,
        ),
        Chart("KL to the reference, nats per token", _named(values, {"kl": "KL"})),
        Chart("Entropy, nats per token", _named(values, {"entropy": "entropy"}), low=0),
        *_group_charts(values),
        *_seat_charts(values),
        *_cost_charts(values),
    ]
    return [chart for chart in charts if chart.lines]


def missing_from(metrics: Records) -> list[str]:
    """The curves that `metrics.jsonl` has no values for, with their names there."""
    values = _series(metrics)
    wanted = {
        "exact NashConv": r"arena/nash_conv",
        "return per seat": r"arena/.+/player_\d+/return",
        "score against the start": r"arena/.+/against_start",
        "returns by opponent": r"arena/.+/against/.+/return",
        "legal replies": r"arena/legal_rate",
        "length of replies": r"arena/reply_tokens",
        "KL to the reference": "kl",
        "entropy": "entropy",
        "share of flat groups": "arena/flat_groups",
        "share of each game": r"arena/.+/episode_share",
        "share of flat pools": r"arena/.+/flat_pools",
        "split of time": r"arena/time/.+",
    }
    shown = {
        "\\d+": "0",
        "arena/.+/": "arena/GAME/",
        "against/.+/": "against/OPPONENT/",
        "time/.+": "time/PART",
    }
    found = []
    for title, pattern in wanted.items():
        if not any(re.fullmatch(pattern, key) for key in values):
            for regex, text in shown.items():
                pattern = pattern.replace(regex, text)
            found.append(f"{title} ({pattern})")
    return found


def is_number(value: Any) -> bool:
    """Whether a value is a finite number."""
    return type(value) in (int, float) and math.isfinite(value)


def _series(metrics: Records) -> dict[str, Points]:
    """The finite numbers of each metric by step."""
    found: dict[str, list[tuple[int, float]]] = {}
    for record in metrics:
        for key, value in record.items():
            if key != "step" and is_number(value):
                found.setdefault(key, []).append((record["step"], float(value)))
    return dict(found)


def _named(values: Mapping[str, Points], names: Mapping[str, str]) -> list[Line]:
    return [Line(names[key], values[key]) for key in names if key in values]


def _prefixed(values: Mapping[str, Points], prefix: str) -> list[Line]:
    found = {key: key.removeprefix(prefix) for key in values if key.startswith(prefix)}
    return _named(values, found)


def _return_charts(
    values: Mapping[str, Points], results: Mapping[str, Any]
) -> Iterable[Chart]:
    """For each game, returns by seat, then by opponent."""
    seats: dict[str, list[Line]] = {}
    opponents: dict[str, list[Line]] = {}
    last = max((points[-1][0] for points in values.values()), default=0)
    for key, points in values.items():
        if (found := PLAYER.fullmatch(key)) and found["metric"] == "return":
            seat = int(found["line"].removeprefix("player_"))
            intervals = list(_intervals(results, found["game"], seat, last))
            line = Line(found["line"], points, intervals)
            seats.setdefault(found["game"], []).append(line)
        elif found := OPPONENT.fullmatch(key):
            line = Line(found["line"], points)
            opponents.setdefault(found["game"], []).append(line)
    for game, lines in seats.items():
        yield Chart(f"{game}: return per seat", lines)
        if game in opponents:
            yield Chart(f"{game}: return by opponent", opponents[game])


def _intervals(
    results: Mapping[str, Any], game: str, seat: int, last: int
) -> Iterable[tuple[int, float, float]]:
    """The intervals of a seat's return in self-play, before and after training."""
    stages = _mapping(_mapping(results.get("outcomes")).get(game)).get("stages")
    for stage in stages if isinstance(stages, list) else []:
        when = str(stage.get("name")).partition(" ")[0]
        returns = stage.get("returns") or []
        if when in (BEFORE, AFTER) and seat < len(returns):
            ends = returns[seat].get("low"), returns[seat].get("high")
            if None not in ends:
                yield (0 if when == BEFORE else last, *ends)


def _start_chart(values: Mapping[str, Points]) -> Chart:
    """The score against the model that self-play started from, by game."""
    lines = []
    for key, points in values.items():
        if found := START.fullmatch(key):
            errors = dict(values.get(f"{key}_error", ()))
            intervals = [
                (step, value - WIDTH * errors[step], value + WIDTH * errors[step])
                for step, value in points
                if step in errors
            ]
            lines.append(Line(found["game"], points, intervals))
    return Chart("Score against the start of self-play", lines)


def _group_charts(values: Mapping[str, Points]) -> Iterable[Chart]:
    """The shares of groups without a difference, and of the episodes of each game."""
    flat = {"arena/flat_groups": "flat", "arena/dropped_groups": "dropped"}
    yield Chart("Flat groups, share", _named(values, flat), low=0, high=1)
    games = {key: found["game"] for key in values if (found := EPISODES.fullmatch(key))}
    if len(games) > 1:
        title = "Episodes of each game, share"
        yield Chart(title, _named(values, games), low=0, high=1)


def _seat_charts(values: Mapping[str, Points]) -> Iterable[Chart]:
    """Statistics of advantages by game and seat."""
    titles = {
        "flat_pools": "Pools without advantages, share",
        "advantage_std": "Standard deviation of advantages",
        "advantage_mean": "Mean of advantages",
    }
    for metric, title in titles.items():
        found = {
            key: f"{match['game']} {match['line']}"
            for key in values
            if (match := PLAYER.fullmatch(key)) and match["metric"] == metric
        }
        low = None if metric == "advantage_mean" else 0
        high = 1 if metric == "flat_pools" else None
        yield Chart(title, _named(values, found), low=low, high=high)


def _cost_charts(values: Mapping[str, Points]) -> list[Chart]:
    """Loss, time and speed."""
    speed = {"arena/episodes_per_second": "episodes"}
    return [
        Chart("Loss", _named(values, {"loss": "loss"})),
        Chart(
            "Error of the critic, mean square",
            _named(values, {"arena/critic_error": "error"}),
            low=0,
        ),
        Chart(
            "Split of wall time, share",
            _prefixed(values, "arena/time/"),
            low=0,
            high=1,
            is_stacked=True,
        ),
        Chart("Episodes per second", _named(values, speed), low=0),
        Chart(
            "Tokens per second",
            _prefixed(values, "arena/tokens_per_second/"),
            low=0,
        ),
    ]


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
