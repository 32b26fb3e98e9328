"""Options that several commands share, and those of policies."""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from arena_envs.registry import expression
from arena_trainers.cli.errors import usage_errors
from arena_trainers.lm.models import adapter_base, find_model
from arena_trainers.matchmaking import is_past
from arena_trainers.options import Option, option, options_of, read_pairs
from arena_wrappers import Policy, PromptOptions, make_policy

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
    Path | None,
    typer.Option(metavar="FILE", help="Append the episodes to this file."),
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

PromptOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE",
        help="Prompt option; repeatable. By default those of the policy. Keys: "
        "reply_format (answer, boxed, bracket, bare), rules, show_legal_actions, history (state, "
        "transcript), parsing (tolerant, strict), persona (TEXT or @FILE), language (en, de, es, "
        "zh), shuffle (seed of the order of actions; true is 1, 0 the order of the game), date (YYYY-MM-DD), on_invalid "
        "(forfeit, retry, random), max_retries, and the templates system, turn, again.",
    ),
]

SamplingOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE",
        help="How language models sample; repeatable. Keys: temperature, max_new_tokens.",
    ),
]


@dataclass(frozen=True)
class SamplingKeys:
    """The keys of `--sampling`: arguments of `LMPolicy`."""

    temperature: float | None = option(
        None, least=0, help="Sampling temperature of language models."
    )
    max_new_tokens: int | None = option(
        None, least=1, help="Longest reply of language models, in tokens."
    )


@dataclass(frozen=True)
class InvalidReplyKeys:
    """The keys of `--prompt` that say what follows an invalid reply: arguments of the `PromptWrapper`."""

    on_invalid: Literal["forfeit", "retry", "random"] = option(
        "forfeit", help="What follows an invalid reply."
    )
    max_retries: int = option(2, least=0, help="Retries per turn.")


@dataclass(frozen=True)
class PolicyOptions:
    """Prompt and sampling options that a command was given; what is absent is the policy's own.

    Attributes:
        prompt: options of prompts, by name.
        invalid: what follows an invalid reply.
        sampling: arguments of `LMPolicy`.
    """

    prompt: Mapping[str, Any] = field(default_factory=dict)
    invalid: Mapping[str, Any] = field(default_factory=dict)
    sampling: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(
        cls, prompt: Sequence[str] | None, sampling: Sequence[str] | None
    ) -> "PolicyOptions":
        """The options of `--prompt KEY=VALUE` and `--sampling KEY=VALUE`.

        Raises:
            ValueError: a key is unknown, or a value does not fit.

        >>> PolicyOptions.read(["rules=false", "on_invalid=retry"], ["temperature=0"])
        PolicyOptions(prompt={'rules': False}, invalid={'on_invalid': 'retry'}, sampling={'temperature': 0.0})
        """
        invalid_options = options_of(InvalidReplyKeys)
        prompt_options = options_of(PromptOptions) | invalid_options
        prompt_values = _values("prompt", prompt, prompt_options)
        return cls(
            prompt={k: v for k, v in prompt_values.items() if k not in invalid_options},
            invalid={k: v for k, v in prompt_values.items() if k in invalid_options},
            sampling=_values("sampling", sampling, options_of(SamplingKeys)),
        )

    @property
    def wrapper(self) -> dict[str, Any]:
        """Arguments of the `PromptWrapper`."""
        return {**self.prompt, **asdict(InvalidReplyKeys()), **self.invalid}

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
            raise ValueError(
                "--sampling needs a policy lm:PATH, api:MODEL or vllm:URL, got "
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
                sampling = dict(self.sampling)
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


def _values(
    name: str, words: Sequence[str] | None, options: Mapping[str, Option]
) -> dict[str, Any]:
    """The values of a repeatable option KEY=VALUE, each of its type and in its range."""
    values = read_pairs(name, words or [], options)
    for key, value in values.items():
        options[key].check(value)
    return {key: options[key].converted(value) for key, value in values.items()}


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
    """A command whose parameter `policy_options` becomes `--prompt` and `--sampling`, at its place."""
    parameters = inspect.signature(function, eval_str=True).parameters
    command_parameters: list[inspect.Parameter] = []
    for parameter in parameters.values():
        if parameter.name == "policy_options":
            command_parameters += [
                parameter.replace(name=name, annotation=annotation, default=None)
                for name, annotation in _POLICY_PARAMETERS.items()
            ]
        else:
            command_parameters.append(parameter)
    # by keyword, as an option without a default may follow one with a default
    command_parameters = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in command_parameters
    ]

    @wraps(function)
    def command(
        prompt: list[str] | None, sampling: list[str] | None, **arguments: Any
    ) -> None:
        with usage_errors():
            policy_options = PolicyOptions.read(prompt, sampling)
        function(**arguments, policy_options=policy_options)

    command.__signature__ = inspect.Signature(command_parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in command_parameters}
    return command


_POLICY_PARAMETERS = {"prompt": PromptOption, "sampling": SamplingOption}
