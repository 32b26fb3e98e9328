"""The `arena` command."""

import os
import sys
import warnings
from importlib.metadata import version
from typing import Annotated, Any

import typer

from arena_envs import extras
from arena_envs.hostile import wrapped
from arena_envs.registry import missing_extra
from arena_trainers.cli.commands import LazyCommands
from arena_trainers.cli.errors import UsageError
from arena_trainers.terminal import guarded_streams

ParseError: Any = typer.BadParameter.__bases__[0]  # `UsageError` of the click in typer
_AGAINST_ADVICE = "; opponents follow --against, as in --against cfr"
_SELECT_ADVICE = (
    "Rows are chosen by: arena data select EPISODES --by NAME --out FILE.parquet"
)

_ADVICE = {  # by command, and by the start of what the parser says
    ("eval", "Got unexpected extra"): _AGAINST_ADVICE,
    ("play", "Got unexpected extra"): _AGAINST_ADVICE,
    ("games", "Got unexpected extra"): "; one game is shown by: arena show {word}",
    (
        "tournament",
        "Missing option",
    ): "For example: --games kuhn_poker,tic_tac_toe --out runs/table",
    ("arena", "No such command"): " arena --help lists the commands.",
    ("data", "No such command"): f" {_SELECT_ADVICE}",
    ("data", "No such option"): f". {_SELECT_ADVICE}",
    ("suggest", "Got unexpected extra"): "; games follow --games, as in --games {word}",
}

# keys of --prompt and --sampling that others may type as options
_PROMPT_WORDS = (
    "reply_format",
    "rules",
    "show_legal_actions",
    "history",
    "parsing",
    "persona",
    "language",
    "on_invalid",
    "max_retries",
)
_SAMPLING_WORDS = ("max_new_tokens", "temperature")
_OWN_OPTIONS = {  # of other programs, and ours
    **dict.fromkeys(("--opponent", "--opponents", "--vs"), "--against"),
    **dict.fromkeys(("--game", "--env"), "--games"),
    **dict.fromkeys(("--num-episodes", "--num-games"), "--episodes"),
    **dict.fromkeys(("--output", "--output-dir"), "--out"),
    **dict.fromkeys(("--report", "--html"), "--page"),
    **dict.fromkeys(("--svg", "--picture", "--plot", "--chart"), "--figure"),
    "--select": "--by",
    **{f"--{key.replace('_', '-')}": f"--prompt {key}=VALUE" for key in _PROMPT_WORDS},
    "--no-rules": "--prompt rules=false",
    "--no-show-legal-actions": "--prompt show_legal_actions=false",
    **{
        f"--{key.replace('_', '-')}": f"--sampling {key}=VALUE"
        for key in _SAMPLING_WORDS
    },
}


class ArenaGroup(LazyCommands):
    """The commands; the parser's errors end with what to do, where that is known."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except ParseError as error:
            name = error.ctx.info_name if error.ctx is not None else ""
            option = _OWN_OPTIONS.get(getattr(error, "option_name", ""), "")
            if option and option.partition(" ")[0] in _option_names(error.ctx):
                error.message += f"; did you mean {option}?"
                error.possibilities = None
            for (command, start), text in _ADVICE.items():
                message = error.format_message()
                if "Did you mean" in message:
                    continue
                if name == command and message.startswith(start):
                    word = message.rpartition("(")[2].rstrip(")")
                    # what is missing is said by `format_message`, in front of the message
                    error.message += text.format(word=word)
            raise


def _option_names(context: typer.Context | None) -> set[str]:
    """The names of the options of a command."""
    if context is None:
        return set()
    return {name for param in context.command.params for name in param.opts}


app = typer.Typer(
    name="arena",
    cls=ArenaGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"token_normalize_func": lambda name: name.replace("_", "-")},
)


@app.callback(invoke_without_command=True)
def arena(
    show_version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.")
    ] = False,
) -> None:
    """Text games for language models: play, evaluate, train by self-play."""
    # no output and no telemetry of libraries
    extras.hide_library_warnings()
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("VLLM_LOGGING_COLOR", "0")  # streams are guarded
    if show_version:
        typer.echo(version("arena-envs"))
        raise typer.Exit


def main() -> None:
    """Runs the command; a usage error prints one sentence and exits with status 2."""
    format_of_python = warnings.formatwarning
    printed: set[str] = set()

    def one_line(message: Warning | str, *_: Any, **__: Any) -> str:
        """The warning without its place in the code; "" if it was printed before."""
        text = wrapped(f"warning: {message}", sys.stderr) + "\n"
        is_new = text not in printed
        printed.add(text)
        return text if is_new else ""

    warnings.formatwarning = one_line
    try:
        with guarded_streams():
            _run_command()
    finally:
        warnings.formatwarning = format_of_python  # tests call this function, too


def _run_command() -> None:
    try:
        app(prog_name="arena")
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("arena_"):
            raise
        advice = error if "pip install" in str(error) else missing_extra(error)
        text = f"error: {advice} (arena doctor says what each extra opens)"
        typer.echo(text, err=True)
        sys.exit(2)
    except UsageError as error:
        typer.echo(wrapped(f"error: {error}", sys.stderr), err=True)
        sys.exit(2)
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
