"""Every registered game has a golden playthrough, and still plays like it."""

import re
import runpy
import tomllib
from pathlib import Path

import pytest

from arena_envs import game as rules_of_all

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


def test_each_text_of_the_rules_is_one_that_a_game_names() -> None:
    folder = Path(rules_of_all.__file__).parent / "games"
    texts = tomllib.loads((folder / "rules.toml").read_text("utf-8"))
    source = "".join(file.read_text("utf-8") for file in folder.rglob("*.py"))
    named = {*re.findall(r'"([a-z_]+)"', source)}
    built = tuple(re.findall(r'filled\(f"([a-z_]+)\{', source))  # by a parameter
    assert [n for n in texts if n not in named and not n.startswith(built)] == []
