"""The table of the commands of `arena`, and commands of other distributions."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from arena_trainers.cli.commands import CLI, COMMAND_GROUPS, COMMANDS, WORDS_ELSEWHERE
from arena_trainers.cli.main import app

PLUGIN = """
import typer

dance_app = typer.Typer()

@dance_app.command()
def waltz(steps: int = 3) -> None:
    print("waltz", steps)

@dance_app.command()
def tango() -> None:
    print("tango")
"""


@pytest.fixture
def with_plugin(tmp_path: Path) -> Path:
    """A folder with a distribution that adds `arena dance`, and an `arena eval` of its own."""
    (tmp_path / "dancing.py").write_text(PLUGIN)
    info = tmp_path / "dancing-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: dancing\nVersion: 1.0")
    (info / "entry_points.txt").write_text(
        "[arena.commands]\ndance = dancing:dance_app\neval = dancing:waltz\n"
    )
    return tmp_path


def run_with(path: Path, *words: str) -> str:
    script = (
        f"import sys; sys.path.insert(0, {str(path)!r}); sys.argv = ['arena', *{words!r}]\n"
        "from arena_trainers.cli.main import main\n"
        "try: main()\n"
        "finally: print('dancing' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=path.parent
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_another_distribution_adds_a_command(with_plugin: Path) -> None:
    listing = run_with(with_plugin, "--help")
    assert "dancing" in listing.split("  dance ")[1].splitlines()[0]
    assert listing.endswith("False\n")  # the help does not import the plug-in
    assert run_with(with_plugin, "dance", "waltz", "--steps", "4") == "waltz 4\nTrue\n"


def test_a_built_in_command_is_not_replaced(with_plugin: Path) -> None:
    assert "POLICY" in run_with(with_plugin, "eval", "--help")


@pytest.fixture(scope="module")
def help_and_games() -> tuple[str, set[str], set[str]]:
    """What is printed, and the modules that are imported after the help and after `arena games`."""
    script = (
        "import sys\n"
        "from arena_trainers.cli.main import main\n"
        "for word in ('--help', 'games'):\n"
        "    sys.argv = ['arena', word]\n"
        "    try: main()\n"
        "    except SystemExit: pass\n"
        "    print(*sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    after_help, after_games = done.stderr.splitlines()
    return done.stdout, {*after_help.split()}, {*after_games.split()}


def test_help_imports_no_command(help_and_games) -> None:
    text, modules, _ = help_and_games
    targets = {f"{CLI}.{command.target.partition(':')[0]}" for command in COMMANDS}
    assert not modules & targets
    front = [command.name for command in COMMANDS if " " not in command.name]
    assert len(front) <= 15
    assert all(f"\n  {name} " in text for name in [*front, *COMMAND_GROUPS])


def test_a_command_without_values_imports_no_pydantic(help_and_games) -> None:
    text, _, modules = help_and_games
    assert "kuhn_poker-v0" in text
    assert f"{CLI}.games" in modules
    assert "pydantic" not in modules


def test_a_group_has_a_line_in_the_help_and_lists_its_commands() -> None:
    groups = {command.name.partition(" ")[0] for command in COMMANDS} & {
        *COMMAND_GROUPS
    }
    assert groups == {*COMMAND_GROUPS}
    listing = CliRunner().invoke(app, ["bench", "--help"]).output
    assert all(
        f"\n  {command.name.partition(' ')[2]} " in listing
        for command in COMMANDS
        if command.name.startswith("bench ")
    )


def test_words_of_others_are_commands_of_the_table() -> None:
    names = {command.name for command in COMMANDS}
    assert {*WORDS_ELSEWHERE.values()} <= names
    assert not {*WORDS_ELSEWHERE} & names


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_the_table_has_the_first_line_of_a_command(command) -> None:
    module, _, attribute = command.target.partition(":")
    target = getattr(import_module(f"{CLI}.{module}"), attribute)
    if command.name != "train":  # its help page is its own
        output = CliRunner().invoke(app, [*command.name.split(), "--help"]).output
        assert command.help in " ".join(output.split())
    if not isinstance(target, typer.Typer):
        assert target.__doc__.splitlines()[0] == command.help
