"""Writes the table of selectors in `docs/data.md` from their docstrings and annotations.

    python docs/build_selectors.py          # fails if the table is out of date
    python docs/build_selectors.py --write  # writes it

The first line of a docstring says what a selector chooses, its links name the papers, and its annotation the rows.
"""

import inspect
import re
import sys
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

from arena_trainers.data import Dropped, selectors

PAGE = Path(__file__).with_name("data.md")
BEGIN = "<!-- selectors: written by docs/build_selectors.py -->"
END = "<!-- end of selectors -->"
_NAME = r"(?:[A-Z][\w-]*|i[A-Z]\w*)(?:'s)?"  # of a method, such as "Optima's iSFT"
_SOURCE = re.compile(rf"({_NAME}(?: {_NAME})*)\s+\((https://arxiv\.org/abs/[\d.]+)\)")


def kind_of_rows(selector: Callable[..., Any]) -> str:
    """The rows that a selector yields, by the annotation of its result."""
    (entry,) = typing.get_args(typing.get_type_hints(selector)["return"])
    kinds = [kind for kind in typing.get_args(entry) if kind is not Dropped]
    return " or ".join(f"{kind.__name__.lower()}s" for kind in kinds)


def row_of(name: str) -> str:
    """The row of a selector."""
    selector = selectors.find(name)
    text = inspect.getdoc(selector) or ""
    summary = text.partition("\n")[0]
    sources = [f"[{method}]({link})" for method, link in _SOURCE.findall(text)]
    if not sources:
        sys.exit(f"want a paper with its link in the docstring of {name}, got none")
    return f"| `{name}` | {kind_of_rows(selector)} | {summary} | {', '.join(sources)} |"


def table() -> str:
    """The table, with the marks before and after it."""
    head = "| Selector | Rows | What it chooses | Source |\n|---|---|---|---|"
    rows = [row_of(name) for name in selectors.built_in]
    return "\n".join([BEGIN, "", head, *rows, "", END])


def page(text: str) -> str:
    """The page with the table of today."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{table()}{after}"


if __name__ == "__main__":
    current = PAGE.read_text("utf-8")
    if "--write" in sys.argv:
        PAGE.write_text(page(current), "utf-8")
    elif page(current) != current:
        sys.exit("docs/data.md is out of date; run with --write")
