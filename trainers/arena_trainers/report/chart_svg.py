"""A chart as SVG that stands in a page: drawn by matplotlib, without style attributes.

The page's content security policy forbids style attributes, so they become presentation
attributes. Texts and axes have the color of the page's text, so a chart fits light and dark.
Each point is a circle of its own with its value as tooltip, and a link where the step has
rollouts. The parts of a curve have its number as `data-curve`; the page has the legend.
"""

import io
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

from arena_trainers.extras import import_extra
from arena_trainers.report.chart_looks import looks_of
from arena_trainers.report.charts import Chart, Line
from arena_trainers.report.episode_lines import printable

SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
WIDTH, HEIGHT = 4.6, 2.9  # inches of 72 units
INK, RULE = "#010203", "#010204"  # replaced by colors of the page
PAGE_COLORS = {INK: "currentColor", RULE: "var(--line)"}
CURVE = "curve-"  # begins the ids of a curve's parts
NOISE = 1e-9
RADIUS = 7.0  # of what can be clicked, in units
SETTINGS = {
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
    chart: Chart, number: int, last: int, link: Callable[[Line, int], str | None]
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
        figure = figures.Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        axes = figure.subplots()
        tops = _draw(axes, chart)
        _furnish(axes, chart, last)
        file = io.BytesIO()
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    root = ElementTree.fromstring(file.getvalue())
    _clean(root, f"c{number}-")
    root.attrib.pop("width"), root.attrib.pop("height")
    root.set("role", "img")
    root.set("aria-label", printable(chart.title))
    for curve, (line, heights) in enumerate(zip(chart.lines, tops, strict=True)):
        spots = ElementTree.SubElement(root, f"{{{SVG}}}g", {"data-curve": str(curve)})
        for (step, value), top in zip(line.points, heights, strict=True):
            x, y = axes.transData.transform((step, top))
            place = (float(x), 72 * HEIGHT - float(y))
            spots.append(_point(line, step, value, place, link(line, step)))
    return ElementTree.tostring(root, encoding="unicode")


def _draw(axes: Any, chart: Chart) -> list[list[float]]:
    """Draws the curves; returns the height at which each point stands."""
    tops, below = [], dict[int, float]()
    looks = looks_of(chart.lines)
    for number, (line, look) in enumerate(zip(chart.lines, looks, strict=True)):
        mark = {"color": look.color, "gid": f"{CURVE}{number}"}
        steps = [step for step, _ in line.points]
        heights = [value for _, value in line.points]
        if chart.is_stacked:
            floor = [below.get(step, 0.0) for step in steps]
            heights = [a + b for a, b in zip(heights, floor, strict=True)]
            axes.fill_between(steps, floor, heights, alpha=0.5, lw=0, **mark)
            below |= dict(zip(steps, heights, strict=True))
        lengths = tuple(map(float, look.dashes.split()))
        style: dict[str, Any] = {"linestyle": (0, lengths)} if lengths else {}
        style |= {"marker": look.marker, "markersize": 3.5, "linewidth": 1.3}
        axes.plot(steps, heights, **style, **mark)
        for step, low, high in line.intervals:
            axes.plot([step, step], [low, high], lw=3, alpha=0.35, **mark)
        tops.append(heights)
    for level in chart.levels.values():
        axes.axhline(level, color=INK, linestyle="--", linewidth=1)
    return tops


def _furnish(axes: Any, chart: Chart, last: int) -> None:
    """Limits and labels."""
    ticker = import_extra("matplotlib.ticker", "report")
    margin = 0.03 * max(last, 1)
    axes.set_xlim(-margin, max(last, 1) + margin)
    low, high = axes.get_ylim()
    if high - low < NOISE:  # values that are equal but for rounding
        low, high = low - 1, high + 1
    low = low if chart.low is None else chart.low
    high = high if chart.high is None else chart.high
    room = 0.03 * (high - low)  # markers at the ends stay whole
    axes.set_ylim(low - room, high + room)
    axes.xaxis.set_major_locator(ticker.MaxNLocator(nbins=6, integer=True))
    axes.yaxis.set_major_locator(ticker.MaxNLocator(nbins=5))
    axes.set_xlabel("optimizer step")
    axes.grid(visible=True, linewidth=0.6)
    axes.set_axisbelow(True)


def _clean(root: Any, prefix: str) -> None:
    """Turns styles into attributes, ids of curves into numbers, and prefixes other ids."""
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{{{SVG}}}metadata", f"{{{SVG}}}style"):
                parent.remove(child)
    for element in root.iter():
        for rule in element.attrib.pop("style", "").split(";"):
            name, _, value = (part.strip() for part in rule.partition(":"))
            if name == "font":  # such as 9px 'DejaVu Sans'; the page has its own font
                name, value = "font-size", _font_size(value)
            if name and name != "font-family":
                element.set(name, PAGE_COLORS.get(value, value))
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


def _font_size(font: str) -> str:
    return next(word for word in font.split() if word.endswith("px"))


def _point(
    line: Line, step: int, value: float, place: tuple[float, float], link: str | None
) -> Any:
    """A circle that nobody sees, with a tooltip; in a link if there is one."""
    x, y = (f"{number:.2f}" for number in place)
    spot = ElementTree.Element(
        f"{{{SVG}}}circle", {"cx": x, "cy": y, "r": f"{RADIUS:g}", "class": "spot"}
    )
    title = ElementTree.SubElement(spot, f"{{{SVG}}}title")
    title.text = f"step {step}, {printable(line.label)}: {value:.4g}"
    if link is None:
        return spot
    title.text += "; click for its rollouts"
    anchor = ElementTree.Element(f"{{{SVG}}}a", {"href": link, "tabindex": "-1"})
    anchor.append(spot)
    return anchor
