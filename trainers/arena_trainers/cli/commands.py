"""The commands of `arena`: one table, which the help reads without importing any of them.

The module of a command is imported when the command is used. Other distributions add commands by
the entry-point group `arena.commands`; the built-in ones come first.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint
from typing import Any, NamedTuple, cast

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from arena_envs.registry import installed

GROUP = "arena.commands"
CLI = "arena_trainers.cli"


class Command(NamedTuple):
    """A command of this distribution.

    Attributes:
        name: what follows `arena`.
        target: `module:name` in `arena_trainers.cli`: a function, or a `typer.Typer`.
        help: its line in `arena --help`, the first one of its own help.
    """

    name: str
    target: str
    help: str


COMMANDS = (
    Command("train", "train:train_app", "Train a language model by self-play."),
    Command(
        "sweep",
        "sweep:sweep_app",
        "Train with all combinations of options, and compare them over seeds.",
    ),
    Command("games", "games:list_games", "List all games."),
    Command(
        "show",
        "show:show_game",
        "Print the page of a game and a prompt of every player.",
    ),
    Command("check", "check:check", "Check that a game obeys the contract of games."),
    Command(
        "new-game",
        "new_game:new_game",
        "Write a small game with its page and its test, as a start for yours.",
    ),
    Command("eval", "evaluate:evaluate", "Measure a policy against opponents."),
    Command(
        "play",
        "play:play",
        "Play a game yourself, in the terminal or with --web in a browser.",
    ),
    Command(
        "replay",
        "replay:replay",
        "Replay recorded episodes: in the terminal, as a page, or as a picture.",
    ),
    Command(
        "report",
        "report:report",
        "Write a page about runs, an evaluation or a tournament: results, curves, replays.",
    ),
    Command(
        "watch",
        "watch:watch",
        "Watch a run while it trains: its report, live, in a browser or a terminal.",
    ),
    Command("data", "data:data", "Choose rows to train on from recorded episodes."),
    Command(
        "export",
        "export:export",
        "Write a trained model so that other programs load it: transformers, vLLM, llama.cpp.",
    ),
    Command(
        "solve",
        "solve:solve",
        "Solve a game exactly, if it is small enough to enumerate.",
    ),
    Command(
        "tournament",
        "tournament:tournament",
        "Rate policies that play against each other.",
    ),
    Command(
        "compare",
        "compare:compare",
        "Compare two policies on the same seeds and seats.",
    ),
    Command(
        "improve",
        "improve:improve",
        "Improve the text in a policy's prompts, without training.",
    ),
    Command(
        "attribute",
        "attribute:attribute",
        "Attribute the difference of two policies to seats, by Shapley values.",
    ),
    Command(
        "doctor",
        "doctor:doctor",
        "Check the installation and this machine, and say what to do about faults.",
    ),
    Command("serve", "serve:serve_app", "Play in a browser; serve games or models."),
    Command("credit", "credit:credit_app", "Check credit estimators, and choose one."),
    Command(
        "audit", "audit:audit_app", "Check anyone's credit or game against exact ones."
    ),
    Command(
        "board",
        "board:board_app",
        "Measure models on suites of games, in a form that anyone can verify.",
    ),
)


Target = Callable[..., None] | typer.Typer
Parser = TyperCommand | TyperGroup


class CommandTable(Mapping[str, Parser]):
    """The parsers of the commands by name; each is made when it is looked up."""

    def __init__(self) -> None:
        self._built_in = {command.name: command for command in COMMANDS}
        self._plugins: dict[str, EntryPoint] = {
            point.name: point
            for point in installed(GROUP, tuple(sys.path))
            if point.name not in self._built_in
        }
        self._parsers: dict[str, Parser] = {}

    def __iter__(self) -> Iterator[str]:
        return iter((*self._built_in, *self._plugins))

    def __len__(self) -> int:
        return len(self._built_in) + len(self._plugins)

    def __getitem__(self, name: str) -> Parser:
        if name not in self._parsers:
            self._parsers[name] = _parser(name, self._target(name))
        return self._parsers[name]

    def _target(self, name: str) -> Target:
        """The function or `typer.Typer` of a command, from its module."""
        if name in self._plugins:
            target: Target = self._plugins[name].load()
        else:
            module, _, attribute = self._built_in[name].target.partition(":")
            target = getattr(import_module(f"{CLI}.{module}"), attribute)
        return target

    def help_lines(self) -> dict[str, str]:
        """The line of each command in `arena --help`."""
        lines = {command.name: command.help for command in COMMANDS}
        for name, point in self._plugins.items():
            distribution = "a plug-in" if point.dist is None else point.dist.name
            lines[name] = f"A command of {distribution}."
        return lines


def _parser(name: str, target: Target) -> Parser:
    """The parser of a function or a `typer.Typer`."""
    if isinstance(target, typer.Typer):
        app = target
    else:
        app = typer.Typer(add_completion=False, rich_markup_mode=None)
        app.command(name)(target)
    parser = cast(Parser, get_command(app))
    parser.name = name
    return parser


class LazyCommands(TyperGroup):
    """A group whose commands are those of `CommandTable`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.table = CommandTable()
        self.commands: Any = self.table

    def get_command(self, ctx: Any, cmd_name: str) -> Parser | None:
        """The parser of a command; None if there is no such one."""
        # not `table.get`, which would hide a KeyError of the command's module
        return self.table[cmd_name] if cmd_name in {*self.table} else None

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of the commands, in the order of the table."""
        return list(self.table)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes the section of the help that lists the commands."""
        lines = self.table.help_lines()
        limit = formatter.width - 6 - max(map(len, lines))
        rows = [
            (name, TyperCommand(name, help=line).get_short_help_str(limit))
            for name, line in lines.items()
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
