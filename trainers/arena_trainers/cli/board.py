"""The commands of `arena bench board`."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from arena_studio.outputs import SUBMISSION, output_at, reading_advice
from arena_trainers.cli.errors import usage_errors
from arena_trainers.cli.options import (
    AllowCodeOption,
    FilesArgument,
    PolicyArgument,
    PolicyOptions,
    SuiteOption,
    TimeoutOption,
    group,
)
from arena_trainers.cli.progress import running
from arena_wrappers import make_policy

MODEL = re.compile("(lm|api|vllm):")  # policies with a limit of tokens

board_app = group(
    "board",
    "Measure models on suites of games, in a form that anyone can verify.",
)


@board_app.command("run")
def run_board(
    policy: PolicyArgument,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The submission.")],
    suite: SuiteOption = "standard",
    name: Annotated[str, typer.Option(help="Name in the table.")] = "",
    allow_code: AllowCodeOption = False,
    *,
    timeout: TimeoutOption = None,
) -> None:
    """Play a suite, and write a submission.

    The policy plays every game of the suite, plain, disguised and with another prompt, in
    every seat, on seeds that follow from the suite's hash. Replies of lm:, api: and vllm: policies end after the
    suite's number of tokens. After a stop, or if episodes were lost, the same command goes on.

    For example:

    arena bench board run cfr --out cfr.jsonl

    arena bench board run api:MODEL@URL --suite mars --name "my model" --out mine.jsonl
    """
    from arena_eval.tournament import load_suite, play_suite

    with usage_errors():
        loaded_suite = load_suite(suite, allow_code=allow_code)
        max_tokens = loaded_suite.given["max_tokens"] if MODEL.match(policy) else None
        sampling = {} if max_tokens is None else {"max_new_tokens": max_tokens}
        (player,) = PolicyOptions(sampling=sampling).policies([policy])
        if isinstance(player, str):
            player = make_policy(player)
    advice = f"finished episodes are in {out}; the same command goes on"
    with running(advice, policies=[policy]) as bar, usage_errors():
        play_suite(loaded_suite, player, out, name=name, timeout=timeout, progress=bar)
    typer.echo(
        f"{out} is finished; check it: arena bench board verify {out} --suite {suite}"
    )


def _check_submissions(files: Sequence[Path]) -> None:
    """Raises ValueError for a path that is missing or that another command wrote."""
    for path in files:
        output = output_at(path)
        is_other = output is not None and output.kind != SUBMISSION
        if not path.is_file() or is_other:
            advice = reading_advice(
                path, "write one: arena bench board run POLICY --out FILE"
            )
            raise ValueError(
                f"want a file of arena bench board run, got {str(path)!r}; {advice}"
            )


@board_app.command("verify")
def verify_board(
    files: FilesArgument,
    suite: SuiteOption = "standard",
    allow_code: AllowCodeOption = False,
) -> None:
    """Play the episodes of all submissions again; status 1 if any does not hold.

    For example: arena bench board verify cfr.jsonl
    """
    from arena_eval.tournament import load_suite, verify_submission

    with usage_errors():
        _check_submissions(files)
        loaded_suite = load_suite(suite, allow_code=allow_code)
    has_failed = False
    for path in files:
        try:
            submission = verify_submission(path, loaded_suite, allow_code=allow_code)
        except (ValueError, OSError) as error:
            typer.echo(f"error: {error}", err=True)
            has_failed = True
            continue
        typer.echo(
            f"{path}: {len(submission.episodes)} episodes of {submission.name} hold"
        )
    if has_failed:
        raise typer.Exit(1)


@board_app.command("page")
def page_board(
    files: FilesArgument,
    suite: SuiteOption = "standard",
    allow_code: AllowCodeOption = False,
) -> None:
    """Verify submissions, and print their table as Markdown.

    For example: arena bench board page *.jsonl
    """
    from arena_eval.tournament import load_suite, submissions_page

    with usage_errors():
        _check_submissions(files)
        loaded_suite = load_suite(suite, allow_code=allow_code)
        typer.echo(submissions_page(files, loaded_suite, allow_code=allow_code))
