"""Writes the tables of selectors, matchmakers, curricula and critics from their docstrings and signatures.

    python docs/build_tables.py          # fails if a table is out of date
    python docs/build_tables.py --write  # writes them

The first line of a docstring says what a plug-in does; its `Args` explain the options. Links in the docstring of a
selector name the papers, and its annotation the rows that it yields.
"""

import inspect
import re
import sys
import typing
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from arena_envs.registry import Registry
from arena_trainers.curricula import curricula
from arena_trainers.data import Dropped, selectors
from arena_trainers.matchmaking import matchmakers
from arena_trainers.train.critics.registry import critics

DOCS = Path(__file__).parent
OF_SNAPSHOTS = (
    "every",
    "window",
    "max_kept",
    "max_live",
)  # appendix/training.md explains them once
_NAME = r"(?:[A-Z][\w-]*|i[A-Z]\w*)(?:'s)?"  # of a method, such as "Optima's iSFT"
_SOURCE = re.compile(rf"({_NAME}(?: {_NAME})*)\s+\((https://arxiv\.org/abs/[\d.]+)\)")


def kind_of_rows(selector: Callable[..., Any]) -> str:
    """The rows that a selector yields, by the annotation of its result."""
    (entry,) = typing.get_args(typing.get_type_hints(selector)["return"])
    kinds = [kind for kind in typing.get_args(entry) if kind is not Dropped]
    return " or ".join(f"{kind.__name__.lower()}s" for kind in kinds)


def selector_rows() -> Iterator[str]:
    """A row for each selector."""
    yield "| Selector | Rows | What it chooses | Source |\n|---|---|---|---|"
    for name in selectors.built_in:
        selector = selectors.find(name)
        text = inspect.getdoc(selector) or ""
        sources = [f"[{method}]({link})" for method, link in _SOURCE.findall(text)]
        if not sources:
            sys.exit(f"want a paper with its link in the docstring of {name}, got none")
        cells = (
            f"`{name}`",
            kind_of_rows(selector),
            _summary(text),
            ", ".join(sources),
        )
        yield f"| {' | '.join(cells)} |"


def plugin_rows(
    registry: Registry[Any], subject: str, explained: Collection[str] = ()
) -> Iterator[str]:
    """A row for each built-in object of a registry.

    Args:
        registry: the registry.
        subject: heads the column of first lines.
        explained: options that the page explains elsewhere.
    """
    yield f"| {registry.kind} | {subject} | options |\n|---|---|---|"
    for name in registry.built_in:
        plugin = registry.find(name)
        text = inspect.getdoc(plugin) or ""
        hidden = {*registry.reserved, *explained}
        options = [
            _option(parameter, text)
            for parameter in inspect.signature(plugin).parameters.values()
            if parameter.name not in hidden
        ]
        yield f"| `{name}` | {_summary(text)} | {'; '.join(options)} |"


def _summary(docstring: str) -> str:
    return docstring.partition("\n")[0].removesuffix(".").replace("|", "\\|")


def _option(parameter: inspect.Parameter, docstring: str) -> str:
    """Name and default of an option, and the first clause of what `Args` says of it."""
    found = re.search(
        rf"^    {parameter.name}: (.*(?:\n     .*)*)", docstring, re.MULTILINE
    )
    if found is None:
        sys.exit(
            f"want {parameter.name} among the Args of {docstring[:60]!r}, got none"
        )
    meaning = re.split(r"[.;](?:\s|$)", " ".join(found[1].split()))[0].replace(
        "|", "\\|"
    )
    default = parameter.default
    shown = f" ({_default(default)})" if default is not parameter.empty else ""
    return f"`{parameter.name}`{shown}: {meaning}"


def _default(value: object) -> str:
    return "none" if value is None else f"`{value}`"


TABLES: tuple[tuple[str, str, Callable[[], Iterator[str]]], ...] = (
    ("appendix/data.md", "selectors", selector_rows),
    (
        "appendix/training.md",
        "matchmakers",
        lambda: plugin_rows(
            matchmakers, "who plays the model that learns", OF_SNAPSHOTS
        ),
    ),
    (
        "appendix/training.md",
        "curricula",
        lambda: plugin_rows(curricula, "games and lengths"),
    ),
    ("appendix/training.md", "critics", lambda: plugin_rows(critics, "values")),
)


def page(name: str, text: str) -> str:
    """A page with its tables of today."""
    for table_page, title, rows in TABLES:
        if table_page == name:
            begin = f"<!-- {title}: written by docs/build_tables.py -->"
            end = f"<!-- end of {title} -->"
            before, _, after = text.partition(begin)
            _, _, after = after.partition(end)
            text = "\n".join([f"{before}{begin}", "", *rows(), "", f"{end}{after}"])
    return text


if __name__ == "__main__":
    for page_name in sorted({name for name, _, _ in TABLES}):
        path = DOCS / page_name
        current = path.read_text("utf-8")
        if "--write" in sys.argv:
            path.write_text(page(page_name, current), "utf-8")
        elif page(page_name, current) != current:
            sys.exit(f"docs/{page_name} is out of date; run with --write")
