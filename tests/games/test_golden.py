"""Every registered game has a golden playthrough, and still plays like it."""

import runpy
from pathlib import Path

import pytest

golden = runpy.run_path(str(Path(__file__).with_name("golden.py")))
IDS = golden["own_ids"]()
WRITE = "read the diff of: python tests/games/golden.py --write"


@pytest.mark.parametrize("id", IDS)
def test_a_game_plays_like_its_golden_file(id: str) -> None:
    path = golden["path"](id)
    assert path.exists(), f"{path.name} is missing; {WRITE} {id}"
    written = path.read_text(encoding="utf-8").splitlines()
    assert golden["playthrough"](id).splitlines() == written, f"{WRITE} {id}"


def test_no_golden_file_is_without_a_game() -> None:
    assert {path.stem for path in golden["FOLDER"].glob("*.txt")} == set(IDS)
