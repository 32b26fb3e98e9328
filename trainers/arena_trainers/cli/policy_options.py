"""Options for the prompts and the sampling of policies, shared by commands."""

import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import wraps
from importlib import import_module
from typing import Annotated, Any

import typer

from arena_envs.checks import did_you_mean
from arena_trainers.matchmaking import is_past
from arena_wrappers import Policy, make_policy
from arena_wrappers.policies import wrapped
from arena_wrappers.prompts import PROMPT_OPTIONS

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
        bool | None,
        typer.Option("--rules/--no-rules", help="Whether prompts tell the rules."),
    ] = None
    show_legal_actions: Annotated[
        bool | None,
        typer.Option(
            "--show-legal-actions/--no-show-legal-actions",
            help="Whether prompts list the legal actions.",
        ),
    ] = None
    history: Annotated[
        str | None,
        typer.Option(help="state, or transcript for the whole conversation."),
    ] = None
    parsing: Annotated[
        str | None, typer.Option(help="How replies are read: strict or tolerant.")
    ] = None
    on_invalid: Annotated[
        str,
        typer.Option(help="What follows an invalid reply: forfeit, retry or random."),
    ] = "forfeit"
    max_retries: Annotated[
        int, typer.Option(min=0, help="Retries per turn with --on-invalid retry.")
    ] = 2
    max_new_tokens: Annotated[
        int | None,
        typer.Option(min=1, help="Longest reply of language models, in tokens."),
    ] = None
    temperature: Annotated[
        float | None,
        typer.Option(min=0, help="Sampling temperature of language models."),
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
        known = ("forfeit", "retry", "random")
        if self.on_invalid not in known:
            hint = did_you_mean(self.on_invalid, known)
            raise ValueError(f"unknown --on-invalid {self.on_invalid!r}; {hint}")
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
        given = [p for s in specs for p in (self._past(s) if is_past(s) else [s])]
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
                f"{names} needs a policy lm:PATH, api:MODEL or vllm:URL, got {', '.join(specs)}; leave it out"
            )
        return made

    def _makers(self, models: list[str]) -> dict[str, Callable[[str], Policy]]:
        """What makes policies with the sampling options; notes language models in `models`."""

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

    def _past(self, spec: str) -> list[Policy | str]:
        from arena_trainers.matchmaking.snapshots import past_policies  # needs torch

        return [*past_policies(spec, **self.sampling)]

    def _given(self, names: Sequence[str]) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in names}
        return {name: value for name, value in values.items() if value is not None}


def takes_policy_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of `PolicyOptions` to a command, which gets them as argument `how`.

    The help lists them at the place of `how`.
    """
    own = inspect.signature(command, eval_str=True).parameters
    declared = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None if field.default is MISSING else field.default,
            annotation=field.type,
        )
        for field in fields(PolicyOptions)
    ]
    names = [parameter.name for parameter in declared]

    @wraps(command)
    def with_options(**given: Any) -> None:
        how = PolicyOptions(**{name: given.pop(name) for name in names})
        command(**given, how=how)

    parameters = []
    for name, parameter in own.items():
        keyword = parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        parameters += declared if name == "how" else [keyword]
    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {p.name: p.annotation for p in parameters}
    return with_options


def show_warnings(texts: Sequence[str]) -> None:
    """Prints one line per warning to stderr."""
    for text in texts:
        typer.echo(wrapped(f"warning: {text}", sys.stderr), err=True)
