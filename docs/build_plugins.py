"""Writes `docs/plugins.md`: each kind of plug-in, with a program of `docs/plugins/` and the built-in objects.

    python docs/build_plugins.py          # fails if the page is out of date
    python docs/build_plugins.py --write  # writes it

The docstring of a program says how its kind is written, named and checked; `tests/test_plugins.py` runs its test.
The first line of a built-in object's docstring says what it does; its `Args` explain the options. Links in the docstring of a
selector name the papers, and its annotation the rows that it yields.
"""

import inspect
import re
import sys
import typing
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arena_envs.registry import Registry
from arena_trainers.curricula import curricula
from arena_trainers.data import Dropped, selectors
from arena_trainers.matchmaking import matchmakers
from arena_trainers.train.critics.registry import critics

DOCS = Path(__file__).parent
OF_SNAPSHOTS = ("every", "window", "max_kept", "max_live")  # NOTES explains them once
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
        explained: options that a note explains.
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
    match = re.search(
        rf"^    {parameter.name}: (.*(?:\n     .*)*)", docstring, re.MULTILINE
    )
    if match is None:
        sys.exit(
            f"want {parameter.name} among the Args of {docstring[:60]!r}, got none"
        )
    meaning = re.split(r"[.;](?:\s|$)", " ".join(match[1].split()))[0].replace(
        "|", "\\|"
    )
    default = parameter.default
    default_text = f" ({_default(default)})" if default is not parameter.empty else ""
    return f"`{parameter.name}`{default_text}: {meaning}"


def _default(value: object) -> str:
    return "none" if value is None else f"`{value}`"


@dataclass(frozen=True)
class Kind:
    """A kind of plug-in: its program, the name that an entry point gives it, and its built-in objects."""

    program: str
    group: str
    name: str
    target: str
    rows: Callable[[], Iterator[str]] | None = None
    note: str = ""


PROGRAMS = DOCS / "plugins"
PAGE = DOCS / "plugins.md"
NOTE = """\
Snapshots are taken every `every` optimizer steps (20). `window` plays the newest so many; without it every second one is
deleted beyond `max_kept` (32; `psro` 16). `max_live` (4) are in memory, and are the most that a batch plays. `past:RUN`
names them as policies afterwards, `past:RUN@120` one of them."""
KINDS = (
    Kind("my_game", "games", "higher_number", "HigherNumber"),
    Kind("my_transform", "transforms", "bonus", "Bonus"),
    Kind("my_source", "tasks", "colors", "Colors"),
    Kind("my_policy", "policies", "first_legal", "FirstLegal"),
    Kind("my_agent", "agents", "critic", "critic"),
    Kind("my_credit", "credit", "my_estimator", "my_estimator"),
    Kind("my_reward", "rewards", "my_reward", "my_reward"),
    Kind("my_loss", "losses", "my_term", "my_term"),
    Kind(
        "my_critic",
        "critics",
        "my_critic",
        "MyCritic",
        lambda: plugin_rows(critics, "values"),
    ),
    Kind(
        "my_matchmaker",
        "matchmakers",
        "alternate",
        "Alternate",
        lambda: plugin_rows(
            matchmakers, "who plays the model that learns", OF_SNAPSHOTS
        ),
        NOTE,
    ),
    Kind(
        "my_curriculum",
        "curricula",
        "shorten",
        "Shorten",
        lambda: plugin_rows(curricula, "games and lengths"),
    ),
    Kind("my_selector", "selectors", "short_wins", "short_wins", selector_rows),
    Kind("my_trainer", "trainers", "plain", "plain"),
    Kind("my_measure", "measures", "boldness", "boldness"),
    Kind("my_values", "values", "material", "Material"),
)
HEAD = """\
# Plug-ins

Written by `python docs/build_plugins.py --write` from the programs in `docs/plugins/`, whose tests run, and from docstrings.

Games, policies, estimators and the other kinds below may live in a package of yours. Each object follows a protocol; it need not
inherit a class. Wherever a name is expected, write `my_module:name`; the module may be in the working directory. An entry point in
your `pyproject.toml` gives it a short name:

```toml
{entry_points}
```

The module is imported when the name is first used. Files that may be somebody else's (records, suites, rows, folders of runs) name
registered plug-ins only, unless you give `--allow-code`:
see [SECURITY.md](https://github.com/arena-envs/arena-envs/blob/main/SECURITY.md). `arena_envs.registry` has the grammar of these
strings, such as `wins(top=0.2)`, and `Registry`, which lists, makes and checks each kind.

A **command** needs no protocol: a function with [Typer](https://typer.tiangolo.com)'s annotations in the group `arena.commands` is
`arena NAME`, a `typer.Typer` a group of commands.
"""


def section(kind: Kind) -> str:
    """The part of a kind: its title, how it is written, a program, and the built-in objects."""
    program = (PROGRAMS / f"{kind.program}.py").read_text("utf-8")
    _, docstring, code = program.split('"""', 2)
    first, _, text = docstring.partition("\n\n")
    title = re.split(r"[.:,]", first)[0]
    parts = [f"## {title}", text.strip()]
    if kind.rows:
        parts += ["Built in:", "\n".join(kind.rows())]
    if kind.note:
        parts.append(kind.note)
    parts.append(f"```python\n# {kind.program}.py\n{code.strip()}\n```")
    return "\n\n".join(parts)


def page() -> str:
    """The page."""
    points = [
        f'[project.entry-points."arena.{kind.group}"]\n{kind.name} = "my_package.{kind.program}:{kind.target}"'
        for kind in KINDS
    ]
    head = HEAD.format(entry_points="\n\n".join(points))
    return "\n\n".join([head.strip(), *map(section, KINDS)]) + "\n"


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(page(), "utf-8")
    elif PAGE.read_text("utf-8") != page():
        sys.exit("docs/plugins.md is out of date; run with --write")
