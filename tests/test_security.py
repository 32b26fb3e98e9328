"""SECURITY.md: a test stands beside each guarantee."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROWS = [
    line.strip("| ").split(" | ")
    for line in (ROOT / "SECURITY.md").read_text("utf-8").splitlines()
    if line.startswith("|") and not re.match(r"\|(---| Input )", line)
]


def test_there_are_guarantees():
    assert len(ROWS) > 20


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_a_guarantee_has_a_test(row):
    _, _, named = row
    found = re.fullmatch(r"`(tests/[\w/]+\.py)::(test_\w+)`", named)
    assert found, f"want `tests/FILE.py::test_name`, got {named}"
    text = (ROOT / found[1]).read_text("utf-8")
    assert re.search(rf"def {found[2]}\(", text), f"there is no test {found[2]}"
