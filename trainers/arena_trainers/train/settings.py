"""Options that self-play adds to TRL's, and all checks of settings before training.

`TurnGRPOConfig` has them, and so has `Draft`, which is made before TRL is imported.

Importing TRL takes seconds, so the fields that `TurnGRPOConfig` inherits are listed in
`options.json`, together with the versions of TRL and transformers that they come from. Update the
list with `python -m arena_trainers.train.config`; a test compares it with the installed TRL.

An estimator is checked with them: its columns, options, parts of the reward, and bounds.

This module imports neither TRL nor torch.
"""

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from arena_credit.by_name import (
    with_options,
)
from arena_envs.doors import split
from arena_envs.game import (
    check_int,
    check_number,
)
from arena_trainers.curricula import curricula
from arena_trainers.losses import terms_of
from arena_trainers.matchmaking import make_matchmaker
from arena_trainers.matchmaking.protocol import names_matchmaker
from arena_trainers.options import (
    Option,
    check_declared,
    option,
    options_of,
    refuse_unknown,
    with_texts,
)
from arena_trainers.processes import splits_weights
from arena_trainers.rewards import parts_of
from arena_trainers.train.critics.registry import (
    check_critic_options,
    check_critic_rows,
    critics,
)
from arena_trainers.train.game_entries import check_opponents, expanded
from arena_trainers.train.rows import PER_TOKEN_LOSSES
from arena_trainers.train.trl_options import TRLOptions
from arena_wrappers import Branching, PromptOptions, RandomPolicy
from arena_wrappers.policies.agents import agent_of
from arena_wrappers.prompts import DATE, PROMPT_OPTIONS

OF_SURROGATE = {
    "delta": None,
    "top_entropy_quantile": 1.0,
    "off_policy_mask_threshold": None,
    "importance_sampling_level": "token",
}  # options of TRL's surrogate, with their defaults


def check_roles(roles: Mapping[Any, Any], update: Any, agent: str | None) -> None:
    """Raises ValueError for learners or updates that do not fit."""
    kinds = {type(key) for key in roles}
    if kinds not in (set(), {str}, {int}) or (int in kinds and agent):
        raise ValueError(
            f"want roles of an agent, or seats without one, got {[*roles]}"
        )
    if agent is not None:
        agent_of(agent)(dict.fromkeys(roles, RandomPolicy()) or RandomPolicy())
    for key, options in roles.items():
        fits = isinstance(options, Mapping) and not {"model", "lora_r"} <= {*options}
        if not fits or not isinstance(options.get("model", ""), str):
            raise ValueError(
                f"want roles[{key!r}] as {{lora_r: 8}}, an adapter of the one base "
                f"model, or as {{model: PATH}}, a whole model, got {options!r:.80}"
            )
        refuse_unknown(f"roles[{key!r}]", options, ROLE_OPTIONS)
        for name, value in options.items():
            if name == "lora_r":
                check_int(f"roles[{key!r}] {name}", value, 1, 4096)
            elif name != "model":
                check_number(f"roles[{key!r}] {name}", value, 0)
    match update:
        case {"alternate": every}:
            fits = type(every) is int and every > 0 and bool(roles)
        case {"freeze": list(names)}:
            fits = set(names) < {*roles}
        case _:
            fits = update == "joint" or (bool(roles) and update == "sequential")
    if not fits:
        role_names = str([*roles]) if roles else "(none: set roles)"
        raise ValueError(
            "want update as joint, sequential, {alternate: 20} or {freeze: [...]} with "
            f"some, but not all, of the roles {role_names}, got {update!r}"
        )


ROLE_OPTIONS = ("lora_r", "model", "learning_rate", "beta")
LIST = Path(__file__).with_name("options.json")
SOURCES = ("trl", "transformers")  # packages of the inherited fields
MAX_REPLY_TOKENS = 256  # if the settings give no limit
BRANCH_OPTIONS = ("num_candidates", "turns", "seats", "follow")


