"""Markdown in which texts of others are no markup."""

import re
from collections.abc import Iterable, Sequence

_BACKTICKS = re.compile(r"`+")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_PLAIN = re.compile(r"[\w ,.%()=+-]*")  # nothing that Markdown reads inside a line


def code(text: str) -> str:
    """A text in a line, as code: nothing in it is markup.

    >>> print(code("kuhn_poker"), code("a`b"))
    `kuhn_poker` `` a`b ``
    """
    flat = " ".join(_CONTROL.sub(" ", text).split())
    ticks = _longer_than(flat, 0)
    padding = " " if "`" in flat or not flat else ""
    return f"{ticks}{padding}{flat}{padding}{ticks}"


def code_block(text: str, language: str = "") -> str:
    """A text of several lines, between fences that are longer than any in it."""
    ticks = _longer_than(text, 2)
    return f"{ticks}{language}\n{_CONTROL.sub(' ', text).rstrip()}\n{ticks}"


def _longer_than(text: str, least: int) -> str:
    longest = max(map(len, _BACKTICKS.findall(text)), default=0)
    return "`" * (max(longest, least) + 1)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table. Its cells are Markdown of one line; bars in them are escaped."""
    lines = [heads, ["---"] * len(heads), *rows]
    bar = "\\|"
    return "\n".join(
        f"| {' | '.join(cell.replace('|', bar) for cell in cells)} |" for cells in lines
    )


def cell(text: str) -> str:
    """A text as it is if it has no markup, else as code.

    >>> print(cell("0.04 to 0.29"), cell("<b>"))
    0.04 to 0.29 `<b>`
    """
    return text if _PLAIN.fullmatch(text) else code(text)
