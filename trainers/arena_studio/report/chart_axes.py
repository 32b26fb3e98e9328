"""Curves on matplotlib's axes, for pages and for figures."""

from typing import TYPE_CHECKING, Any

from arena_envs.extras import import_extra
from arena_studio.report.chart_styles import INK, RULE, level_color, styles_of
from arena_studio.report.curves import Chart

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CURVE = "curve-"  # begins the ids of a curve's parts
NOISE = 1e-9

SETTINGS: dict[str, Any] = {  # of matplotlib
    "svg.fonttype": "none",
    "svg.hashsalt": "arena",
    "font.size": 9,
    "text.color": INK,
    "text.parse_math": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": RULE,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.dpi": 72,
}


def draw_curves(axes: "Axes", chart: Chart) -> list[list[float]]:
    """Draws the curves; returns the height at which each point stands."""
    tops = []
    below: dict[int, float] = {}  # by step, the height of the curves so far
    styles = styles_of(chart.lines)
    for number, (curve, style) in enumerate(zip(chart.lines, styles, strict=True)):
        color, gid = style.color, f"{CURVE}{number}"
        steps = [step for step, _ in curve.points]
        heights = [value for _, value in curve.points]
        if chart.is_stacked:
            floor = [below.get(step, 0.0) for step in steps]
            heights = [a + b for a, b in zip(heights, floor, strict=True)]
            axes.fill_between(
                steps, floor, heights, alpha=0.5, lw=0, color=color, gid=gid
            )
            below |= dict(zip(steps, heights, strict=True))
        dashes = tuple(map(float, style.dashes.split()))
        axes.plot(
            steps,
            heights,
            label=curve.label,
            linestyle=(0, dashes) if dashes else "-",
            linewidth=1.3,
            marker=style.marker,
            markersize=3.5,
            color=color,
            gid=gid,
        )
        for step, low, high in curve.intervals:
            axes.plot([step, step], [low, high], lw=3, alpha=0.35, color=color, gid=gid)
        tops.append(heights)
    for name, level in chart.levels.items():
        color = level_color(chart, name)
        axes.axhline(level, color=color, linestyle="--", linewidth=1, label=name)
    return tops


def set_axes(
    axes: "Axes", chart: Chart, last: int, along: str = "optimizer step"
) -> None:
    """Sets limits, ticks and labels."""
    ticker = import_extra("matplotlib.ticker", "report")
    margin = 0.03 * max(last, 1)
    axes.set_xlim(-margin, max(last, 1) + margin)
    low, high = axes.get_ylim()
    if high - low < NOISE:  # values that are equal but for rounding
        low, high = low - 1, high + 1
    low = low if chart.low is None else chart.low
    high = max(high, chart.reach) if chart.high is None else chart.high
    room = 0.03 * (high - low)  # markers at the ends stay whole
    axes.set_ylim(low - room, high + room)
    axes.xaxis.set_major_locator(ticker.MaxNLocator(nbins=6, integer=True))
    axes.yaxis.set_major_locator(ticker.MaxNLocator(nbins=5))
    axes.set_xlabel(along)
    axes.grid(visible=True, linewidth=0.6)
    axes.set_axisbelow(True)
