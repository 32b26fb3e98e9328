"""The page of a game: the docstring of its module."""

import re
import sys
from typing import Any

from arena_envs.testing.sample import demand

PAGE_ROWS = (
    *("Create", "Agents", "Kind", "Actions", "Rewards", "Length", "Known value"),
    "Source",
)


def page_of(game: Any) -> str:
    """The docstring of the module of a game, or of a game's class; empty without one."""
    owner = game if isinstance(game, type) else type(game)
    return (sys.modules[owner.__module__].__doc__ or "").strip()


def check_page(game: Any) -> None:
    """The module's docstring is a page: title, table with all rows, rules."""
    page = page_of(game)
    demand(bool(page), "the module of a game has a docstring, which is its page")
    rule = "the page starts with a title, a colon and a sentence, and then a blank line"
    demand(
        bool(re.match(r"[^\n:|]+: [^\n|]+(\n[^\n|]+)*\n\n", page)),
        rule,
        page,
        fix="Start it as in 'Nim: take objects from piles.'",
    )
    rows = tuple(re.findall(r"^\| (\w[\w ]*?) +\|", page, re.MULTILINE))
    rule = f"the table of the page has the rows Property, {', '.join(PAGE_ROWS)}"
    demand(rows == ("Property", *PAGE_ROWS), rule, rows)
    rule = "the rules follow the table of the page"
    demand(
        "\n\n" in page.partition("| Source")[2],
        rule,
        fix="Write the rules below the table, after a blank line.",
    )
