"""The guide to a game of one's own: its commands run, from nothing to a trained model."""

import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]


def guide() -> str:
    """The commands of the guide, as a shell script."""
    page = (ROOT / "docs" / "howto.md").read_text(encoding="utf-8")
    start, end = (
        page.index("## A game with hidden cards"),
        page.index("## Train on two"),
    )
    return "\n".join(re.findall(r"```sh\n(.*?)```", page[start:end], re.DOTALL))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder; modules that are imported from it are forgotten."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def test_the_guide_is_right_up_to_the_training(folder: Path, arena_here: Any) -> None:
    """Runs are planned, not made; random play stands for the trained model."""
    script = guide().replace("\\\n", " ")
    for name, text in re.findall(r"cat > (\S+) <<'END'\n(.*?)END\n", script, re.DOTALL):
        (folder / name).write_text(text)
    lines = re.sub(r"cat > .*?\nEND\n", "", script, flags=re.DOTALL).splitlines()
    num_planned = 0
    for line in filter(None, lines):
        words = shlex.split(line, comments=True)
        if words[:3] == ["python", "-m", "pytest"]:
            assert runpy.run_path(str(folder / words[-1]))
            continue
        assert words[0] == "arena"
        if words[1] == "train":
            words, num_planned = [*words, "--dry-run"], num_planned + 1
        if words[1] == "replay":
            continue
        words = ["random" if word.startswith("lm:") else word for word in words]
        words = [
            "2" if before == "-n" else word
            for before, word in zip(["", *words], words, strict=False)
        ]
        if words[1] == "eval":
            words.append("--no-baselines")
        done = arena_here(*words[1:], cwd=folder)
        assert done.returncode == 0, done.stderr
    assert num_planned == 2


@pytest.mark.slow
def test_the_guide_runs_to_two_trained_models(tmp_path: Path) -> None:
    """As a shell runs it, each command in a process of its own."""
    arena = f'arena() {{ {shlex.quote(sys.executable)} -m arena_trainers "$@"; }}'
    script = f"set -e\n{arena}\n{guide()}"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    for name in ("high-card", "card-talk"):
        assert (tmp_path / "runs" / name / "model").is_dir()