@with_texts
@dataclass
class SelfPlay(TRLOptions):
    """The options that self-play adds to TRL's, which `settings.toml` describes."""

    games: list[Any] = option(["kuhn_poker"])
    opponents: Any = option("self")
    curriculum: Any = option(None)
    num_starts: int | None = option(None, least=1)
    reply_format: str = option("answer")
    history: Literal["state", "transcript"] = option("state")
    rules: bool = option(True)
    show_legal_actions: bool = option(True)
    parsing: Literal["tolerant", "strict"] = option("tolerant")
    persona: str = option("")
    language: str = option("en")
    system: str | None = option(None)
    turn: str | None = option(None)
    again: str | None = option(None)
    date: str = option(DATE)
    reasoning_marks: list[str] | None = option(None)
    on_invalid: Literal["forfeit", "retry", "random"] = option("forfeit")
    penalty: float = option(0.5)
    max_retries: int = option(2)
    rewards: dict[str, Any] = option({})
    part_weights: dict[str, float] = option({})
    rollout_batch_size: int | None = option(None, least=1)
    vllm_importance_sampling_mode: Any = option(None)
    asynchronous: dict[str, Any] | None = option(None)
    episodes_per_step: int | None = option(None, least=1)
    max_tokens_per_forward: int | None = option(None, least=1)
    flat_groups: Literal["keep", "drop"] = option("keep")
    max_replays: int = option(0, least=0)
    oversample: int = option(1, least=1)
    branch: dict[str, Any] | None = option(None)
    layout: Literal["turn", "trajectory"] = option("turn")
    credit: str = option("random_effects")
    credit_args: dict[str, Any] = option({})
    within_turn: Literal["uniform", "entropy", "values"] = option("uniform")
    critic: str | None = option(None)
    critic_args: dict[str, Any] = option({})
    weighting: Literal["token", "turn"] = option("token")
    agent: str | None = option(None)
    roles: dict[Any, Any] = option({})
    update: Any = option("joint")
    reference: dict[str, Any] | None = option(None)
    losses: dict[str, Any] = option({})

    @property
    def prompt_options(self) -> dict[str, Any]:
        """Arguments of the `PromptWrapper`."""
        names = (*PROMPT_OPTIONS, "on_invalid", "penalty", "max_retries")
        return {name: getattr(self, name) for name in names}

    @property
    def episodes_unit(self) -> int:
        """What `episodes_per_step` is a multiple of: whole groups, equal shares of processes."""
        processes = int(os.environ.get("WORLD_SIZE", "1"))
        share = processes * self.gradient_accumulation_steps
        by_hand = self.generation_batch_size or self.steps_per_generation
        return math.lcm(share, 1 if by_hand else self.num_generations)

    @property
    def generations_per_step(self) -> float:
        """Generation batches per optimizer step; below 1 if several steps share a batch."""
        accumulated = max(self.gradient_accumulation_steps, 1)
        passes = self.steps_per_generation or accumulated
        if self.steps_per_generation is None and self.generation_batch_size:
            processes = int(os.environ.get("WORLD_SIZE", "1"))
            size = self.per_device_train_batch_size * processes
            if self.episodes_per_step is not None:
                size = self.episodes_per_step // accumulated
            passes = self.generation_batch_size // max(size, 1) or 1
        return float(accumulated / (passes * max(self.num_iterations, 1)))

    @property
    def window(self) -> int:
        """Optimizer steps that share a generation batch; `save_steps` is a multiple."""
        return round(1 / min(self.generations_per_step, 1.0))

    @property
    def reference_prompt(self) -> PromptOptions | None:
        """The prompts of the reference, if they are not those of training."""
        reference = dict(self.reference or {})
        instruction, prompt = (
            reference.pop("instruction", ""),
            reference.pop("prompt", {}),
        )
        kinds = [type(instruction), type(reference.pop("model", "")), type(prompt)]
        if reference or kinds != [str, str, dict]:
            raise ValueError(
                "want reference as {model: PATH, instruction: TEXT, prompt: OPTIONS}, "
                f"got {self.reference!r:.200}"
            )
        if not instruction and not prompt:
            return None
        refuse_unknown("the prompt of reference", prompt, PROMPT_OPTIONS)
        options = {name: getattr(self, name) for name in PROMPT_OPTIONS} | prompt
        options["persona"] = " ".join(filter(None, (options["persona"], instruction)))
        prompt_options = PromptOptions(**options)
        if prompt_options.history != "state" or self.on_invalid == "retry":
            raise ValueError(
                "a reference with prompts of its own needs history='state' and no "
                f"retries, got history={prompt_options.history!r} and "
                f"on_invalid={self.on_invalid!r}; set both"
            )
        return prompt_options

    def check_own(self) -> None:
        check_declared(self, SelfPlay)
        self.credit, self.credit_args = with_options(self.credit, self.credit_args)
        if self.critic is not None:
            args = self.critic_args
            self.critic, self.critic_args = with_options(self.critic, args, critics)
        if isinstance(self.games, str):
            self.games = split(self.games)
        if isinstance(self.opponents, str) and len(split(self.opponents)) > 1:
            self.opponents = split(self.opponents)
        if not isinstance(self.games, list) or not self.games:
            raise ValueError(
                f"want games as a list of ids or dicts, got {self.games!r}"
            )
        self.games = expanded(self.games)
        check_opponents(self.opponents)
        if names_matchmaker(self.opponents):
            make_matchmaker(self.opponents)  # raises for options that it lacks
        if self.curriculum is not None:
            curricula.make(self.curriculum)
        parts_of(self.rewards)
        for name, weight in self.part_weights.items():
            if not isinstance(weight, int | float) or not math.isfinite(weight):
                raise ValueError(f"want a number as weight of {name!r}, got {weight!r}")
        check_critic_options(self.critic, self.critic_args)
        check_critic_rows(self.critic, self.layout, splits_weights(self))
        self._check_rows()
        check_roles(self.roles, self.update, self.agent)
        self._check_terms()
        self.branching(())
        self._check_filter()
        self._check_oversample()

    @property
    def learner_names(self) -> list[str]:
        """The names of what `roles` trains: its roles, or `seat_0`."""
        return [f"seat_{key}" if type(key) is int else key for key in self.roles]

    def learner_starts(self, model: Any) -> list[Any]:
        """What the learners of `roles` begin as: models of their own, or the given one."""
        return [options.get("model", model) for options in self.roles.values()]

    @property
    def reads_reference(self) -> bool:
        """Whether a KL term, or a term of the loss, reads the reference."""
        beta, terms = getattr(self, "beta", 0.0), terms_of(self.losses, self.layout)
        betas = [options.get("beta", beta) for options in self.roles.values()] or [beta]
        return any([*betas, *("reference" in term.needs for term in terms)])

    def branching(self, seats: Sequence[int]) -> Branching | None:
        """The branching of training episodes; None without `branch`.

        Args:
            seats: seats that branch if `branch` names none.
        """
        return branching_of("branch", self.branch, seats=seats)

    def _check_terms(self) -> None:
        terms, trl_options = terms_of(self.losses, self.layout), vars(self)
        surrogates = [term.name for term in terms if term.surrogate]
        for name, default in OF_SURROGATE.items():
            if surrogates and trl_options.get(name, default) != default:
                raise ValueError(
                    f"{name} is of TRL's surrogate, in whose place {surrogates[0]!r} stands; "
                    "leave one of the two out"
                )
        if self.reference is not None and not self.reads_reference:
            raise ValueError(
                "nothing reads the reference; set beta, or a term such as kl_to in "
                "losses"
            )
        if trl_options.get("sync_ref_model") and not self.reads_reference:
            raise ValueError(
                "want beta above 0, or a term of losses that reads the reference, with "
                "sync_ref_model, got neither: nothing would read the reference that moves; "
                "give --sync_ref_model false"
            )
        if self.reference_prompt is not None and self.layout != "turn":
            raise ValueError(
                "a reference with prompts of its own needs layout='turn', got "
                f"{self.layout!r}; set it"
            )

    def _check_filter(self) -> None:
        replays = self.max_replays
        if replays and self.flat_groups == "keep":
            raise ValueError(
                f"max_replays={replays} plays flat groups again, and "
                "flat_groups='keep' keeps them; set flat_groups='drop'"
            )

    def _check_oversample(self) -> None:
        times, size = self.oversample, self.num_generations or 0
        if times == 1:
            return
        if size % times or size < 2 * times:
            raise ValueError(
                f"want num_generations as a multiple of oversample ({times}) and at "
                f"least twice as large, got {size}; give --num_generations {2 * times} "
                "or more"
            )
        if self.on_invalid == "forfeit":
            raise ValueError(
                "oversample prefers wins with few invalid replies, and "
                "on_invalid='forfeit' ends games of two seats there; set "
                "on_invalid='retry' or 'random'"
            )

    def _check_rows(self) -> None:
        if self.layout == "trajectory" and self.history != "transcript":
            raise ValueError(
                "layout='trajectory' needs history='transcript', in which a seat's "
                f"prompt begins with its earlier turns, got {self.history!r}"
            )
        loss_type = self.loss_type
        if self.weighting == "turn" and loss_type not in PER_TOKEN_LOSSES:
            raise ValueError(
                "weighting='turn' needs a loss that averages over all tokens, got "
                f"loss_type={loss_type!r}; set one of {PER_TOKEN_LOSSES}"
            )


