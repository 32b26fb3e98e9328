"""`arena games`, `show`, `check` and `new-game`, called as a user would."""

import contextlib
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import arena_envs
from arena_envs.registry import find_modules_here
from arena_trainers.cli.games import ROWS, game_row
from arena_trainers.cli.new_game import write_skeleton
from arena_trainers.train import GamePlan
from arena_wrappers import Episode, replay


def arena(*arguments: str, path: Path) -> subprocess.CompletedProcess[str]:
    """Runs the command, with `path` first in the import path."""
    command = [sys.executable, "-m", "arena_trainers", *arguments]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(path), *sys.path])}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


def test_games_are_listed_for_machines(arena_here: Any) -> None:
    rows = json.loads(arena_here("games", "--json").stdout)
    assert [row["id"] for row in rows] == [info.id for info in arena_envs.game_infos()]
    (kuhn,) = (row for row in rows if row["id"] == "kuhn_poker-v0")
    prompt = kuhn.pop("prompt")
    assert 600 < prompt < 800
    assert kuhn == {
        "id": "kuhn_poker-v0",
        "kind": "competitive",
        "players": 2,
        "information": "imperfect",
        "split": "train",
        "pays": "end",
        "longest": 3,
    }


def test_the_list_is_that_of_the_games() -> None:
    rows = [game_row(info) for info in arena_envs.game_infos()]
    assert json.loads(ROWS.read_text()) == rows, "docs/build_games.py --write"


def without_extras(folder: Path) -> None:
    hidden = "import sys; sys.modules['chess'] = None"
    (folder / "sitecustomize.py").write_text(hidden)


def test_games_lists_every_game_and_says_whose_extra_is_missing(tmp_path: Path) -> None:
    without_extras(tmp_path)
    done = arena("games", path=tmp_path)
    assert done.returncode == 0, done.stderr
    for info in arena_envs.game_infos():
        assert info.id in done.stdout
    assert (
        done.stdout.splitlines()[-1]
        == "-: not installed; install it in a clone of arena-envs: pip install '.[chess]'"
    )


