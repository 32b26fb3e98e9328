"""Arguments and options that commands share, their output: tables, files, errors, exit statuses."""

import csv
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from rich.console import Group
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

import arena_envs
from arena_envs import GameEnv
from arena_envs.checks import check_known
from arena_envs.doors import expression, split
from arena_trainers.finite import Diverged
from arena_trainers.lm.models import adapter_base, find_model
from arena_trainers.matchmaking import is_past
from arena_trainers.terminal import Console
from arena_wrappers import NoReplyError, Policy, make_policy
from arena_wrappers.policies import check_names_game, names_person, wrapped
from arena_wrappers.prompts import PROMPT_OPTIONS


class UsageError(Exception):
    """The command line cannot be carried out; the message says why in one sentence."""


@contextmanager
def usage_errors() -> Iterator[None]:
    """Turns errors in arguments into `UsageError`, which is printed without traceback."""
    try:
        yield
    except (ModuleNotFoundError, BrokenPipeError):
        raise
    except (ValueError, OSError, ImportError) as error:
        raise UsageError(" ".join(str(error).split())) from error


def terminal_width() -> int | None:
    """Columns of the terminal; None if the output is a pipe or a file."""
    console = Console()
    return console.width if console.is_terminal else None


def print_tables(tables: Iterable[Table]) -> None:
    """Prints tables: drawn on a terminal, else with tabs between cells."""
    console = Console()
    for table in tables:
        if console.is_terminal:
            console.print(drawn(table))
        else:
            typer.echo(plain(table))


def show(
    form: str,
    document: Any,
    records: Sequence[Mapping[str, Any]],
    tables: Callable[[int | None], list[Table]],
) -> None:
    """Prints results in a form of `one_form`; `tables` takes the terminal's width."""
    if form == "json":
        typer.echo(json.dumps(document, indent=1))
    elif form == "csv":
        _print_csv(records)
    elif form == "latex":
        typer.echo("\n\n".join(map(latex, tables(None))))
    else:
        print_tables(tables(terminal_width()))


def _print_csv(records: Sequence[Mapping[str, Any]]) -> None:
    """Prints a line for each record, with the names of all columns in the first."""
    names = dict.fromkeys(name for record in records for name in record)
    writer = csv.DictWriter(sys.stdout, [*names], lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)


def one_form(**given: bool) -> str:
    """The form of output that was asked for; empty for tables.

    Raises:
        ValueError: several forms; names them.
    """
    chosen = [name for name, is_given in given.items() if is_given]
    if len(chosen) > 1:
        names = " and ".join(f"--{name}" for name in chosen)
        raise ValueError(f"want one form of output, got {names}")
    return chosen[0] if chosen else ""


def latex(table: Table) -> str:
    r"""A table for LaTeX, which needs the package booktabs.

    >>> table = Table("seat", "won", title="kuhn_poker")
    >>> table.add_row("0", "50%")
    >>> print(latex(table).splitlines()[4])
    seat & won \\
    """
    heads = [_text(column.header) for column in table.columns]
    rows = zip(*(map(_text, column.cells) for column in table.columns), strict=True)
    lines = [" & ".join(map(_for_latex, cells)) + r" \\" for cells in (heads, *rows)]
    sides = "".join("r" if c.justify == "right" else "l" for c in table.columns)
    notes = [_text(part) for part in (table.title, table.caption) if part]
    return "\n".join(
        [
            r"\begin{table}",
            rf"\caption{{{_for_latex('. '.join(notes))}}}",
            rf"\begin{{tabular}}{{{sides}}}",
            r"\toprule",
            lines[0],
            r"\midrule",
            *lines[1:],
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
        ]
    )


def _for_latex(text: str) -> str:
    text = text.replace("\\", r"\textbackslash ")
    text = re.sub(r"([&%$#_{}])", r"\\\1", text)
    text = text.replace("~", r"\textasciitilde ").replace("^", r"\textasciicircum ")
    return re.sub(r"(?<![\w-])-(?=\d)", "$-$", text)


def drawn(table: Table) -> Group:
    """A table with its title above and its caption below, which may be wider."""
    bare = copy(table)
    bare.title = bare.caption = None
    title = [_part(table.title, "table.title")] if table.title else []
    caption = [_part(table.caption, "table.caption")] if table.caption else []
    return Group(*title, bare, *caption, "")


def _part(text: Any, style: str) -> Text:
    return Text("\n".join(_lines(text)), style)


