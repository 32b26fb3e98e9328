"""`make adapters` runs every framework."""

import runpy
import subprocess
from pathlib import Path

script = runpy.run_path(str(Path(__file__).with_name("run.py")))


def test_frameworks_after_one_that_fails_are_run() -> None:
    ran = []

    def run(name: str) -> None:
        ran.append(name)
        if name == "red":
            raise script["Failed"]("its tests failed: see above")
        if name == "broken":
            subprocess.run(["false"], check=True)

    failed = script["failures"](["red", "broken", "green"], run)
    assert ran == ["red", "broken", "green"]
    assert failed == {
        "red": "its tests failed: see above",
        "broken": "Command '['false']' returned non-zero exit status 1.",
    }