@pytest.mark.slow
def test_games_without_numbers_are_listed_with_all_others(tmp_path: Path) -> None:
    """Those whose extra is missing, and a broken one of a plug-in, which is named."""
    without_extras(tmp_path)
    (tmp_path / "mine.py").write_text(
        "from arena_envs.games.kuhn_poker import KuhnPoker\n"
        "class Mute(KuhnPoker):\n"
        "    def rules(self, seat):\n"
        "        raise RuntimeError('no words')\n"
    )
    about = tmp_path / "mine-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[arena.games]\nmute = mine:Mute\n")
    done = arena("games", "--json", path=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "game 'mute-v0' of plug-in 'mine': RuntimeError: no words" in done.stderr
    rows = {row["id"]: row["prompt"] for row in json.loads(done.stdout)}
    assert rows["mute-v0"] is None
    infos = arena_envs.game_infos()
    assert rows.keys() == {info.id for info in infos} | {"mute-v0"}
    missing = {info.id for info in infos if info.extra} | {"mute-v0"}
    assert {id for id, prompt in rows.items() if prompt is None} == missing


def test_show_prints_the_page_and_the_prompt_of_every_seat(arena_here: Any) -> None:
    page = arena_here("show", "kuhn_poker", "-p", "num_players=3").stdout
    assert page.startswith("# Kuhn poker\n\nThe smallest poker with bluffing")
    assert "\nIds: `kuhn_poker-v0`. Pays at the end.\n" in page
    assert "| Known value |" in page
    assert "\nIn `KuhnPoker(num_players=3)`:\n" in page
    for seat in range(3):
        assert f"`player_{seat}`:" in page
        assert f"You are player_{seat} and hold" in page


def test_the_page_of_a_transform_tells_its_own_facts(arena_here: Any) -> None:
    page = arena_here("show", "match:2(kuhn_poker)").stdout
    rows = dict(re.findall(r"^\| (\w[\w ]*?) +\| (.*?) +\|$", page, re.MULTILINE))
    assert rows["Create"] == '`arena_envs.make("match:2(kuhn_poker-v0)")`'
    assert rows["Length"] == "at most 6 turns of all seats"
    assert rows["Known value"] == "0 for both players"
    page = arena_here("show", "misere(nim)", "-p", "pile_sizes=[2,3]").stdout
    command = re.search(r"Inner game +\| Nim: `arena (.*?)`", page)
    assert command
    assert (
        "sizes of the piles at the start are 2, 3"
        in arena_here(*shlex.split(command[1])).stdout
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder; modules that are imported from it are forgotten."""
    monkeypatch.setattr(sys, "path", sys.path.copy())
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def test_a_skeleton_passes_its_test_and_the_check(
    folder: Path, arena_here: Any
) -> None:
    done = arena_here("new-game", "capture_the_hill", cwd=folder)
    assert done.stdout.splitlines()[-2:] == [
        "check it with: arena check capture_the_hill:CaptureTheHill",
        "play it with: arena play capture_the_hill:CaptureTheHill",
    ]
    name = "capture_the_hill:CaptureTheHill"
    done = arena_here("check", name, "-p", "target=7", cwd=folder)
    assert done.stdout == ("CaptureTheHill(target=7, max_step=2) keeps the contract\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    tested = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False
    )
    assert " passed" in tested.stdout, tested.stdout
    assert tested.returncode == 0, tested.stdout


@pytest.mark.parametrize(
    "options",
    ["--hidden", "--talk --players 3", "--hidden --talk --players 4", "--players 3"],
)
def test_a_skeleton_of_every_kind_keeps_the_contract_and_plays(
    options: str, folder: Path, arena_here: Any
) -> None:
    arena_here("new-game", "table", *options.split(), cwd=folder)
    done = arena_here("check", "table:Table", "-n", "4", cwd=folder)
    assert done.stdout.endswith(" keeps the contract\n"), done.stderr
    assert ("max_message" in done.stdout) == ("--talk" in options)
    assert done.stderr == ""  # it has a page
    command = ("eval", "random", "table:Table", "-n", "1", "--no-baselines")
    assert arena_here(*command, cwd=folder).returncode == 0
    sys.path.insert(0, str(folder))
    tests = runpy.run_path(str(folder / "test_table.py"))
    tests["test_the_highest_card_never_loses_by_staying"]()


def test_a_skeleton_overwrites_nothing(tmp_path: Path, arena_here: Any) -> None:
    (tmp_path / "test_mine.py").write_text("kept")
    done = arena_here("new-game", "mine", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "error: test_mine.py exists; give another name or --out\n"
    assert [path.name for path in tmp_path.iterdir()] == ["test_mine.py"]
    assert (tmp_path / "test_mine.py").read_text() == "kept"


def test_a_broken_rule_is_one_sentence_and_status_1(
    folder: Path, arena_here: Any
) -> None:
    (folder / "loaded.py").write_text(
        "from arena_envs.games.kuhn_poker import KuhnPoker\n"
        "class Loaded(KuhnPoker):\n"
        "    def chance_outcomes(self, state):\n"
        "        return super().chance_outcomes(state)[:-1]\n"
    )
    done = arena_here("check", "loaded:Loaded", cwd=folder)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith(
        "Loaded(num_players=2) breaks a rule: probabilities of chance outcomes sum to 1"
    )
    assert len(done.stderr.splitlines()) == 1


def test_a_plug_in_without_a_page_passes_with_a_warning(tmp_path: Path) -> None:
    (tmp_path / "bare.py").write_text(
        "from arena_envs.games.kuhn_poker import KuhnPoker\n"
        "class Bare(KuhnPoker):\n"
        "    pass\n"
    )
    done = arena("check", "bare:Bare", path=tmp_path)
    assert done.returncode == 0
    assert done.stdout == "Bare(num_players=2) keeps the contract\n"
    assert done.stderr.startswith(
        "warning: Bare(num_players=2) has no page for `arena show`: the module"
    )
    assert len(done.stderr.splitlines()) == 1
    assert "needs_page" not in done.stderr  # which the command does not have


@pytest.fixture
def own_game(folder: Path) -> Path:
    """A folder with a new game, `sheep:Sheep`; it is not in the import path."""
    write_skeleton("sheep", folder)
    return folder


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "sheep:Sheep"),
        ("show", "sheep:Sheep"),
        ("solve", "sheep:Sheep"),
        ("eval", "random", "sheep:Sheep", "-n", "1", "--no-baselines"),
        (
            "bench",
            "tournament",
            "random",
            "first",
            "-g",
            "sheep:Sheep",
            "-n",
            "1",
            "--out",
            "t",
        ),
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_command_takes_a_class_of_the_working_directory_as_game(
    arguments: tuple[str, ...], own_game: Path, arena_here: Any
) -> None:
    done = arena_here(*arguments, cwd=own_game)
    assert done.returncode == 0, done.stderr
    assert "sheep" in done.stdout.lower()


def test_training_takes_a_class_as_game(own_game: Path) -> None:
    args: Any = SimpleNamespace(opponents="self", prompt_options={})
    with contextlib.chdir(own_game):
        find_modules_here()
        plan = GamePlan("sheep:Sheep", args)
    assert (plan.name, plan.env_fn().env.id) == ("sheep:Sheep", "sheep:Sheep")


def test_an_episode_of_a_class_replays_by_its_name(
    own_game: Path, arena_here: Any
) -> None:
    command = ("eval", "random", "sheep:Sheep", "-n", "1", "--out", "e.jsonl")
    assert arena_here(*command, "--no-baselines", cwd=own_game).returncode == 0
    line = (own_game / "e.jsonl").read_text().splitlines()[0]
    episode = Episode.from_json(line)
    assert episode.game == "sheep:Sheep"
    assert replay(episode) == episode


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["show", "kuhn_pokr"], "unknown game 'kuhn_pokr'; did you mean"),
        (["show", "kuhn_poker", "-p", "x"], "want a parameter as NAME=VALUE, got 'x'"),
        (["check", "no_such_module:Game"], "want a game as 'module:Class', got 'no_"),
        (["check", "json:Nothing"], "want a game as 'module:Class', got 'json:N"),
        (["check", "json:loads"], "want a game as 'module:Class', got 'json:l"),
        (["check", "kuhn_poker", "-p", "num_players=9"], "want an integer num_players"),
        (
            ["new-game", "My Game"],
            "want a name in snake_case, such as my_game, got 'My Game'",
        ),
        (
            ["new-game", "class"],
            "want a name in snake_case, such as my_game, got 'class'",
        ),
        (["new-game", "random"], "'random' is a name of Python or of the skeleton"),
        (["new-game", "state"], "'state' is a name of Python or of the skeleton"),
        (["show", "nim", "-p", "id=3"], "want a parameter as NAME=VALUE, got 'id=3'"),
    ],
)
def test_mistakes_are_one_sentence_and_status_2(
    tmp_path: Path, arguments: list[str], sentence: str, arena_here: Any
) -> None:
    done = arena_here(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {sentence}")
    assert len(done.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir())
