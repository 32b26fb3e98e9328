"""The commands of `arena`: one table, which the help reads without importing any of them.

A name of two words is of a group. The module of a command is imported when the command is used.
Other distributions add commands by the entry-point group `arena.commands`; the built-in ones come
first.
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
        name: what follows `arena`: a word, or a group and a word.
        target: `module:name` in `arena_trainers.cli`: a function, or a `typer.Typer`.
        help: its line in the list of commands, the first one of its own help.
    """

    name: str
    target: str
    help: str


COMMANDS = (
    Command("train", "train:train_app", "Train a language model by self-play."),
    Command("eval", "evaluate:evaluate", "Measure a policy against opponents."),
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
    Command(
        "solve",
        "solve:solve",
        "Solve a game exactly, if it is small enough to enumerate.",
    ),
    Command(
        "doctor",
        "doctor:doctor",
        "Check the installation and this machine, and say what to do about faults.",
    ),
    Command(
        "bench tournament",
        "tournament:tournament",
        "Rate policies that play against each other.",
    ),
    Command(
        "bench board",
        "board:board_app",
        "Measure models on suites of games, in a form that anyone can verify.",
    ),
    Command(
        "bench attribute",
        "attribute:attribute",
        "Attribute the difference of two policies to seats, by Shapley values.",
    ),
    Command(
        "bench sweep",
        "sweep:sweep_app",
        "Train with all combinations of options, and compare them over seeds.",
    ),
    Command(
        "data select", "data:data", "Choose rows to train on from recorded episodes."
    ),
    Command(
        "data export",
        "export:export",
        "Write a trained model so that other programs load it: transformers, vLLM, llama.cpp.",
    ),
    Command("credit check", "credit:check", "Check the claims of an estimator."),
    Command(
        "credit suggest",
        "credit:suggest",
        "Suggest the credit for some games, with the figures of the comparison.",
    ),
    Command(
        "credit audit",
        "audit:audit_credit",
        "Compare an advantage function with the exact policy gradient.",
    ),
    Command(
        "credit audit-game",
        "audit:audit_game",
        "Play two games side by side, and print the first difference with a script that shows it.",
    ),
    Command(
        "serve web",
        "serve:web",
        "Play any game in a browser, alone or with others by link.",
    ),
    Command(
        "serve policy",
        "serve_policy:policy",
        "Print the command of a vLLM server that generates for training.",
    ),
    Command("serve mcp", "serve:mcp", "Serve all games to agents as tools of MCP."),
    Command(
        "serve openenv",
        "serve:openenv",
        "Serve a game to OpenEnv's clients, with a page for people at /web.",
    ),
)

COMMAND_GROUPS = {
    "bench": "Compare many policies, models or settings: tournaments, boards, sweeps.",
    "data": "Choose rows to train on, and write models for other programs.",
    "credit": "Check credit estimators, and choose one.",
    "serve": "Play in a browser; serve games or models.",
}

# a word that some type behind `arena`, and the command that it stands for
WORDS_ELSEWHERE = {
    command.name.rpartition(" ")[2]: command.name
    for command in COMMANDS
    if " " in command.name
} | {"evaluate": "eval"}
del WORDS_ELSEWHERE["check"]  # also a command in front


Target = Callable[..., None] | typer.Typer
Parser = TyperCommand | TyperGroup


class CommandTable(Mapping[str, Parser]):
    """The parsers of the commands, or of a group's, by name; each is made when it is looked up."""

    def __init__(self, group: str = "") -> None:
        self._built_in = {
            command.name.rpartition(" ")[2]: command
            for command in COMMANDS
            if command.name.rpartition(" ")[0] == group
        }
        self._groups: Mapping[str, str] = {} if group else COMMAND_GROUPS
        self._plugins: dict[str, EntryPoint] = {}
        if not group:
            self._plugins = {
                point.name: point
                for point in installed(GROUP, tuple(sys.path))
                if point.name not in {**self._built_in, **self._groups}
            }
        self._parsers: dict[str, Parser] = {}

    def __iter__(self) -> Iterator[str]:
        return iter((*self._built_in, *self._plugins, *self._groups))

    def __len__(self) -> int:
        return len(self._built_in) + len(self._plugins) + len(self._groups)

    def __getitem__(self, name: str) -> Parser:
        if name not in self._parsers:
            if name in self._groups:
                self._parsers[name] = LazyCommands(
                    name=name,
                    help=self._groups[name],
                    table=CommandTable(name),
                    no_args_is_help=True,
                    rich_markup_mode=None,
                )
            else:
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

    def help_lines(self) -> dict[str, dict[str, str]]:
        """The lines of the help: by title, the line of each command."""
        lines = {name: command.help for name, command in self._built_in.items()}
        for name, point in self._plugins.items():
            distribution = "a plug-in" if point.dist is None else point.dist.name
            lines[name] = f"A command of {distribution}."
        if not self._groups:
            return {"Commands": lines}
        return {"Commands": lines, "Groups of commands": dict(self._groups)}


def _parser(name: str, target: Target) -> Parser:
    """The parser of a function or a `typer.Typer`."""
    if isinstance(target, typer.Typer):
        app = target
    else:
        app = typer.Typer(add_completion=False, rich_markup_mode=None)
        app.command(name, cls=OneCommand)(target)
    parser = cast(Parser, get_command(app))
    parser.name = name
    return parser


def _without_pydantic(help_option: Any) -> Any:
    """The option `--help`, False where it is left out.

    Typer reads None with pydantic, whose import takes a quarter of the time of a small command.
    """
    if help_option is not None:
        help_option.default = False
    return help_option


class OneCommand(TyperCommand):
    """A command that is a function."""

    def get_help_option(self, ctx: Any) -> Any:
        return _without_pydantic(super().get_help_option(ctx))


class LazyCommands(TyperGroup):
    """A group whose commands are those of a `CommandTable`."""

    def __init__(self, table: CommandTable | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.table = CommandTable() if table is None else table
        self.commands: Any = self.table

    def get_help_option(self, ctx: Any) -> Any:
        return _without_pydantic(super().get_help_option(ctx))

    def get_command(self, ctx: Any, cmd_name: str) -> Parser | None:
        """The parser of a command; None if there is no such one."""
        # not `table.get`, which would hide a KeyError of the command's module
        return self.table[cmd_name] if cmd_name in {*self.table} else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command of the first word; an error names the word that was meant."""
        word = args[0]
        if ctx.parent is None and word not in {*self.table} and word in WORDS_ELSEWHERE:
            ctx.fail(
                f"No such command {word!r}. Did you mean: arena {WORDS_ELSEWHERE[word]}?"
            )
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of the commands, in the order of the table."""
        return list(self.table)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes the sections of the help that list the commands."""
        sections = self.table.help_lines()
        limit = formatter.width - 6 - max(map(len, self.table))
        for title, lines in sections.items():
            rows = [
                (name, TyperCommand(name, help=line).get_short_help_str(limit))
                for name, line in lines.items()
            ]
            with formatter.section(title):
                formatter.write_dl(rows)
