"""Files of the packages have at most 300 lines, and functions at most 40."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("arena_envs", "wrappers/arena_wrappers", "trainers/arena_trainers")
MAX_FILE = 300
MAX_FUNCTION = 40  # without its docstring
ADVICE = (
    "Split it, or give a part of it a name of its own. A number in tests/packaging/"
    "test_sizes.py may fall and not rise; an entry that has become short enough goes."
)

LONG_FILES: dict[str, int] = {}
LONG_FUNCTIONS = {}


def sources() -> Iterator[tuple[str, str]]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")


def functions(node: ast.AST, within: str = "") -> Iterator[tuple[str, int]]:
    """Name and number of lines of every function, nested ones too."""
    for child in ast.iter_child_nodes(node):
        name = within
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            name = f"{within}.{child.name}".lstrip(".")
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield name, lines(child) - lines(child.body[0]) * has_docstring(child)
        yield from functions(child, name)


def lines(node: ast.stmt) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def has_docstring(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return ast.get_docstring(node, clean=False) is not None


def check(found: dict[str, int], limit: int, allowed: dict[str, int]) -> None:
    """No length is above its limit, and no entry of the list is larger than it must be."""
    grown = [
        f"{name} has {length} lines, want at most {allowed.get(name, limit)}"
        for name, length in found.items()
        if length > allowed.get(name, limit)
    ]
    assert not grown, "\n".join([*grown, ADVICE])
    stale = [
        f"{name} has {found.get(name, 0)} lines, its entry says {entry}"
        for name, entry in allowed.items()
        if found.get(name, 0) < entry
    ]
    assert not stale, "\n".join([*stale, "Lower the entry, or take it out if it fits."])


def test_no_file_becomes_longer_than_300_lines() -> None:
    found = {path: text.count("\n") for path, text in sources()}
    assert len(found) > 100
    check(found, MAX_FILE, LONG_FILES)


def test_no_function_becomes_longer_than_40_lines() -> None:
    found = {
        f"{path}: {name}": length
        for path, text in sources()
        for name, length in functions(ast.parse(text))
    }
    assert len(found) > 1000
    check(found, MAX_FUNCTION, LONG_FUNCTIONS)


def test_a_function_is_counted_without_its_docstring() -> None:
    text = (
        'class A:\n    def f(self):\n        """One.\n\n        Two."""\n        pass\n'
    )
    assert list(functions(ast.parse(text))) == [("A.f", 2)]
