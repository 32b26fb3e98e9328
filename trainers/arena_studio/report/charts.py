"""Charts as SVG and as one figure, drawn by matplotlib.

A chart in a page has no style attributes, which the page's content security policy forbids: they
become presentation attributes. Texts and axes have the color of the page's text, so a chart fits
light and dark. Each point is a circle of its own with its value as tooltip, and a link where the
step has rollouts. The parts of a curve have its number as `data-curve`; the page has the legend.
"""

import io
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple
from xml.etree import ElementTree

from arena_envs.extras import import_extra
from arena_studio.report.curves import Chart, Curve
from arena_studio.report.episode_text import escape_controls

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PICTURED = re.compile(  # titles of the charts in `curves.png`
    r".*: return (per seat|by opponent)|Score against .*|Exact .*|Legal .*|KL .*|Loss"
)


# mid tones that stand out on white and on black
COLORS = ("#3b82f6", "#ea7317", "#22a35a", "#a855f7", "#e0457b", "#8a8f98")
MARKERS = ("o", "s", "^", "D", "v", "P")
DASHES = ("", "5 2", "1.5 1.5", "6 2 1.5 2")  # in widths of the line

SHAPES = {  # polygons around (0, 0), by marker
    "s": "-3,-3 3,-3 3,3 -3,3",
    "^": "0,-3.5 3.5,3 -3.5,3",
    "D": "0,-4 4,0 0,4 -4,0",
    "v": "0,3.5 3.5,-3 -3.5,-3",
    "P": "-1,-3 1,-3 1,-1 3,-1 3,1 1,1 1,3 -1,3 -1,1 -3,1 -3,-1 -1,-1",
}


class CurveStyle(NamedTuple):
    """The style of a curve.

    Attributes:
        color: `#rrggbb`.
        marker: matplotlib's letter.
        dashes: lengths of dashes and gaps; empty for a solid line.
    """

    color: str
    marker: str
    dashes: str


class LegendEntry(NamedTuple):
    """An entry of a legend.

    Attributes:
        curve: number of the curve in its chart; None for a constant value.
        label: its name.
        sample: SVG of a piece of the curve.
    """

    curve: int | None
    label: str
    sample: str


def styles_of(curves: Sequence[Curve]) -> list[CurveStyle]:
    """The look of each curve of a chart.

    In a comparison the run chooses the color, and the name of the curve within its run the
    dashes. In other charts colors come first; dashes tell more curves than colors apart.
    """
    series = list(dict.fromkeys(curve.series for curve in curves))
    styles = []
    for place, curve in enumerate(curves):
        color, dash = place % len(COLORS), place // len(COLORS)
        if curve.run is not None:
            color, dash = curve.run, series.index(curve.series)
        dashes = DASHES[dash % len(DASHES)]
        styles.append(CurveStyle(COLORS[color], MARKERS[color], dashes))
    return styles


def legend_of(chart: Chart) -> list[LegendEntry]:
    """The entries of a chart's legend; none for a single curve."""
    if len(chart.lines) + len(chart.levels) < 2:
        return []
    keys = [
        LegendEntry(number, curve.label, _sample(look))
        for number, (curve, look) in enumerate(
            zip(chart.lines, styles_of(chart.lines), strict=True)
        )
    ]
    for name in chart.levels:
        color = _level_color(chart, name)
        style = CurveStyle(PAGE_COLORS.get(color, color), "", "5 2")
        keys.append(LegendEntry(None, name, _sample(style)))
    return keys


def _level_color(chart: Chart, name: str) -> str:
    """The color of the curve whose label begins the name; else that of texts."""
    styles = zip(chart.lines, styles_of(chart.lines), strict=True)
    colors = (
        style.color for curve, style in styles if name.startswith(f"{curve.label} ")
    )
    return next(colors, INK)


