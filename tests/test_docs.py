"""The generated pages under docs/ are up to date."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_pages_of_the_games_are_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "docs" / "build_games.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
