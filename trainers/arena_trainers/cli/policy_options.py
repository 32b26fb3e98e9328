"""Options of commands that say how policies are prompted and sampled."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from arena_envs.registration import did_you_mean
from arena_wrappers import Policy

ReplyFormat = Annotated[
    str | None,
    typer.Option(help="answer, boxed, bracket or bare; default: the policy's own."),
]
Rules = Annotated[
    bool | None,
    typer.Option("--rules/--no-rules", help="Whether prompts tell the rules."),
]
ShowLegalActions = Annotated[
    bool | None,
    typer.Option(
        "--show-legal-actions/--no-show-legal-actions",
        help="Whether prompts list them.",
    ),
]
History = Annotated[
    str | None, typer.Option(help="state, or transcript: the whole conversation.")
]
Parsing = Annotated[
    str | None, typer.Option(help="How replies are read: strict or tolerant.")
]
OnInvalid = Annotated[
    str, typer.Option(help="After an invalid reply: forfeit, retry or random.")
]
MaxRetries = Annotated[int, typer.Option(min=0, help="Of --on-invalid retry.")]
MaxNewTokens = Annotated[
    int | None, typer.Option(min=1, help="Longest reply of lm: policies.")
]
Temperature = Annotated[
    float | None, typer.Option(min=0, help="Of the sampling of lm: policies.")
]


def given(**options: Any) -> dict[str, Any]:
    """The options that were given.

    >>> given(rules=False, history=None)
    {'rules': False}
    """
    return {name: value for name, value in options.items() if value is not None}


def referee(on_invalid: str, max_retries: int) -> dict[str, Any]:
    """Arguments of the `PromptWrapper` that hold for all seats.

    Raises:
        ValueError: `on_invalid` is unknown, or nothing to play on with.
    """
    known = ("forfeit", "retry", "random")
    if on_invalid not in known:
        hint = did_you_mean(on_invalid, known)
        raise ValueError(f"unknown --on-invalid {on_invalid!r}; {hint}")
    return {"on_invalid": on_invalid, "max_retries": max_retries}


def policies_named(
    specs: Sequence[str], sampling: Mapping[str, Any]
) -> list[Policy | str]:
    """The policies of these strings; language models with `sampling` in place of their own.

    Strings of others are left for `make_policy`.

    Raises:
        ValueError: there is no language model that could be sampled so, or none in a folder.
    """
    kinds = [spec.partition(":")[0] for spec in specs]
    if not sampling:
        return list(specs)
    if "lm" not in kinds:
        names = " and ".join(f"--{name.replace('_', '-')}" for name in sampling)
        raise ValueError(f"{names} is for policies lm:PATH, got {', '.join(specs)}")
    from arena_trainers.lm.policy import LMPolicy

    return [
        LMPolicy.from_pretrained(spec.partition(":")[2], **sampling)
        if kind == "lm"
        else spec
        for spec, kind in zip(specs, kinds, strict=True)
    ]


def show_warnings(texts: Sequence[str]) -> None:
    """Prints a line for each to stderr."""
    for text in texts:
        typer.echo(f"warning: {text}", err=True)
