"""Functions have at most 40 lines."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("arena_envs", "wrappers/arena_wrappers", "trainers/arena_trainers")
MAX_FUNCTION = 40  # without its docstring


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


def test_no_function_has_more_than_40_lines() -> None:
    found = {
        f"{path}: {name}": length
        for path, text in sources()
        for name, length in functions(ast.parse(text))
    }
    assert len(found) > 1000
    too_long = [
        f"{name} has {length} lines, want at most {MAX_FUNCTION}: split it"
        for name, length in found.items()
        if length > MAX_FUNCTION
    ]
    assert not too_long, "\n".join(too_long)


def test_a_function_is_counted_without_its_docstring() -> None:
    text = (
        'class A:\n    def f(self):\n        """One.\n\n        Two."""\n        pass\n'
    )
    assert list(functions(ast.parse(text))) == [("A.f", 2)]
