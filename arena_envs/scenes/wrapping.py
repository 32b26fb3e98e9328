"""Text for pictures: harmless, and in lines of a given width."""

import re
import unicodedata

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


def columns(text: str) -> int:
    """How many columns a text takes in a font of fixed width.

    >>> columns("ok"), columns("\u4f60\u597d")
    (2, 4)
    """
    if text.isascii():
        return len(text)
    return sum(1 + (unicodedata.east_asian_width(c) in "WF") for c in text)


def wrapped(text: str, width: int) -> list[str]:
    """`text` in lines of at most `width` columns, at most `MAX_LINES` of them.

    >>> wrapped("one two three", 8)
    ['one two', 'three']
    """
    lines: list[str] = []
    rest = clean(text).replace("\t", "    ")
    while rest:
        if len(lines) == MAX_LINES - 1 and (len(rest) > width or "\n" in rest):
            return [*lines, f"... and {len(rest):,} more characters"]
        line, rest = _split(rest, width)
        lines.append(line)
    return lines


def _split(text: str, width: int) -> tuple[str, str]:
    """The first line of a text, and what follows it."""
    used, blank = 0, -1
    for place, char in enumerate(text):
        if char == "\n":
            return text[:place].rstrip("\r"), text[place + 1 :]
        used += columns(char)
        if used > width:
            end = blank if blank > 0 else max(place, 1)
            return text[:end], text[end:].removeprefix(" ")
        if char == " ":
            blank = place
    return text, ""
