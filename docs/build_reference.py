"""Writes `docs/reference/`: a page per public package, the help of every command, the gallery.

It also writes the page that plays games in the browser.

`make docs` runs it before it builds the site. The pages are not in the repository: the docstrings are
read when the site is built.
"""

import ast
import contextlib
import io
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from arena_trainers.cli import commands
from build_gallery import write_gallery
from build_play import write_app

ROOT = Path(__file__).parents[1]
FOLDER = Path(__file__).with_name("reference")
SOURCES = {
    "arena_envs": ROOT / "arena_envs",
    "arena_wrappers": ROOT / "wrappers" / "arena_wrappers",
    "arena_credit": ROOT / "trainers" / "arena_credit",
    "arena_eval": ROOT / "trainers" / "arena_eval",
    "arena_studio": ROOT / "trainers" / "arena_studio",
    "arena_trainers": ROOT / "trainers" / "arena_trainers",
}
# Public modules without a list of names: all that they define is public.
MODULES = (
    "arena_envs.bots",
    "arena_envs.registry",
    "arena_envs.game",
    "arena_envs.hostile",
    "arena_envs.talk",
    "arena_envs.transforms",
    "arena_wrappers.records",
)
COMMANDS = (
    *(command.name for command in commands.COMMANDS if command.name != "bench board"),
    *(f"bench board {name}" for name in ("run", "verify", "page")),
)


def public_modules() -> dict[str, list[str]]:
    """The names that each public module lists; none if all that it defines is public.

    Games have pages of their own.
    """
    names_by_module: dict[str, list[str]] = {module: [] for module in MODULES}
    for package, folder in SOURCES.items():
        for path in sorted(folder.rglob("*.py")):
            names = path.relative_to(folder).with_suffix("").parts
            adapter = names[0] == "adapters" and not names[-1].startswith("_")
            listed = _listed_names(path)
            if adapter or (names[0] != "games" and listed):
                module = ".".join((package, *(n for n in names if n != "__init__")))
                names_by_module[module] = listed
    return dict(sorted(names_by_module.items()))


def _listed_names(path: Path) -> list[str]:
    """The names in `__all__`, or those imported as themselves, with what stands beside them."""
    tree, names = ast.parse(path.read_text()), list[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and path.name == "__init__.py":
            names += [each.name for each in node.names if each.name == each.asname]
        elif isinstance(node, ast.Assign):
            targets = [t.id for t in node.targets if isinstance(t, ast.Name)]
            if targets == ["__all__"]:
                return list(ast.literal_eval(node.value))
    defined = [
        n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)
    ]
    return names and names + [name for name in defined if name[0] != "_"]


def module_page(module: str, names: list[str]) -> str:
    """The page of a module: mkdocstrings fills it from the docstrings."""
    members = f"    options:\n      members: [{', '.join(names)}]\n" if names else ""
    return f"# `{module}`\n\n::: {module}\n{members}"


def index_page(modules: Iterable[str]) -> str:
    """The page that lists the others."""
    lines = [f"- [`{module}`]({module}.md)" for module in modules]
    head = "# Reference\n\nEvery public name, from its docstring, and the [commands](commands.md).\n\n"
    return head + "\n".join(lines) + "\n"


def commands_page() -> str:
    """The help of every command."""
    from arena_trainers.cli.main import app

    os.environ |= {"COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1"}
    parts = ["# Commands\n"]
    for name in ("", *COMMANDS):
        text = io.StringIO()
        with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
            app([*name.split(), "--help"], prog_name="arena")
        title = f"arena {name}".strip()
        parts.append(f"## `{title}`\n\n```text\n{text.getvalue().strip()}\n```\n")
    return "\n".join(parts)


def main() -> None:
    """Runs the script."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    modules = public_modules()
    (FOLDER / "README.md").write_text(index_page(modules))
    for module, names in modules.items():
        (FOLDER / f"{module}.md").write_text(module_page(module, names))
    write_gallery(FOLDER)
    write_app()
    (FOLDER / "commands.md").write_text(commands_page())


if __name__ == "__main__":
    main()
