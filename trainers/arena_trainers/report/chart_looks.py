"""Colors, markers and dashes of curves, and their samples in the legend."""

from collections.abc import Sequence
from typing import NamedTuple

from arena_trainers.report.charts import Chart, Line

# mid tones that stand out on white and on black
COLORS = ("#3b82f6", "#ea7317", "#22a35a", "#a855f7", "#e0457b", "#8a8f98")
MARKERS = ("o", "s", "^", "D", "v", "P")
DASHES = ("", "5 2", "1.5 1.5", "6 2 1.5 2")  # in widths of the line
SHAPES = {  # polygons around (0, 0)
    "s": "-3,-3 3,-3 3,3 -3,3",
    "^": "0,-3.5 3.5,3 -3.5,3",
    "D": "0,-4 4,0 0,4 -4,0",
    "v": "0,3.5 3.5,-3 -3.5,-3",
    "P": "-1,-3 1,-3 1,-1 3,-1 3,1 1,1 1,3 -1,3 -1,1 -3,1 -3,-1 -1,-1",
}


class Look(NamedTuple):
    """How a curve is drawn.

    Attributes:
        color: `#rrggbb`.
        marker: matplotlib's letter.
        dashes: lengths of dashes and gaps; empty for a solid line.
    """

    color: str
    marker: str
    dashes: str


class Key(NamedTuple):
    """An entry of a legend.

    Attributes:
        curve: number of the curve in its chart; None for a constant value.
        label: its name.
        sample: SVG of a piece of the curve.
    """

    curve: int | None
    label: str
    sample: str


def looks_of(lines: Sequence[Line]) -> list[Look]:
    """The look of each curve of a chart.

    In a comparison the run chooses the color, and the name of the curve within its run the
    dashes. In other charts colors come first; dashes tell more curves than colors apart.
    """
    series = list(dict.fromkeys(line.series for line in lines))
    looks = []
    for place, line in enumerate(lines):
        color, dash = place % len(COLORS), place // len(COLORS)
        if line.run is not None:
            color, dash = line.run, series.index(line.series)
        dashes = DASHES[dash % len(DASHES)]
        looks.append(Look(COLORS[color], MARKERS[color], dashes))
    return looks


def legend_of(chart: Chart) -> list[Key]:
    """The entries of a chart's legend; none for a single curve."""
    if len(chart.lines) + len(chart.levels) < 2:
        return []
    keys = [
        Key(number, line.label, _sample(look))
        for number, (line, look) in enumerate(
            zip(chart.lines, looks_of(chart.lines), strict=True)
        )
    ]
    level = _sample(Look("currentColor", "", "5 2"))
    return [*keys, *(Key(None, name, level) for name in chart.levels)]


def _sample(look: Look) -> str:
    """An SVG element of 28 by 10 units."""
    line = f'<path d="M1 5H27" stroke="{look.color}" stroke-width="1.6"'
    line += f' stroke-dasharray="{look.dashes}"/>' if look.dashes else "/>"
    shape = ""
    if look.marker == "o":
        shape = f'<circle cx="14" cy="5" r="3" fill="{look.color}"/>'
    elif look.marker:
        points = SHAPES[look.marker]
        place = 'transform="translate(14 5)"'
        shape = f'<polygon {place} points="{points}" fill="{look.color}"/>'
    return f'<svg viewBox="0 0 28 10" width="28" height="10" aria-hidden="true">{line}{shape}</svg>'