def _sample(style: CurveStyle) -> str:
    """An SVG element of 28 by 10 units."""
    line = f'<path d="M1 5H27" stroke="{style.color}" stroke-width="1.6"'
    line += f' stroke-dasharray="{style.dashes}"/>' if style.dashes else "/>"
    shape = ""
    if style.marker == "o":
        shape = f'<circle cx="14" cy="5" r="3" fill="{style.color}"/>'
    elif style.marker:
        points = SHAPES[style.marker]
        place = 'transform="translate(14 5)"'
        shape = f'<polygon {place} points="{points}" fill="{style.color}"/>'
    return f'<svg viewBox="0 0 28 10" width="28" height="10" aria-hidden="true">{line}{shape}</svg>'


SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
CHART_WIDTH, CHART_HEIGHT = 4.6, 2.9  # inches of 72 units
INK, RULE = "#010203", "#010204"  # replaced by colors of the page
PAGE_COLORS = {INK: "currentColor", RULE: "var(--line)"}
CURVE = "curve-"  # begins the ids of a curve's parts
NOISE = 1e-9
RADIUS = 7.0  # of what can be clicked, in units

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


ElementTree.register_namespace("", SVG)


ElementTree.register_namespace("xlink", XLINK)


def chart_svg(
    chart: Chart, number: int, last: int, link: Callable[[Curve, int], str | None]
) -> str:
    """The text of an SVG element.

    Args:
        chart: what to draw.
        number: number of the chart in the page, which keeps its ids apart from others'.
        last: last optimizer step, where the horizontal axis ends.
        link: the link of a curve's step, or None.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    matplotlib = import_extra("matplotlib", "report")
    figures = import_extra("matplotlib.figure", "report")
    with matplotlib.rc_context(SETTINGS):
        figure = figures.Figure(
            figsize=(CHART_WIDTH, CHART_HEIGHT), layout="constrained"
        )
        axes = figure.subplots()
        tops = _draw(axes, chart)
        _furnish(axes, chart, last)
        file = io.BytesIO()
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    root = ElementTree.fromstring(file.getvalue())
    _clean(root, f"c{number}-")
    root.attrib.pop("width"), root.attrib.pop("height")
    root.set("role", "img")
    root.set("aria-label", escape_controls(chart.title))
    for curve, (line, heights) in enumerate(zip(chart.lines, tops, strict=True)):
        spots = ElementTree.SubElement(root, f"{{{SVG}}}g", {"data-curve": str(curve)})
        for (step, value), top in zip(line.points, heights, strict=True):
            x, y = axes.transData.transform((step, top))
            place = (float(x), 72 * CHART_HEIGHT - float(y))
            spots.append(_point(line, step, value, place, link(line, step)))
    return ElementTree.tostring(root, encoding="unicode")


def figure_of(
    charts: Sequence[Chart],
    title: str,
    moves: Sequence[int] = (),
    along: str = "optimizer step",
) -> "Figure":
    """A figure of charts, two in a row, with their legends.

    Args:
        charts: what to draw.
        title: of the figure.
        moves: optimizer steps after which the reference model was synchronised.
        along: name of the horizontal axis.
    """
    matplotlib = import_extra("matplotlib", "report")
    figures = import_extra("matplotlib.figure", "report")
    num_rows = max(-(-len(charts) // 2), 1)
    steps = [step for c in charts for line in c.lines for step, _ in line.points]
    with matplotlib.rc_context({**SETTINGS, "grid.color": "0.85"}):
        figure: Figure = figures.Figure(
            figsize=(11, 4 * num_rows), layout="constrained"
        )
        figure.suptitle(fill(title, 120))
        panels = figure.subplots(num_rows, 2, squeeze=False).ravel()
        for panel, chart in zip(panels, charts, strict=False):
            _draw(panel, chart)
            _furnish(panel, chart, max(steps), along)
            panel.set_title(fill(chart.title, 70), fontsize=10)
            for number, step in enumerate(moves):
                # the legend names the first line alone: "_" hides a label
                label = "_" if number else "reference moves to the policy"
                panel.axvline(step, color="grey", ls="-.", lw=0.8, label=label)
            for text in panel.legend(fontsize=8).get_texts():
                # wide texts leave no room for the axes
                text.set_text(fill(text.get_text(), 60))
        for panel in panels[len(charts) :]:
            panel.remove()
    return figure


PAPER: dict[str, Any] = {  # of a figure in a column of a paper
    **SETTINGS,
    "font.size": 8,
    "text.color": "black",
    "axes.edgecolor": "black",
    "axes.labelcolor": "black",
    "xtick.color": "black",
    "ytick.color": "black",
    "grid.color": "0.88",
    "pdf.fonttype": 42,  # letters stay letters, as journals want
    "savefig.dpi": 300,
}
PAPER_SIZE = 3.4, 2.2  # inches
FIGURE_TYPES = (".pdf", ".svg", ".png")


def write_figure(chart: Chart, path: Path, last: int) -> None:
    """Writes a chart as a figure of a paper.

    Args:
        chart: what to draw.
        path: its suffix is one of `FIGURE_TYPES`.
        last: last optimizer step, where the horizontal axis ends.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    matplotlib = import_extra("matplotlib", "report")
    figures = import_extra("matplotlib.figure", "report")
    kind = path.suffix.removeprefix(".")
    undated = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(kind)
    with matplotlib.rc_context(PAPER):
        figure = figures.Figure(figsize=PAPER_SIZE, layout="constrained")
        axes = figure.subplots()
        _draw(axes, chart)
        _furnish(axes, chart, last)
        axes.set_ylabel(fill(chart.title, 32))
        if len(chart.lines) + len(chart.levels) > 1:
            legend = figure.legend(
                loc="outside upper center", ncols=2, fontsize=7, frameon=False
            )
            for text in legend.get_texts():
                text.set_text(fill(text.get_text(), 30))
        file = io.BytesIO()
        figure.savefig(file, format=kind, metadata=undated)
    path.write_bytes(file.getvalue())


