"""One word for one thing in the options of all commands."""

import subprocess
import sys

import pytest
import typer

from arena_trainers.cli.main import app

WORDS = {"-g": "--games", "-n": "--episodes", "-a": "--against", "-p": "--param"}
GONE = {"--game", "--num-episodes", "--opponent", "--output", "--policy"}


def commands(group, path=()):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


COMMANDS = dict(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("name", COMMANDS)
def test_a_letter_and_a_word_mean_the_same_in_every_command(name):
    for option in COMMANDS[name].params:
        words = {*option.opts}
        assert not words & GONE
        for letter, word in WORDS.items():
            assert (letter in words) == (word in words), words


@pytest.mark.parametrize("line", [["--max_turns", "3"], ["--max-turns", "3"]])
def test_underscores_and_hyphens_are_alike(arena_here, line):
    done = arena_here("eval", "random", "nim", "-n", "2", "--no_baselines", *line)
    assert done.returncode == 0, done.stderr


def test_games_are_given_by_commas_or_again(arena_here, tmp_path):
    words = [
        "bench",
        "tournament",
        "random",
        "first",
        "-n",
        "1",
        "--out",
        tmp_path / "a",
    ]
    done = arena_here(*words, "--games", "nim,kuhn_poker(num_players=2)", "-g", "hex")
    assert done.returncode == 0, done.stderr
    assert all(game in done.stdout for game in ("nim", "kuhn_poker", "hex"))


@pytest.mark.parametrize(
    ("old", "new"), [("--game", "--games"), ("--episode", "--episodes")]
)
def test_an_old_or_misspelt_word_is_told_with_the_right_one(arena_here, old, new):
    done = arena_here(
        "bench", "tournament", "random", "first", old, "nim", "--out", "t"
    )
    assert done.returncode == 2
    assert new in done.stderr


def test_a_warning_is_a_line_without_the_place_in_the_code(tmp_path):
    mine = "import warnings\nwarnings.warn('top_k cuts replies', stacklevel=1)\n"
    (tmp_path / "mine.py").write_text(mine)
    command = [sys.executable, "-m", "arena_trainers", "check", "mine:Game"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.stderr.splitlines()[0] == "warning: top_k cuts replies"
