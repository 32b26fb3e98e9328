"""Draws a scene as SVG.

CSS classes have the colors: `f-NAME` fills with a color, `k-NAME` draws lines in it, and `o-TONE`
is the color of text on a tone. There are no CSS variables, because rasterisers do not read them.
"""

import tomllib
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from arena_envs.scenes.shapes import (
    Cards,
    Cell,
    Grid,
    Scene,
    Table,
    Talk,
    Track,
    seat_tone,
)
from arena_envs.scenes.text import clean, text_width, wrapped_lines

_COLORS = Path(__file__).with_name("colors.toml")
TONES, SURFACES = tomllib.loads(_COLORS.read_text("utf-8")).values()
FONT = "'DejaVu Sans Mono',Menlo,Consolas,'Liberation Mono',monospace"


def surfaces_css(dark: bool) -> str:
    """The rules of all colors that depend on the paper."""
    return "".join(
        f".f-{name}{{fill:{pair[dark]}}}.k-{name}{{stroke:{pair[dark]}}}"
        for name, pair in SURFACES.items()
    )


def css() -> str:
    """All rules that a picture needs, for light paper."""
    tones = "".join(
        f".f-{name}{{fill:{fill}}}.o-{name}{{fill:{text}}}"
        for name, (fill, text) in TONES.items()
    )
    return f"text{{font-family:{FONT}}}{surfaces_css(dark=False)}{tones}"


PAD, GAP = 12.0, 14.0  # around the picture, and between shapes
MIN_WIDTH, MAX_WIDTH = 240.0, 460.0
SIDE, THIN = 40.0, 10.0  # of a square, and of a narrow row or column
LETTER = 0.6  # width of a letter by its size
BUBBLE = 46  # columns of a bubble


class Drawing(NamedTuple):
    """A scene as SVG elements.

    Attributes:
        width: in pixels.
        height: in pixels.
        elements: the elements, in order. Pictures that are alike share most of them.
    """

    width: float
    height: float
    elements: tuple[str, ...]


class Canvas:
    """Collects elements; the next shape starts at `y`."""

    def __init__(self) -> None:
        self.elements: list[str] = []
        self.width, self.y = MIN_WIDTH, PAD

    def rect(
        self, x: float, y: float, width: float, height: float, look: str, round: int = 0
    ) -> None:
        """A rectangle; `look` are its CSS classes."""
        corner = f' rx="{round}"' if round else ""
        self.elements.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
            f'{corner} class="{look}"/>'
        )
        self.width = max(self.width, x + width + PAD)

    def disc(self, x: float, y: float, radius: float, look: str) -> None:
        """A disc around a point."""
        self.elements.append(
            f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" class="{look}"/>'
        )

    def text(
        self, x: float, y: float, text: str, size: float, look: str, anchor: str = ""
    ) -> None:
        """A line of text, which stands on `y`."""
        if not text.strip():
            return
        place = f' text-anchor="{anchor}"' if anchor else ""
        self.elements.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size:g}"{place} class="{look}" '
            f'xml:space="preserve">{escape(clean(text))}</text>'
        )
        if not anchor:
            self.width = max(self.width, x + text_width(text) * size * LETTER + PAD)

    def heading(self, text: str, seat: int | None = None) -> None:
        """The title of a shape; moves down to the shape."""
        if not text:
            return
        x = PAD
        if seat is not None:
            self.disc(PAD + 5, self.y + 8, 5, f"f-{seat_tone(seat)}")
            x += 15
        for line in wrapped_lines(text, 46):
            self.text(x, self.y + 12, line, 13, "f-soft")
            self.y += 20


def drawing_of(scene: Scene) -> Drawing:
    """The elements of a scene, without background."""
    canvas = Canvas()
    for line in wrapped_lines(scene.title, 36):
        canvas.text(PAD, canvas.y + 13, line, 14, "f-ink")
        canvas.y += 22
    for shape in scene.shapes:
        canvas.y += GAP / 2
        DRAW[type(shape)](canvas, shape)
        canvas.y += GAP / 2
    return Drawing(round(canvas.width), round(canvas.y), tuple(canvas.elements))


