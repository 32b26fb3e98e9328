"""The charts of a run: which curves `metrics.jsonl` has, and constant values of `results.json`."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from arena_envs.checks import (
    JSON,
    is_number,
)

Records = Sequence[Mapping[str, Any]]
Points = Sequence[tuple[int, float]]
Ranges = Mapping[str, tuple[float, float]]
PLAYER = re.compile(r"arena/(?P<game>.+)/(?P<line>player_\d{1,4})/(?P<metric>\w+)")
OPPONENT = re.compile(r"arena/(?P<game>.+)/against/(?P<line>.+)/return")
START = re.compile(r"arena/(?P<game>.+)/against_start")
MAX_VALUE = 1e100  # of a point; axes of larger ones would overflow
WIDTH = 1.96  # standard errors on each side of a 95 % interval
BEFORE, AFTER = "before", "after"  # the first words of stages of results.json


@dataclass(frozen=True)
class Curve:
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
        reach: the upper end is at least this.
        is_stacked: whether the curves are parts of a whole, drawn on top of each other.
    """

    title: str
    lines: Sequence[Curve]
    levels: Mapping[str, float] = field(default_factory=dict)
    low: float | None = None
    high: float | None = None
    reach: float = -math.inf
    is_stacked: bool = False


@dataclass(frozen=True)
class ChartSpec:
    """A chart of metrics.

    Attributes:
        title: of the chart, with the unit.
        labels: labels of curves by metric, a regular expression; a label may name its groups.
        levels: by name, the part and the key of a constant value in `results.json`.
        min_curves: with fewer curves there is no chart.
        low: as in `Chart`.
        high: as in `Chart`.
        reach: as in `Chart`.
        is_stacked: as in `Chart`.
    """

    title: str
    labels: Mapping[str, str]
    levels: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    min_curves: int = 1
    low: float | None = None
    high: float | None = None
    reach: float = -math.inf
    is_stacked: bool = False


# the charts after those of returns, in order
CHARTS = (
    ChartSpec(
        title="Exact NashConv",
        labels={"arena/nash_conv": "NashConv"},
        levels={"uniform random play": ("nash_conv", "uniform")},
        low=0,
    ),
    ChartSpec(
        title="Legal replies, share",
        labels={"arena/legal_rate": "legal"},
        low=0,
        high=1,
    ),
    ChartSpec(
        title="Invalid replies by reason, share",
        labels={"arena/invalid/(.*)": r"\1"},
        low=0,
    ),
    ChartSpec(
        title="Length of replies, tokens",
        labels={"arena/reply_tokens": "mean"},
        low=0,
    ),
    ChartSpec(
        title="KL to the reference, nats per token",
        labels={"kl": "KL"},
        low=0,
        reach=0.1,
    ),
    ChartSpec(
        title="Entropy, nats per token",
        labels={"entropy": "entropy"},
        low=0,
    ),
    ChartSpec(
        title="Flat groups, share",
        labels={"arena/flat_groups": "flat", "arena/dropped_groups": "dropped"},
        low=0,
        high=1,
    ),
    ChartSpec(
        title="Episodes of each game, share",
        labels={"arena/(.+)/episode_share": r"\1"},
        min_curves=2,
        low=0,
        high=1,
    ),
    ChartSpec(
        title="Pools without advantages, share",
        labels={r"arena/(.+)/(player_\d+)/flat_pools": r"\1 \2"},
        low=0,
        high=1,
    ),
    ChartSpec(
        title="Standard deviation of advantages",
        labels={r"arena/(.+)/(player_\d+)/advantage_std": r"\1 \2"},
        low=0,
    ),
    ChartSpec(
        title="Mean of advantages",
        labels={r"arena/(.+)/(player_\d+)/advantage_mean": r"\1 \2"},
    ),
    ChartSpec(
        title="Loss",
        labels={"loss": "loss"},
    ),
    ChartSpec(
        title="Error of the critic, mean square",
        labels={"arena/critic_error": "error"},
        low=0,
    ),
    ChartSpec(
        title="Split of wall time, share",
        labels={"arena/time/(.*)": r"\1"},
        low=0,
        high=1,
        is_stacked=True,
    ),
    ChartSpec(
        title="Episodes per second",
        labels={"arena/episodes_per_second": "episodes"},
        low=0,
    ),
    ChartSpec(
        title="Tokens per second",
        labels={"arena/tokens_per_second/(.*)": r"\1"},
        low=0,
    ),
)


# metrics that a report names where they are missing, by what they are
METRICS = {
    "exact NashConv": "arena/nash_conv",
    "return per seat": "arena/GAME/player_0/return",
    "score against the start": "arena/GAME/against_start",
    "returns by opponent": "arena/GAME/against/OPPONENT/return",
    "legal replies": "arena/legal_rate",
    "length of replies": "arena/reply_tokens",
    "KL to the reference": "kl",
    "entropy": "entropy",
    "share of flat groups": "arena/flat_groups",
    "share of each game": "arena/GAME/episode_share",
    "share of flat pools": "arena/GAME/flat_pools",
    "split of time": "arena/time/PART",
}