def branching_of(
    name: str, options: Mapping[str, Any] | None, **defaults: Any
) -> Branching | None:
    """The branching that options name; raises ValueError for options that do not fit."""
    if options is None:
        return None
    refuse_unknown(name, options, BRANCH_OPTIONS)
    if "num_candidates" not in options:
        raise ValueError(f"want num_candidates in {name}, got {dict(options)!r}")
    return Branching(**{**defaults, **options})


class Draft(SelfPlay):
    """The options as attributes, without the values that TRL derives.

    Args:
        options: all options, given or default, by name.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.__dict__.update(options)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the draft has no option {name!r}")


@cache
def _list() -> Mapping[str, Any]:
    content: dict[str, Any] = json.loads(LIST.read_text(encoding="utf-8"))
    return content


def listed_options() -> dict[str, Option]:
    """The fields of `TurnGRPOConfig`, those of TRL from the list, without importing TRL."""
    listed = [
        Option(
            **{
                **fields,
                "types": tuple(fields["types"]),
                "choices": tuple(fields["choices"]),
            }
        )
        for fields in _list()["options"]
    ]
    return {listed_option.name: listed_option for listed_option in listed} | options_of(
        SelfPlay
    )


def installed_versions() -> dict[str, str | None]:
    """The installed versions of TRL and transformers; None if one is missing."""
    versions: dict[str, str | None] = {}
    for package in SOURCES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = None
    return versions


def is_of_installed_versions() -> bool:
    """Whether the list was made with the installed versions."""
    return dict(_list()["made_with"]) == installed_versions()
