"""Charts of a page as SVG, drawn by matplotlib.

A chart in a page has no style attributes, which the page's content security policy forbids: they
become presentation attributes. Texts and axes have the color of the page's text, so a chart fits
light and dark. Each point is a circle of its own with its value as tooltip, and a link where the
step has rollouts. The parts of a curve have its number as `data-curve`; the page has the legend.
"""

import io
from collections.abc import Callable
from xml.etree import ElementTree

from arena_envs.extras import import_extra
from arena_studio.report.chart_axes import CURVE, SETTINGS, draw_curves, set_axes
from arena_studio.report.chart_styles import PAGE_COLORS
from arena_studio.report.curves import Chart, Curve
from arena_studio.report.episode_text import escape_controls

SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
CHART_WIDTH, CHART_HEIGHT = 4.6, 2.9  # inches of 72 units
RADIUS = 7.0  # of what can be clicked, in units

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
        tops = draw_curves(axes, chart)
        set_axes(axes, chart, last)
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