def charts_of(
    metrics: Records, results: Mapping[str, Any], ranges: Ranges | None = None
) -> list[Chart]:
    """The curves of a run; those without data are left out.

    Args:
        metrics: records of `metrics.jsonl`, with values of any type.
        results: what `results.json` holds; empty if there is none.
        ranges: least and largest return of games by name, which their axes of returns show.
    """
    values = _series(metrics)
    first = [*_return_charts(values, results, ranges or {}), _start_chart(values)]
    charts = [chart for chart in first if chart.lines]
    for spec in CHARTS:
        curves = [
            Curve(match.expand(label), values[metric])
            for pattern, label in spec.labels.items()
            for metric in values
            if (match := re.fullmatch(pattern, metric))
        ]
        if len(curves) >= spec.min_curves:
            charts.append(_chart(spec, curves, results))
    return charts


def _chart(
    spec: ChartSpec, curves: Sequence[Curve], results: Mapping[str, Any]
) -> Chart:
    """The chart of some curves, with the constant values of `results.json`."""
    levels: dict[str, Any] = {}
    for name, (part, key) in spec.levels.items():
        value = _mapping(results.get(part)).get(key)
        if _is_drawn(value):
            levels[name] = value
    return Chart(
        title=spec.title,
        lines=curves,
        levels=levels,
        low=spec.low,
        high=spec.high,
        reach=spec.reach,
        is_stacked=spec.is_stacked,
    )


def missing_from(metrics: Records) -> list[str]:
    """The curves that `metrics.jsonl` has no values for, with their names there."""
    values = _series(metrics)
    missing_names = []
    for title, name in METRICS.items():
        pattern = re.sub("GAME|OPPONENT|PART", ".+", name).replace("_0", r"_\d+")
        if not any(re.fullmatch(pattern, key) for key in values):
            missing_names.append(f"{title} ({name})")
    return missing_names


def _series(metrics: Records) -> dict[str, Points]:
    """The numbers of each metric by step, without those that no axis can show."""
    series: dict[str, list[tuple[int, float]]] = {}
    for record in metrics:
        for key, value in record.items():
            if key != "step" and _is_drawn(value):
                series.setdefault(key, []).append((record["step"], float(value)))
    return dict(series)


def _is_drawn(value: Any) -> bool:
    return is_number(value) and abs(value) <= MAX_VALUE


def _return_charts(
    values: Mapping[str, Points], results: Mapping[str, Any], ranges: Ranges
) -> Iterable[Chart]:
    """For each game, returns of the seats that learn by opponent, then by seat."""
    seats: dict[str, list[Curve]] = {}
    opponents: dict[str, list[Curve]] = {}
    last = max((points[-1][0] for points in values.values()), default=0)
    for key, points in values.items():
        if (match := PLAYER.fullmatch(key)) and match["metric"] == "return":
            seat = int(match["line"].removeprefix("player_"))
            intervals = list(_intervals(results, match["game"], seat, last))
            line = Curve(match["line"], points, intervals)
            seats.setdefault(match["game"], []).append(line)
        elif match := OPPONENT.fullmatch(key):
            line = Curve(match["line"], points)
            opponents.setdefault(match["game"], []).append(line)
    for game, lines in seats.items():
        low, high = ranges.get(game, (None, None))
        if game in opponents:
            title = f"{game}: return by opponent"
            yield Chart(title, opponents[game], low=low, high=high)
        policy = _mapping(_outcome(results, game).get("policy"))
        equilibrium_values = policy.get("values")  # None if none was found
        if not isinstance(equilibrium_values, list):
            equilibrium_values = []
        levels = {
            f"player_{seat} at equilibrium": value
            for seat, value in enumerate(equilibrium_values)
            if _is_drawn(value)
        }
        yield Chart(f"{game}: return per seat", lines, levels, low, high)


def _intervals(
    results: Mapping[str, Any], game: str, seat: int, last: int
) -> Iterable[tuple[int, float, float]]:
    """The intervals of a seat's return in self-play, before and after training."""
    stages = _outcome(results, game).get("stages")
    for stage in stages if isinstance(stages, list) else []:
        when = str(stage.get("name")).partition(" ")[0]
        returns = stage.get("returns") or []
        if when in (BEFORE, AFTER) and seat < len(returns):
            low, high = returns[seat].get("low"), returns[seat].get("high")
            if _is_drawn(low) and _is_drawn(high):
                yield 0 if when == BEFORE else last, low, high


def _outcome(results: Mapping[str, Any], game: str) -> Mapping[str, Any]:
    return _mapping(_mapping(results.get("outcomes")).get(game))


def _start_chart(values: Mapping[str, Points]) -> Chart:
    """The score against the model that self-play started from, by game."""
    lines = []
    for key, points in values.items():
        if match := START.fullmatch(key):
            errors = dict(values.get(f"{key}_error", ()))
            intervals = [
                (step, value - WIDTH * errors[step], value + WIDTH * errors[step])
                for step, value in points
                if step in errors
            ]
            lines.append(Curve(match["game"], points, intervals))
    return Chart("Score against the start of self-play", lines)


def _mapping(value: JSON) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