def _draw(axes: "Axes", chart: Chart) -> list[list[float]]:
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
        color = _level_color(chart, name)
        axes.axhline(level, color=color, linestyle="--", linewidth=1, label=name)
    return tops


def _furnish(
    axes: "Axes", chart: Chart, last: int, along: str = "optimizer step"
) -> None:
    """Limits and labels."""
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


def _clean(root: ElementTree.Element, prefix: str) -> None:
    """Makes matplotlib's SVG fit into a page, in which ids begin with the prefix."""
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{{{SVG}}}metadata", f"{{{SVG}}}style"):
                parent.remove(child)
    for element in root.iter():
        _turn_style_into_attributes(element)
        _prefix_ids(element, prefix)


def _turn_style_into_attributes(element: ElementTree.Element) -> None:
    for rule in element.attrib.pop("style", "").split(";"):
        name, _, value = (part.strip() for part in rule.partition(":"))
        if name == "font":  # such as 9px 'DejaVu Sans'; the page has its own font
            name, value = "font-size", value[: value.index("px") + 2].split()[-1]
        if name and name != "font-family":
            element.set(name, PAGE_COLORS.get(value, value))


def _prefix_ids(element: ElementTree.Element, prefix: str) -> None:
    """Turns ids of curves into their numbers, and prefixes other ids and links to them."""
    for name, value in list(element.attrib.items()):
        if name == "id" and value.startswith(CURVE):
            element.set("data-curve", element.attrib.pop("id").removeprefix(CURVE))
        elif name == "id":
            element.set(name, f"{prefix}{value}")
        elif value.startswith("url(#"):
            element.set(name, f"url(#{prefix}{value[5:]}")
        elif name == f"{{{XLINK}}}href":
            del element.attrib[name]
            element.set("href", f"#{prefix}{value[1:]}")


def _point(
    line: Curve, step: int, value: float, place: tuple[float, float], link: str | None
) -> ElementTree.Element:
    """A circle that nobody sees, with a tooltip; in a link if there is one."""
    x, y = (f"{number:.2f}" for number in place)
    spot = ElementTree.Element(
        f"{{{SVG}}}circle", {"cx": x, "cy": y, "r": f"{RADIUS:g}", "class": "spot"}
    )
    title = ElementTree.SubElement(spot, f"{{{SVG}}}title")
    title.text = f"step {step}, {escape_controls(line.label)}: {value:.4g}"
    if link is None:
        return spot
    title.text += "; click for its rollouts"
    anchor = ElementTree.Element(f"{{{SVG}}}a", {"href": link, "tabindex": "-1"})
    anchor.append(spot)
    return anchor
