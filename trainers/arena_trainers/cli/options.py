"""Options that several commands share, and those of policies."""

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from arena_envs.checks import check_known
from arena_envs.registry import expression
from arena_trainers.lm.models import adapter_base, find_model
from arena_trainers.matchmaking import is_past
from arena_trainers.runs.recipe import text_or_file
from arena_wrappers import Policy, make_policy
from arena_wrappers.prompts import PROMPT_OPTIONS

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

UntilOption = Annotated[
    float | None,
    typer.Option(
        "--until",
        metavar="HALF_WIDTH",
        help="Stop when half the width of the 95 % interval is at most this; -n is then the most, 10,000 by default.",
    ),
]

MaxTokensOption = Annotated[
    int | None,
    typer.Option(
        help="Budget: the most prompt and reply tokens of all endpoints together.",
        min=1,
    ),
]

MaxCostOption = Annotated[
    float | None,
    typer.Option(
        help="Budget: the most that all endpoints together may cost, in the currency of --prices."
    ),
]

PricesOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.toml",
        help="Prices of a million tokens: a table [MODEL] with the keys prompt and reply.",
    ),
]

ValuesOption = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Values of states that take the luck out of means: auto, solver, bots, or none for raw means.",
    ),
]

NumEpisodesOption = Annotated[
    int | None,
    typer.Option(
        "--episodes",
        "-n",
        help="Episodes per opponent and seat. [default: 100]",
        show_default=False,
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
        str | None,
        typer.Option(
            metavar="TEXT|@FILE",
            help="What the prompts begin with: who the player is, or a strategy.",
        ),
    ] = None
    shuffle: Annotated[
        int | None,
        typer.Option(
            metavar="SEED",
            help="Order of the listed actions: a seed, or 0 for the game's order.",
            min=0,
        ),
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

        Raises:
            ValueError: the file of the persona cannot be read.

        >>> PolicyOptions(rules=False).prompt
        {'rules': False}
        """
        options = self._set_options(PROMPT_OPTIONS)
        if self.persona is not None:
            options["persona"] = text_or_file(self.persona)
        return options

    @property
    def sampling(self) -> dict[str, Any]:
        """The arguments of `LMPolicy` that were given."""
        return self._set_options(SAMPLING)

    @property
    def wrapper(self) -> dict[str, Any]:
        """Arguments of the `PromptWrapper`.

        Raises:
            ValueError: `on_invalid` is unknown.
        """
        check_known(
            self.on_invalid,
            ("forfeit", "retry", "random"),
            f"unknown --on-invalid {self.on_invalid!r}",
        )
        return {
            **self.prompt,
            "on_invalid": self.on_invalid,
            "max_retries": self.max_retries,
        }

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
        policies_or_specs: list[Policy | str] = []
        for spec in specs:
            if is_past(spec):
                # needs torch
                from arena_trainers.matchmaking.snapshots import past_policies

                policies_or_specs += past_policies(spec, **self.sampling)
            else:
                policies_or_specs.append(spec)
        if not self.sampling:
            return policies_or_specs
        models = [spec for spec in specs if is_past(spec)]
        makers = self._makers(models)
        policies = [
            make_policy(policy, makers)
            if isinstance(policy, str) and policy != "self"
            else policy
            for policy in policies_or_specs
        ]
        if not models:
            names = " and ".join(
                f"--{name.replace('_', '-')}" for name in self.sampling
            )
            raise ValueError(
                f"{names} needs a policy lm:PATH, api:MODEL or vllm:URL, got "
                f"{', '.join(specs)}; leave it out"
            )
        return policies

    def _makers(self, models: list[str]) -> dict[str, Callable[[str], Policy]]:
        """Makers of policies with the sampling options; they note language models in `models`."""

        def load(path: str) -> Policy:
            from arena_trainers.lm.policy import LMPolicy

            models.append(path)
            return LMPolicy.from_pretrained(path, **self.sampling)

        def served(module: str) -> Callable[[str], Policy]:
            def load(argument: str) -> Policy:
                models.append(argument)
                sampling = self.sampling
                if "max_new_tokens" in sampling:
                    sampling["max_tokens"] = sampling.pop("max_new_tokens")
                policy: Policy = import_module(module).load(argument, **sampling)
                return policy

            return load

        return {
            "lm": load,
            "api": served("arena_wrappers.policies.api"),
            "vllm": served("arena_trainers.lm.vllm_policy"),
        }

    def _set_options(self, names: Sequence[str]) -> dict[str, Any]:
        values = {name: getattr(self, name, None) for name in names}
        return {name: value for name, value in values.items() if value is not None}


def check_models(spec: str) -> None:
    """Raises ValueError if a model that a policy string names, at any depth, does not exist."""
    if not re.search(r"\blm:", spec):
        return
    parsed_spec = expression(spec)
    if parsed_spec.name == "lm" and parsed_spec.argument:
        find_model(adapter_base(parsed_spec.argument) or parsed_spec.argument)
    for inner in (*parsed_spec.inner, *parsed_spec.options.values()):
        if isinstance(inner, str):
            check_models(inner)


def group(name: str, help_line: str) -> typer.Typer:
    """A group of commands."""
    return typer.Typer(
        name=name,
        no_args_is_help=True,
        help=help_line,
        add_completion=False,
        rich_markup_mode=None,
    )


def with_policy_options(function: Callable[..., None]) -> Callable[..., None]:
    """A command whose parameter `policy_options` becomes the options of `PolicyOptions`, at its place."""
    parameters = inspect.signature(function, eval_str=True).parameters
    policy_parameters = inspect.signature(PolicyOptions, eval_str=True).parameters
    command_parameters: list[inspect.Parameter] = []
    for parameter in parameters.values():
        if parameter.name == "policy_options":
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
        function(**arguments, policy_options=PolicyOptions(**options))

    command.__signature__ = inspect.Signature(command_parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in command_parameters}
    return command
