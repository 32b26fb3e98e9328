"""Colors, markers and dashes of curves, and the legend that shows them."""

from collections.abc import Sequence
from typing import NamedTuple

from arena_studio.report.curves import Chart, Curve

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

INK, RULE = "#010203", "#010204"  # replaced by colors of the page
PAGE_COLORS = {INK: "currentColor", RULE: "var(--line)"}


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
        color = level_color(chart, name)
        style = CurveStyle(PAGE_COLORS.get(color, color), "", "5 2")
        keys.append(LegendEntry(None, name, _sample(style)))
    return keys


def level_color(chart: Chart, name: str) -> str:
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
