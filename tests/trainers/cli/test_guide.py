"""The commands of pages of the docs: the guides to a game of one's own, and others.

`make blocks` runs them with their trainings.
"""

import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]


def commands(*names: str) -> str:
    """The commands of pages that a reader can run, as a shell script."""
    blocks = runpy.run_path(str(ROOT / "tests/packaging/check_docs.py"))["blocks"]
    pages = [block for name in names for block in blocks(f"docs/{name}.md")]
    return "\n".join(b.code for b in pages if b.runs and b.language == "sh")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder; modules that are imported from it are forgotten."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def planned(script: str, folder: Path, arena_here: Any) -> list[str]:
    """Commands of `arena` that went well: runs are only planned, `random` is the trained model."""
    script = script.replace("\\\n", " ")
    for name, text in re.findall(r"cat > (\S+) <<'END'\n(.*?)END\n", script, re.DOTALL):
        (folder / name).write_text(text)
    lines = re.sub(r"cat > .*?\nEND\n", "", script, flags=re.DOTALL).splitlines()
    done = []
    for line in filter(None, lines):
        words = shlex.split(line, comments=True)
        reads = {"--resume", "replay", "report", "path/to/model"}  # what a run leaves
        elsewhere = words[0] == "pip" or "=" in words[0]  # or with modules of a clone
        if elsewhere or reads & set(words) or "credit" in words[1:3]:
            continue  # the tests of `arena credit` and `arena credit audit` take seconds
        assert words[0] == "arena"
        words = ["random" if word.startswith("lm:") else word for word in words]
        pairs = zip(["", *words], words, strict=False)
        words = ["2" if before == "-n" else word for before, word in pairs]
        more = {"train": ["--dry-run"], "eval": ["--no-baselines"]}.get(words[1], [])
        ran = arena_here(*words[1:], *more, cwd=folder)
        assert ran.returncode == 0, ran.stderr
        done.append(words[1])
    return done


def test_the_guide_is_right_up_to_the_training(folder: Path, arena_here: Any) -> None:
    done = planned(commands("own-game", "talk"), folder, arena_here)
    assert (done.count("new-game"), done.count("train")) == (2, 2)
    for name in ("high_card", "card_talk"):
        assert runpy.run_path(str(folder / f"test_{name}.py"))


@pytest.mark.slow
def test_other_pages_are_right_up_to_the_training(
    folder: Path, arena_here: Any
) -> None:
    pytest.importorskip("pyspiel")
    done = planned(
        commands("measure", "behaviour", "rewards", "credit/check"),
        folder,
        arena_here,
    )
    assert done.count("train") == 5
    assert {"eval", "compare", "bench"} <= {*done}