def svg(scene: Scene) -> str:
    """A scene as the text of an SVG file, on light paper."""
    return svg_of(drawing_of(scene))


def svg_of(
    drawing: Drawing, *, width: float | None = None, height: float | None = None
) -> str:
    """A drawing as the text of an SVG file, on light paper.

    Args:
        drawing: what to draw.
        width: of the file in pixels; None for that of the drawing.
        height: likewise. The drawing is scaled to fit and stands in the middle.
    """
    size = f'width="{width or drawing.width:g}" height="{height or drawing.height:g}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} '
            f'viewBox="0 0 {drawing.width:g} {drawing.height:g}">',
            f"<style>{css()}</style>",
            '<rect x="-5000" y="-5000" width="15000" height="15000" class="f-paper"/>',
            *drawing.elements,
            "</svg>\n",
        ]
    )


def _ink(cell: Cell) -> str:
    return f"o-{cell.tone}" if cell.tone else "f-ink"


def _steps(count: int, narrow: bool) -> list[float]:
    """The start of each row or column, and the end of the last one."""
    steps = [0.0]
    for number in range(count):
        steps.append(steps[-1] + (THIN if narrow and number % 2 == 0 else SIDE))
    return steps


def _draw_grid(canvas: Canvas, grid: Grid) -> None:
    canvas.heading(grid.title)
    num_columns = max(map(len, grid.rows), default=0)
    side = min(SIDE, 600 / max(1, num_columns)) / SIDE  # large boards shrink
    across, down = (
        [step * side for step in _steps(count, grid.narrow)]
        for count in (num_columns, len(grid.rows))
    )
    first = PAD + (
        max(text_width(label) for label in grid.left) * 8 + 6 if grid.left else 0
    )
    for number, label in enumerate(grid.top):
        middle = (across[number] + across[number + 1]) / 2
        canvas.text(first + middle, canvas.y + 11, label, 12, "f-soft", "middle")
    canvas.y += 18 if grid.top else 0
    for number, row in enumerate(grid.rows):
        x, y = first + number * grid.shift * SIDE * side, canvas.y + down[number]
        height = down[number + 1] - down[number]
        if grid.left:
            canvas.text(
                x - 6, y + height / 2 + 4, grid.left[number], 12, "f-soft", "end"
            )
        for place, cell in enumerate(row):
            width = across[place + 1] - across[place]
            ground = "shade" if grid.checkered and (number + place) % 2 else "cell"
            _draw_square(canvas, cell, (x + across[place], y, width, height), ground)
    canvas.y += down[-1]


def _draw_square(
    canvas: Canvas, cell: Cell, box: tuple[float, float, float, float], ground: str
) -> None:
    x, y, width, height = box
    small = min(width, height)
    fill = cell.tone if cell.tone and not cell.disc else ground
    edge = "k-mark" if cell.mark else "k-paper"
    canvas.rect(x, y, width, height, f"f-{fill} {edge}", 2)
    if cell.disc:
        look = f"f-{cell.tone} k-line"
        canvas.disc(x + width / 2, y + height / 2, small * 0.38, look)
    size = min(small * 0.5, 1.5 * small / max(1, text_width(cell.text)))
    middle = y + height / 2 + size * 0.36
    canvas.text(x + width / 2, middle, cell.text, round(size, 1), _ink(cell), "middle")


