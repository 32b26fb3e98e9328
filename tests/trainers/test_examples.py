"""The examples of papers: short, linked, and each does what its page says."""

import ast
import importlib
import io
import tokenize
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "notebooks" / "examples"
EXAMPLES = sorted(path.stem for path in FOLDER.glob("*.py"))
quiet = pytest.mark.filterwarnings(
    "ignore::arena_credit.FlatPoolWarning", "ignore:`gradient_checkpointing`"
)


def num_lines(text: str) -> int:
    """Lines with code, without docstrings and comments."""
    docstrings = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef)
        and ast.get_docstring(node)
        for line in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)
    }
    blank = tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT, tokenize.INDENT
    skipped = (*blank, tokenize.DEDENT, tokenize.ENDMARKER)
    lines = {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in skipped
        for line in range(token.start[0], token.end[0] + 1)
    }
    return len(lines - docstrings)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_a_paper_in_under_60_lines(name: str) -> None:
    text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    assert num_lines(text) < 60
    assert "(https://arxiv.org/abs/" in (ast.get_docstring(ast.parse(text)) or "")
    page = (FOLDER.parents[1] / "docs" / "papers.md").read_text(encoding="utf-8")
    assert f"/notebooks/examples/{name}.py)" in page


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch, request: Any) -> Any:
    """The module of an example, named as the test."""
    pytest.importorskip("trl")
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module(request.node.name.removeprefix("test_"))


@quiet
@pytest.mark.slow
def test_goal_proposer(example: Any, tmp_path: Path) -> None:
    """The model learns to propose actions as goals, and to keep them."""
    first, last = example.train(str(tmp_path))
    assert last > first + 0.5


@quiet
@pytest.mark.slow
def test_team_plan(example: Any, tmp_path: Path) -> None:
    """Every role speaks at first; who plans and advises pays, and is brief in the end."""
    first = example.train(str(tmp_path / "first"), num_steps=1)
    last = example.train(str(tmp_path / "last"))
    assert first.keys() <= {"host", "critic", "player"}
    assert last["host"] < first["host"]


@quiet
@pytest.mark.slow
def test_coach(example: Any, tmp_path: Path) -> None:
    """All prompts of a run of one step hold a hint, and none of the second half of a longer one."""
    for num_steps, share in ((1, 1.0), (4, 0.0)):
        trainer, *_ = example.train(str(tmp_path / str(num_steps)), num_steps)
        hint = trainer.processing_class.convert_tokens_to_ids("coach")
        turns = [turn for episode in trainer.last_episodes for turn in episode.turns]
        assert {float(hint in turn.prompt_ids) for turn in turns} == {share}


@pytest.mark.slow
def test_score_preferences(example: Any, tmp_path: Path, arena_here: Any) -> None:
    """Large differences are drawn more often, and the file that was written trains."""
    mean, mean_of_drawn = example.write(str(tmp_path / "pairs.parquet"), 10)
    assert mean_of_drawn > mean + 1
    command = "train --trainer dpo --data pairs.parquet --max_steps 2 --output-dir out"
    assert arena_here(*command.split(), cwd=tmp_path).returncode == 0


@quiet
@pytest.mark.slow
def test_fix_up(example: Any, tmp_path: Path) -> None:
    """The bound holds after every update, which needs further steps."""
    reached, num_steps = example.train(str(tmp_path), num_steps=4)
    assert max(reached) <= 0.05
    assert num_steps > 0
