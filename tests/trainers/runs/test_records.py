"""What a run leaves about itself: metrics that survive a kill, and whose commit it was."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from arena_trainers.runs import read_metrics
from arena_trainers.runs.results.provenance import git_commit

LINE = json.dumps({"step": 1, "loss": 0.5}) + "\n"


@pytest.mark.parametrize("cut", ["", '{"step": 2, "lo', "\x00\x00"])
def test_a_last_line_that_was_cut_off_is_left_out(tmp_path, cut):
    path = tmp_path / "metrics.jsonl"
    path.write_text(2 * LINE + cut)
    assert [record["step"] for record in read_metrics(path)] == [1, 1]


def test_a_broken_line_of_metrics_is_named(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text(LINE + "{\n" + LINE)
    with pytest.raises(ValueError, match=r"metrics\.jsonl, line 2: want a JSON object"):
        read_metrics(path)


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_the_commit_is_of_the_package_and_not_of_the_folder_around_it(
    tmp_path, monkeypatch
):
    def git(*arguments):
        who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        done = subprocess.run(
            ["git", *who, *arguments], check=True, capture_output=True, cwd=tmp_path
        )
        return done.stdout.decode().strip()

    here = git_commit()
    monkeypatch.chdir(tmp_path)
    assert git_commit() == here
    git("init", "-q")
    source = tmp_path / "package" / "__init__.py"
    source.parent.mkdir()
    source.write_text("")
    git("commit", "-q", "--allow-empty", "-m", "of the user")
    assert git_commit(Path(source)) is None  # installed into somebody's repository
    git("add", ".")
    git("commit", "-q", "-m", "of the package")
    assert git_commit(source) == git("rev-parse", "HEAD")