def _draw_cards(canvas: Canvas, cards: Cards) -> None:
    canvas.heading(cards.title, cards.seat)
    most = max((text_width(card.text or "") for card in cards.cards), default=1)
    notes = [wrapped_lines(card.note, 12) for card in cards.cards]
    longest = max((text_width(line) for note in notes for line in note), default=0)
    width = max(40.0, most * 11 + 12.0, longest * 6 + 8.0)
    height = 54 + 12 * max(map(len, notes), default=0)
    x = PAD
    for card, note in zip(cards.cards, notes, strict=True):
        if x > PAD and x + width > MAX_WIDTH:
            x, canvas.y = PAD, canvas.y + height + 6
        look = "f-back" if card.text is None else f"f-{card.tone or 'cell'}"
        canvas.rect(x, canvas.y, width, 50, f"{look} k-line", 6)
        face = Cell("?" if card.text is None else card.text, card.tone)
        ink = "o-dark" if card.text is None else _ink(face)
        canvas.text(x + width / 2, canvas.y + 31, face.text, 18, ink, "middle")
        for number, line in enumerate(note):
            below = canvas.y + 62 + 12 * number
            canvas.text(x + width / 2, below, line, 10, "f-soft", "middle")
        x += width + 6
    if not cards.cards:
        canvas.text(PAD, canvas.y + 12, "none", 13, "f-soft")
        height = 18
    canvas.y += height


def _draw_table(canvas: Canvas, table: Table) -> None:
    canvas.heading(table.title)
    heads = [[Cell(name) for name in table.header]] if table.header else []
    lines = [*heads, *table.rows]
    widths = [
        max(text_width(line[place].text) for line in lines if place < len(line)) * 7.8
        + 14
        for place in range(max(map(len, lines)))
    ]
    for number, line in enumerate(lines):
        ground = "shade" if number < len(heads) else "cell"
        x = PAD
        for cell, width in zip(line, widths, strict=False):
            look = f"f-{cell.tone or ground}"
            edge = "k-mark" if cell.mark else "k-paper"
            canvas.rect(x, canvas.y, width, 22, f"{look} {edge}", 2)
            canvas.text(x + 7, canvas.y + 15.5, cell.text, 13, _ink(cell))
            x += width
        canvas.y += 22


def _draw_track(canvas: Canvas, track: Track) -> None:
    canvas.heading(track.title)
    x = PAD
    for item in track.items:
        width = max(22.0, text_width(item.text) * 7.8 + 12)
        if x > PAD and x + width > MAX_WIDTH:
            x, canvas.y = PAD, canvas.y + 26
        edge = "k-mark" if item.mark else "k-line"
        canvas.rect(x, canvas.y, width, 22, f"f-{item.tone or 'cell'} {edge}", 11)
        middle = x + width / 2
        canvas.text(middle, canvas.y + 15.5, item.text, 13, _ink(item), "middle")
        x += width + 4
    if not track.items:
        canvas.text(PAD, canvas.y + 12, "none", 13, "f-soft")
    canvas.y += 22


def _draw_talk(canvas: Canvas, talk: Talk) -> None:
    canvas.heading(talk.title)
    for bubble in talk.said:
        lines = wrapped_lines(bubble.words, BUBBLE)
        x = PAD + (30 if bubble.seat is not None and bubble.seat % 2 else 0)
        speaker = "" if bubble.seat is None else f"player_{bubble.seat}"
        hearers = f"to {bubble.audience}" if bubble.audience else ""
        head = " ".join(filter(None, (speaker, hearers, bubble.action)))
        if head:
            look = "f-back" if bubble.seat is None else f"f-{seat_tone(bubble.seat)}"
            canvas.disc(x + 5, canvas.y + 8, 5, look)
            canvas.text(x + 15, canvas.y + 12, head, 13, "f-ink")
            canvas.y += 20
        if lines:
            height = 18.0 * len(lines) + 10
            canvas.rect(x, canvas.y, BUBBLE * 7.8 + 20, height, "f-bubble", 8)
            for number, line in enumerate(lines):
                canvas.text(x + 10, canvas.y + 18 + 18 * number, line, 13, "f-ink")
            canvas.y += height + 8


DRAW: dict[type, Callable[[Canvas, Any], None]] = {
    Grid: _draw_grid,
    Cards: _draw_cards,
    Table: _draw_table,
    Track: _draw_track,
    Talk: _draw_talk,
}