def plain(table: Table) -> str:
    """A table as text: a line for the title, the headers, each row and line of caption.

    >>> table = Table("seat", "plays", title="kuhn_poker")
    >>> table.add_row("0", "bet")
    >>> print(plain(table).expandtabs(6))
    # kuhn_poker
    seat  plays
    0     bet
    """
    heads = [_text(column.header) for column in table.columns]
    rows = zip(*(map(_text, column.cells) for column in table.columns), strict=True)
    lines = ["\t".join(cells) for cells in (heads, *rows)]
    title = [f"# {_text(table.title)}"] if table.title else []
    caption = [f"# {line}" for line in _lines(table.caption or "")]
    return "\n".join([*title, *lines, *caption])


def _text(cell: Any) -> str:
    return "; ".join(_lines(cell))


def _lines(cell: Any) -> list[str]:
    return str(cell).splitlines()


@contextmanager
def running(
    advice: str | Callable[[], str],
    doing: str = "playing",
    *,
    policies: Iterable[str] = (),
) -> Iterator[Callable[[int, int], None]]:
    """Shows a progress bar on stderr, if it is a terminal, and reports interruptions.

    Ctrl-C prints the advice and exits with status 130; an OSError, such as a full disk,
    a NoReplyError or a model that has diverged with status 1.

    Args:
        advice: a clause that says what was kept, and what to do, or a function that gives it.
        doing: label of the bar.
        policies: strings of those who play; a person types, so that there is no bar.

    Yields:
        A function that takes the numbers of steps done and in all.
    """
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    is_hidden = not console.is_terminal or any(map(names_person, policies))
    with (
        interruptions(advice),
        Progress(*columns, console=console, transient=True, disable=is_hidden) as bar,
    ):
        task = bar.add_task(doing, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def interruptions(advice: str | Callable[[], str]) -> Iterator[None]:
    """Reports interruptions as `running` does, without a progress bar."""
    clause = (lambda: advice) if isinstance(advice, str) else advice
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(f"\nstopped; {clause()}", err=True)
        raise typer.Exit(130) from None
    except (OSError, NoReplyError, Diverged) as error:
        typer.echo(f"error: {error}; {clause()}", err=True)
        raise typer.Exit(1) from error


def check_out(out: Path, marks: Sequence[bytes], command: str) -> None:
    """Refuses to overwrite anything but what an earlier call wrote.

    Args:
        out: the file to write.
        marks: what files of its kind that are ours hold, the first of them at their start.
        command: what writes such files, such as `arena replay`.

    Raises:
        ValueError: OUT cannot be written, or is a file of somebody else.
    """
    if not out.exists():
        if not out.parent.is_dir():
            raise ValueError(
                f"no folder {str(out.parent)!r}; make it, or give another OUT"
            )
        return
    if not out.is_file():
        raise ValueError(f"want a file to write, got {out}; give another OUT")
    old = out.read_bytes()
    if old and not (old.startswith(marks[0]) and all(mark in old for mark in marks)):
        raise ValueError(
            f"{out} exists and was not written by {command}; give another OUT"
        )


def listed(values: list[str] | None) -> list[str] | None:
    """The items of a repeatable option, in which commas separate items, too."""
    try:
        return values and [item for value in values for item in split(value)]
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def read_env(game: str, params: list[str] | None, max_turns: int | None) -> GameEnv:
    """The environment that a command's GAME, --param and --max-turns name.

    Raises:
        ValueError: there is no such game, or it does not take a parameter.
    """
    check_names_game(game)
    limit = {} if max_turns is None else {"max_turns": max_turns}
    return arena_envs.make(game, **{**read_params(params), **limit})


def wanted_folder(out: Path | None) -> Path:
    """The folder of `--out`; raises ValueError without one."""
    if out is None:
        raise ValueError("want --out DIR, the folder of the results; add --out runs/a")
    return out


def read_envs(
    games: Sequence[str], params: list[str] | None, max_turns: int | None = None
) -> list[GameEnv]:
    """The environments of several games; NAME=VALUE is for all, GAME.NAME=VALUE for one.

    Raises:
        ValueError: as for `read_env`, GAME is none of these, or a game is named twice.
    """
    own: dict[str, list[str]] = {game: [] for game in games}
    for param in params or []:
        name, _, value = param.partition("=")
        game, is_one, name = name.rpartition(".")
        if is_one and game not in own:
            raise ValueError(
                f"want GAME.NAME=VALUE with a game among {', '.join(games)}, got "
                f"{param!r}"
            )
        for one in [game] if is_one else own:
            own[one].append(f"{name}={value}" if is_one else param)
    try:
        found = [read_env(game, own[game], max_turns) for game in games]
    except ValueError as error:
        if not params or len(games) == 1:
            raise
        raise ValueError(f"{error}; GAME.NAME=VALUE sets it in one game") from error
    for number, env in enumerate(found):
        if (env.id, env.game) in [(one.id, one.game) for one in found[:number]]:
            raise ValueError(f"want each game once, got {env.id} twice; leave one out")
    return found


def read_params(params: list[str] | None) -> dict[str, Any]:
    """Parameters of a game; values are read as YAML.

    Raises:
        ValueError: one is not NAME=VALUE.

    >>> read_params(["num_players=3", "preset=chicken"])
    {'num_players': 3, 'preset': 'chicken'}
    """
    named = {}
    for param in params or []:
        name, found, value = param.partition("=")
        if not found or name == "id":  # `arena_envs.make` has a parameter `id`
            raise ValueError(f"want a parameter as NAME=VALUE, got {param!r}")
        try:
            named[name] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise ValueError(
                f"want YAML as value of {name!r}, got {value!r}"
            ) from error
    return named


# arguments and options that several commands share
ParamOption = Annotated[
    list[str] | None,
    typer.Option(
        "--param",
        "-p",
        metavar="NAME=VALUE",
        help="Game parameter; repeatable. With several games also GAME.NAME=VALUE.",
    ),
]
GameArgument = Annotated[str, typer.Argument(metavar="GAME")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
AgainstOption = Annotated[
    list[str] | None,
    typer.Option("--against", "-a", metavar="POLICY", help="Opponent; repeatable."),
]
TimeoutOption = Annotated[
    float | None, typer.Option(help="Longest call of a policy, in seconds.")
]
MaxTurnsOption = Annotated[
    int | None,
    typer.Option(help="Truncate episodes after this many turns of all seats.", min=1),
]
SuiteOption = Annotated[
    str,
    typer.Option(
        metavar="SUITE", help="standard, small, mars, gtbench, or a YAML file."
    ),
]
HostOption = Annotated[
    str, typer.Option(help="Address to listen at; clients need no key.")
]
PortOption = Annotated[int, typer.Option(help="Port to listen at.")]
PolicyArgument = Annotated[str, typer.Argument(metavar="POLICY")]
SeedOption = Annotated[int, typer.Option(help="Seed of the first episode.")]
EpisodesOption = Annotated[
    Path | None, typer.Option(help="Append the episodes to this file.")
]
CsvOption = Annotated[
    bool, typer.Option("--csv", help="Print CSV, a line for each row.")
]
LatexOption = Annotated[
    bool, typer.Option("--latex", help="Print tables for LaTeX, with booktabs.")
]
FilesArgument = Annotated[list[Path], typer.Argument(metavar="FILE...")]
AllowCodeOption = Annotated[
    bool,
    typer.Option(
        "--allow-code",
        help="The files may name code, files and searches of any length: only if you trust their authors.",
    ),
]

SAMPLING = ("max_new_tokens", "temperature")  # arguments of `LMPolicy`


@dataclass(frozen=True)
class PolicyOptions:
    """Options that a command was given; None keeps the policy's own."""

    reply_format: Annotated[
        str | None,
        typer.Option(
            help="answer, boxed, bracket or bare; by default the policy's own."
        ),
    ] = None
    rules: Annotated[
        bool | None, typer.Option(help="Whether prompts tell the rules.")
    ] = None
    show_legal_actions: Annotated[
        bool | None, typer.Option(help="Whether prompts list the legal actions.")
    ] = None
    history: Annotated[
        str | None,
        typer.Option(help="state, or transcript for the whole conversation."),
    ] = None
    parsing: Annotated[
        str | None, typer.Option(help="How replies are read: tolerant or strict.")
    ] = None
    persona: Annotated[
        str | None, typer.Option(help="Who the player is, in a sentence of its prompt.")
    ] = None
    language: Annotated[
        str | None, typer.Option(help="Language of the prompts: en, de, es or zh.")
    ] = None
    on_invalid: Annotated[
        str,
        typer.Option(help="What follows an invalid reply: forfeit, retry or random."),
    ] = "forfeit"
    max_retries: Annotated[
        int, typer.Option(help="Retries per turn with --on-invalid retry.", min=0)
    ] = 2
    max_new_tokens: Annotated[
        int | None,
        typer.Option(help="Longest reply of language models, in tokens.", min=1),
    ] = None
    temperature: Annotated[
        float | None,
        typer.Option(help="Sampling temperature of language models.", min=0),
    ] = None

    @property
    def prompt(self) -> dict[str, Any]:
        """The prompt options that were given.

        >>> PolicyOptions(rules=False).prompt
        {'rules': False}
        """
        return self._given(PROMPT_OPTIONS)

    @property
    def sampling(self) -> dict[str, Any]:
        """The arguments of `LMPolicy` that were given."""
        return self._given(SAMPLING)

    @property
    def wrapper(self) -> dict[str, Any]:
        """Arguments of the `PromptWrapper`.

        Raises:
            ValueError: `on_invalid` is unknown.
        """
        told = f"unknown --on-invalid {self.on_invalid!r}"
        check_known(self.on_invalid, ("forfeit", "retry", "random"), told)
        referee = {"on_invalid": self.on_invalid, "max_retries": self.max_retries}
        return {**self.prompt, **referee}

    def policies(self, specs: Sequence[str]) -> list[Policy | str]:
        """The policies of these strings, with the sampling options applied.

        They apply to `lm:`, `past:`, `api:` and `vllm:` policies. Without sampling options the
        others are the strings themselves, for `make_policy`. `past:RUN` gives a policy for
        each snapshot of the run.

        Raises:
            ValueError: none of the policies is a language model, or a folder has no model.
        """
        for spec in specs:
            check_models(spec)  # before torch is imported, which takes seconds
        given: list[Policy | str] = []
        for spec in specs:
            if is_past(spec):
                from arena_trainers.matchmaking.snapshots import (
                    past_policies,  # needs torch
                )

                given += past_policies(spec, **self.sampling)
            else:
                given.append(spec)
        if not self.sampling:
            return given
        models = [spec for spec in specs if is_past(spec)]
        makers = self._makers(models)
        made = [
            make_policy(p, makers) if isinstance(p, str) and p != "self" else p
            for p in given
        ]
        if not models:
            names = " and ".join(
                f"--{name.replace('_', '-')}" for name in self.sampling
            )
            raise ValueError(
                f"{names} needs a policy lm:PATH, api:MODEL or vllm:URL, got "
                f"{', '.join(specs)}; leave it out"
            )
        return made

    def _makers(self, models: list[str]) -> dict[str, Callable[[str], Policy]]:
        """Makers of policies with the sampling options; they note language models in `models`."""

        def load(path: str) -> Policy:
            from arena_trainers.lm.policy import LMPolicy

            models.append(path)
            return LMPolicy.from_pretrained(path, **self.sampling)

        def served(module: str) -> Callable[[str], Policy]:
            def load(argument: str) -> Policy:
                models.append(argument)
                given = self.sampling
                if "max_new_tokens" in given:
                    given["max_tokens"] = given.pop("max_new_tokens")
                policy: Policy = import_module(module).load(argument, **given)
                return policy

            return load

        return {
            "lm": load,
            "api": served("arena_wrappers.policies.api"),
            "vllm": served("arena_trainers.lm.vllm_policy"),
        }

    def _given(self, names: Sequence[str]) -> dict[str, Any]:
        values = {name: getattr(self, name, None) for name in names}
        return {name: value for name, value in values.items() if value is not None}


def check_models(spec: str) -> None:
    """Raises ValueError if a model that a policy string names, at any depth, does not exist."""
    if not re.search(r"\blm:", spec):
        return
    one = expression(spec)
    if one.name == "lm" and one.argument:
        find_model(adapter_base(one.argument) or one.argument)
    for inner in (*one.inner, *one.options.values()):
        if isinstance(inner, str):
            check_models(inner)


def group(name: str, text: str, **options: Any) -> typer.Typer:
    """A group of commands."""
    return typer.Typer(name=name, no_args_is_help=True, help=text, **options)


def with_policy_options(function: Callable[..., None]) -> Callable[..., None]:
    """A command whose parameter `how` becomes the options of `PolicyOptions`, at its place."""
    parameters = inspect.signature(function, eval_str=True).parameters
    policy_parameters = inspect.signature(PolicyOptions, eval_str=True).parameters
    command_parameters: list[inspect.Parameter] = []
    for parameter in parameters.values():
        if parameter.name == "how":
            command_parameters += policy_parameters.values()
        else:
            command_parameters.append(parameter)
    # by keyword, as an option without a default may follow one with a default
    command_parameters = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in command_parameters
    ]

    @wraps(function)
    def command(**arguments: Any) -> None:
        options = {name: arguments.pop(name) for name in policy_parameters}
        function(**arguments, how=PolicyOptions(**options))

    command.__signature__ = inspect.Signature(command_parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in command_parameters}
    return command


def show_warnings(texts: Sequence[str]) -> None:
    """Prints one line per warning to stderr, and equal ones once."""
    for text in dict.fromkeys(texts):
        typer.echo(wrapped(f"warning: {text}", sys.stderr), err=True)
