"""The commands of some sections of the docs do what their text says."""

import json
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[3] / "docs"
Commands = Callable[[str, str], list[list[str]]]


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Commands]:
    """The commands of a section, without `arena`; its files are written first."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(tmp_path))

    def read(name: str, title: str) -> list[list[str]]:
        page = (DOCS / name).read_text(encoding="utf-8")
        section = re.search(rf"## {re.escape(title)}\n.*?```sh\n(.*?)```", page, re.S)
        assert section, title
        heredoc = re.compile(r"cat > (\S+) <<'END'\n(.*?)END\n", re.S)
        for file, text in heredoc.findall(section[1]):
            (tmp_path / file).write_text(text)
        lines = heredoc.sub("", section[1]).replace("\\\n", " ").splitlines()
        return [shlex.split(line, comments=True)[1:] for line in lines if line]

    yield read
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def test_the_order_of_actions_is_worth_what_a_reader_of_the_first_one_loses(
    commands: Commands, tmp_path: Path, arena_here: Any
) -> None:
    compare, evaluate, labelled = commands(
        "behaviour.md", "Does the order of the listed actions matter?"
    )
    done = arena_here(*compare, "-n", "60", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    records = json.loads(done.stdout)
    (row,) = (row for row in records if row["role"] == "difference")
    assert row["policy"] == "top_reader:top, shuffle=1 less top_reader:top"
    assert row["low"] > 0  # always passing is worse than an arbitrary action
    for words in (evaluate, labelled):
        words = [*words, "-n", "60", "--no-baselines", "--values", "none"]
        done = arena_here(*words, "--json", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        (row,) = (
            r
            for r in json.loads(done.stdout)["rows"]
            if r["role"] == "policy" and r["seat"] == 0
        )
        _, low, _, *_ = row["measures"]["choice_bias.0"]
        assert low > 0.4


def test_a_gambit_file_is_shown_solved_and_played(
    commands: Commands, tmp_path: Path, arena_here: Any
) -> None:
    show, pennies, entry, evaluate = commands(
        "own-game.md", "A game from a Gambit file"
    )
    for command, text in (
        (show, "Node 0 is player_0 at its decision 1: heads to node 1"),
        (evaluate, '"game": "tree-v0"'),
    ):
        options = ["--json"] if command is evaluate else []
        done = arena_here(*command, *options, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert text in done.stdout
    for command, values in ((pennies, [0, 0]), (entry, [2, 2])):
        done = arena_here(*command, "--json", cwd=tmp_path)
        assert json.loads(done.stdout)["values"] == pytest.approx(values, abs=1e-9)
