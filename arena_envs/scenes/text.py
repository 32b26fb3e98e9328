"""Writes a scene as text."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from arena_envs.scenes.shapes import Cards, Cell, Grid, Scene, Table, Talk, Track

# what XML 1.0 forbids, and what turns the direction of the text around it
_BANNED = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff"
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
MAX_LINES = 30  # of one text; the rest is counted


def clean(text: str) -> str:
    r"""`text` with U+FFFD in place of control characters and marks of direction.

    >>> clean("a\x1b[2Jb\n")
    'a\ufffd[2Jb\n'
    """
    return _BANNED.sub("\ufffd", text)


def text_width(text: str) -> int:
    """The number of columns that a text takes in a font of fixed width.

    >>> text_width("ok"), text_width("\u4f60\u597d")
    (2, 4)
    """
    if text.isascii():
        return len(text)
    return sum(1 + (unicodedata.east_asian_width(c) in "WF") for c in text)


def wrapped_lines(text: str, width: int) -> list[str]:
    """`text` in lines of at most `width` columns, at most `MAX_LINES` of them.

    >>> wrapped_lines("one two three", 8)
    ['one two', 'three']
    """
    lines: list[str] = []
    remainder = clean(text).replace("\t", "    ")
    while remainder:
        if len(lines) == MAX_LINES - 1 and (
            len(remainder) > width or "\n" in remainder
        ):
            return [*lines, f"... and {len(remainder):,} more characters"]
        line, remainder = _split(remainder, width)
        lines.append(line)
    return lines


def _split(text: str, width: int) -> tuple[str, str]:
    """The first line of a text, and what follows it."""
    used, blank = 0, -1
    for place, char in enumerate(text):
        if char == "\n":
            return text[:place].rstrip("\r"), text[place + 1 :]
        used += text_width(char)
        if used > width:
            end = blank if blank > 0 else max(place, 1)
            return text[:end], text[end:].removeprefix(" ")
        if char == " ":
            blank = place
    return text, ""


WIDTH = 72  # columns of words


def text_of(scene: Scene) -> str:
    """A scene as lines of text, without control characters."""
    lines = wrapped_lines(scene.title, WIDTH)
    for shape in scene.shapes:
        title = getattr(shape, "title", "")
        if title:
            lines += wrapped_lines(f"{title}:", WIDTH)
        lines += WRITE[type(shape)](shape)
    return clean("\n".join(line.rstrip() for line in lines))


def _filled(text: str, width: int) -> str:
    return text + " " * (width - text_width(text))


def _mark(cell: Cell) -> str:
    return f"*{cell.text}" if cell.mark else cell.text


def _grid(grid: Grid) -> Iterator[str]:
    if grid.narrow:
        yield from _narrow_grid(grid)
        return
    widest = max((text_width(_mark(c)) for row in grid.rows for c in row), default=1)
    width = max(1, widest, *map(text_width, grid.top)) if grid.top else max(1, widest)
    margin = max(map(text_width, grid.left), default=-1) + 1
    if grid.top:
        names = " ".join(_filled(name, width) for name in grid.top)
        yield " " * margin + names
    for number, row in enumerate(grid.rows):
        label = f"{grid.left[number]:>{margin - 1}} " if grid.left else ""
        marks = " ".join(_filled(_mark(cell) or ".", width) for cell in row)
        yield " " * round(number * grid.shift * (width + 1)) + label + marks


def _narrow_grid(grid: Grid) -> Iterator[str]:
    """Dots, lines and boxes: every second row and column is narrow."""
    margin = max(map(text_width, grid.left), default=-1) + 1
    if grid.top:
        yield " " * margin + "".join(
            _filled(name, 3 if place % 2 else 1) for place, name in enumerate(grid.top)
        )
    for number, row in enumerate(grid.rows):
        label = f"{grid.left[number]:>{margin - 1}} " if grid.left else ""
        yield label + "".join(
            _line(cell, number, place) for place, cell in enumerate(row)
        )


def _line(cell: Cell, row: int, place: int) -> str:
    if row % 2 == 0:
        if place % 2 == 0:
            return "+"
        return "---" if cell.tone else "   "
    if place % 2 == 0:
        return "|" if cell.tone else " "
    return f" {cell.text or ' '} "


def _cards(cards: Cards) -> Iterator[str]:
    faces = ["?" if card.text is None else card.text for card in cards.cards]
    if not any(card.note for card in cards.cards):
        yield "  " + (" ".join(f"[{face}]" for face in faces) or "none")
        return
    for number, card in enumerate(cards.cards):
        note = card.note.replace("\n", " ")
        yield f"  {number}: {faces[number]}" + (f" ({note})" if note else "")


def _table(table: Table) -> Iterator[str]:
    lines: list[Sequence[str]] = [table.header] if table.header else []
    lines += [[_mark(cell) for cell in row] for row in table.rows]
    widths = [
        max(text_width(line[place]) for line in lines if place < len(line))
        for place in range(max(map(len, lines)))
    ]
    for line in lines:
        yield "  " + "  ".join(
            _filled(text, width) for text, width in zip(line, widths, strict=False)
        )


def _track(track: Track) -> Iterator[str]:
    """Items with words; tokens of one character stand without commas."""
    items = []
    for item in filter(_mark, track.items):
        # the seat that the color of an item stands for
        whose = f"player_{item.tone[4:]} " if item.tone.startswith("seat") else ""
        items.append(whose + _mark(item))
    between = " " if all(len(item) == 1 for item in items) else ", "
    yield from (
        f"  {line}" for line in wrapped_lines(between.join(items) or "none", WIDTH)
    )


def _talk(talk: Talk) -> Iterator[str]:
    for bubble in talk.said:
        speaker = "" if bubble.seat is None else f"player_{bubble.seat}"
        hearers = f"to {bubble.audience}" if bubble.audience else ""
        head = " ".join(filter(None, (speaker, hearers, bubble.action)))
        lines = wrapped_lines(bubble.words, WIDTH)
        if head:
            yield f"  {head}{':' if lines else ''}"
        yield from (f"    {line}" if head else line for line in lines)


WRITE: dict[type, Callable[[Any], Iterable[str]]] = {
    Grid: _grid,
    Cards: _cards,
    Table: _table,
    Track: _track,
    Talk: _talk,
}
