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

LONG_FILES = {
    "arena_envs/env.py": 303,
    "arena_envs/games/bargaining.py": 305,
    "arena_envs/games/donor_game.py": 304,
    "arena_envs/games/speaker_listener.py": 301,
    "arena_envs/registration.py": 315,
}
LONG_FUNCTIONS = {
    "arena_envs/games/_bargaining_talk.py: rules_text": 45,
    "trainers/arena_trainers/cli/play.py: evaluate": 67,
    "trainers/arena_trainers/cli/play.py: play": 70,
    "trainers/arena_trainers/cli/solve.py: solve": 43,
    "trainers/arena_trainers/cli/tournament.py: tournament": 48,
    "trainers/arena_trainers/credit/estimators/mars_released.py: mars_released": 48,
    "trainers/arena_trainers/credit/proofs/exact.py: ExactPlay.batch": 43,
    "trainers/arena_trainers/evaluate/matches.py: EvaluationPlan.__init__": 45,
    "trainers/arena_trainers/evaluate/terminal.py: _table": 41,
    "trainers/arena_trainers/job/job.py: TrainingJob.__init__": 42,
    "trainers/arena_trainers/tournament/round_robin.py: TournamentPlan.__init__": 43,
    "trainers/arena_trainers/train/game_plans.py: GamePlan.__init__": 43,
    "trainers/arena_trainers/train/trainer.py: TurnGRPOTrainer.__init__": 51,
    "trainers/arena_trainers/train/turn_records.py: turn_records": 46,
}


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
