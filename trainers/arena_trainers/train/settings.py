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
import random
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from numbers import Real
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

import arena_credit as credit
from arena_credit.batch import INT_COLUMNS
from arena_credit.by_name import (
    estimators_with,
    find_estimator,
    with_options,
)
from arena_credit.needs import Needs, keeps_state, needs_of
from arena_envs.checks import check_known
from arena_envs.doors import Door, check_options, split
from arena_envs.game import (
    AnyGame,
    bounds_of,
    check_bool,
    check_int,
    check_number,
    random_states,
)
from arena_trainers.curricula import curricula
from arena_trainers.engines import check_engine, check_engine_columns
from arena_trainers.engines.settings import changes_draws, engine_of, refuse
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
from arena_trainers.rewards import parts_of, try_parts
from arena_trainers.train.games import check_opponents, expanded
from arena_trainers.train.records import (
    PARTS,
    PER_TOKEN_LOSSES,
    SUPPLIED,
    Supplier,
    TurnRecord,
    check_functions,
    part_of,
    turn_batch,
)
from arena_wrappers import Branching, PromptOptions, RandomPolicy
from arena_wrappers.policies.agents import agent_of
from arena_wrappers.prompts import DATE, PROMPT_OPTIONS

OF_SURROGATE = {
    "delta": None,
    "top_entropy_quantile": 1.0,
    "off_policy_mask_threshold": None,
    "importance_sampling_level": "token",
}  # options of TRL's surrogate, with their defaults
LOSS_TYPES = ("grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "luspo", "vespo")


def check_ranges(args: Any) -> None:
    """Raises ValueError for numbers out of range, if TRL would not or only later."""
    length = args.max_completion_length
    ranges = {
        "seed": (0 <= args.seed < 2**32, "from 0 to 2**32 - 1"),
        "max_steps": (
            args.max_steps >= 1 or args.max_steps == -1,
            "of at least 1 (or -1 for num_train_epochs)",
        ),
        "num_generations": (args.num_generations >= 2, "of at least 2, to compare"),
        "logging_steps": (args.logging_steps > 0, "above 0"),
        "save_steps": (args.save_steps > 0, "above 0"),
        "beta": (0 <= args.beta < math.inf, "of at least 0"),
        "temperature": (0 < args.temperature < math.inf, "above 0"),
        "top_p": (0 < args.top_p <= 1, "above 0 and at most 1"),
        "min_p": (args.min_p is None or 0 <= args.min_p <= 1, "from 0 to 1"),
        "repetition_penalty": (0 < args.repetition_penalty < math.inf, "above 0"),
        "learning_rate": (0 <= args.learning_rate < math.inf, "of at least 0"),
        "max_completion_length": (length is None or length >= 1, "of at least 1"),
        "loss_type": (args.loss_type in LOSS_TYPES, f"from {LOSS_TYPES}"),
    }
    for name, (holds, wanted) in ranges.items():
        if not holds:
            raise ValueError(f"want {name} {wanted}, got {getattr(args, name)!r}")
    _check_groups(args.episodes_per_step, args.num_generations, args)


def _check_groups(episodes: int | None, size: int, args: Any) -> None:
    """Raises unless a step has whole groups of episodes."""
    by_hand = args.generation_batch_size or args.steps_per_generation
    if episodes is None or by_hand or episodes % size == 0:
        return  # TRL checks these two options
    below = episodes - episodes % size
    fits = [n for n in (below, below + size) if n]
    raise ValueError(
        f"want episodes_per_step divisible by num_generations ({size}), got "
        f"{episodes}; give --episodes_per_step {' or '.join(map(str, fits))}"
    )


def refuse_what_is_not_supported(args: Any) -> None:
    """Raises ValueError for options of TRL that rollouts or credit would ignore."""
    untested = "its rollouts have not been tested with it"
    bypassed = "advantages come from credit; see credit_args and part_weights"
    engine = "an engine in the training process has not been tested with it"
    colocated = args.use_vllm and args.vllm_mode == "colocate"
    several = args.multi_objective_aggregation != "sum_then_normalize"
    batching = "use_transformers_continuous_batching"
    refused = [
        (batching, getattr(args, batching), untested),
        ("use_vllm in sharded training", colocated and splits_weights(args), engine),
        ("generation_kwargs", args.generation_kwargs, untested),
        ("cache_implementation", args.cache_implementation is not None, untested),
        ("scale_rewards", args.scale_rewards != "group", bypassed),
        ("reward_weights", args.reward_weights is not None, bypassed),
        ("multi_objective_aggregation", several, bypassed),
    ]
    refuse("TurnGRPOTrainer", refused)
    check_engine(args)


def refuse_warm_start(args: Any) -> None:
    """Raises ValueError under FSDP or DeepSpeed, where supervised starts are untested."""
    if splits_weights(args) or os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true":
        raise ValueError(
            "want warm_start_steps 0 under FSDP or DeepSpeed: the supervised start has "
            "not been tested with it; run it before, with arena train --max_steps 1 "
            "and no accelerate, and give the folder start/ of that run as --model with "
            "--warm_start_steps 0"
        )


def refuse_saving_between_generations(args: Any) -> None:
    """Raises if a checkpoint, which saves no generation batch, could fall inside one."""
    saves = args.save_strategy == "steps" and args.save_steps >= 1
    if saves and args.save_steps % args.window:
        less = int(args.save_steps) // args.window * args.window
        fits = " or ".join(str(n) for n in (less, less + args.window) if n)
        raise ValueError(
            f"want save_steps divisible by {args.window} (the optimizer steps that "
            f"share a generation batch), got {args.save_steps}; give --save_steps "
            f"{fits}"
        )


def check_critic(args: Any) -> None:
    """Raises ValueError for an unknown critic, or for options that it does not have."""
    critic, options = args.critic, args.critic_args
    if critic is None and options:
        raise ValueError(
            f"want critic_args only with a critic, got {dict(options)!r}; set "
            "critic='features'"
        )
    if critic is not None:
        critics.read(critic)  # raises if there is no such critic
    if critic in OF_CRITIC:
        refuse_unknown(f"critic {critic!r}", options, OF_CRITIC[critic].options)
        for name, value in options.items():  # more when it is made, after the start
            if name == "shared":
                check_bool(name, value)
            elif value is not None or name != "clip":
                check_number(name, value, 0)
    elif critic is not None:
        check_options(
            f"critic {critic!r}", critics.find(critic), options, critics.given
        )
    of_tokens = "tokens.value" in of_critic(critic).columns
    if of_tokens or critic == "utterances":
        whole = of_tokens and args.layout != "turn"
        split = int(os.environ.get("WORLD_SIZE", "1")) > 1 or splits_weights(args)
        refused = [
            ("layout 'trajectory'", whole, "its values are of single turns"),
            ("several processes", split, "it has not been tested with them"),
        ]
        refuse(f"critic {critic!r}", refused)


def check_asynchronous(args: Any) -> None:
    """Raises ValueError for settings with which play cannot run beside training."""
    if args.asynchronous is None:
        return
    limits = {"max_staleness": (0, 1), "in_flight": (2, 64)}
    refuse_unknown("asynchronous", args.asynchronous, limits)
    given = {"max_staleness": 1, "in_flight": 2, **args.asynchronous}
    for name, limit in limits.items():
        check_int(f"{name} in asynchronous", given[name], *limit)
    args.asynchronous = given if given["max_staleness"] else None
    if args.asynchronous is None:
        return
    who, tasks, cut = args.opponents, args.curriculum, changes_draws(args)
    past = names_matchmaker(who) and make_matchmaker(who).max_live > 0
    taught = tasks and curricula.make(tasks).reads_success
    late = "results of a batch are known after the next one began"
    trained = "it reads the policy that trains, and another one played"
    reuse = (args.steps_per_generation or 1) * args.num_iterations
    updates = args.gradient_accumulation_steps % reuse != 0
    processes = int(os.environ.get("WORLD_SIZE", "1")) > 1
    refused = [
        ("roles", args.roles, "one learner plays"),
        (f"opponents {who!r}", past, "snapshots would have trained later"),
        (f"curriculum {tasks!r}", taught, late),
        ("max_replays", args.max_replays, late),
        ("critic 'exact'", args.critic == "exact", trained),
        (str(cut), cut, "importance ratios are of the whole distribution"),
        ("vllm_mode 'colocate'", engine_of(args) == "vllm", "it shares the GPU"),
        ("a generation batch of several updates", updates, "its turns grow older"),
        ("several processes", processes, "it has not been tested with them"),
    ]
    refuse("asynchronous", refused)


def check_sequential(args: Any) -> None:
    """Raises ValueError unless each learner has whole optimizer steps on the same episodes."""
    if args.update != "sequential":
        return
    num, accumulated = len(args.roles), args.gradient_accumulation_steps
    reused = args.steps_per_generation or accumulated  # TRL fills it in
    passes = reused * args.num_iterations
    if args.num_iterations % num or passes // num % accumulated:
        raise ValueError(
            f"want update sequential with num_iterations divisible by {num} (the "
            "roles, which train one after the other on the same episodes), each with "
            f"whole steps of {accumulated} micro-batches, got {passes} in all; give "
            f"num_iterations {num} and leave steps_per_generation out"
        )
    turns = args.layout == "trajectory", "a row holds several turns"
    trees = args.branch, "candidates share their earlier turns"
    refuse("update sequential", [("layout trajectory", *turns), ("branch", *trees)])


def check_roles(args: Any) -> None:
    """Raises ValueError for learners or updates that do not fit."""
    roles, update = args.roles, args.update
    kinds = {type(key) for key in roles}
    if kinds not in (set(), {str}, {int}) or (int in kinds and args.agent):
        raise ValueError(
            f"want roles of an agent, or seats without one, got {[*roles]}"
        )
    if args.agent is not None:
        agent_of(args.agent)(dict.fromkeys(roles, RandomPolicy()) or RandomPolicy())
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
        roles = [*roles] or "(none: set roles)"
        raise ValueError(
            "want update as joint, sequential, {alternate: 20} or {freeze: [...]} with "
            f"some, but not all, of the roles {roles}, got {update!r}"
        )
    refused = "critic", "reference", "load_best_model_at_end"
    used = [name for name in refused if getattr(args, name, None)]
    if roles and (used := used + ["opponents"] * names_matchmaker(args.opponents)):
        raise ValueError(f"roles do not support {used[0]} as given; leave it out")


ROLE_OPTIONS = ("lora_r", "model", "learning_rate", "beta")
LIST = Path(__file__).with_name("options.json")
SOURCES = ("trl", "transformers")  # packages of the inherited fields
MAX_CRITIC_STATES = (
    100_000  # of a game: a batch asks for the probabilities of all its prompts
)
MAX_REPLY_TOKENS = 256  # if the settings give no limit
BRANCH_OPTIONS = ("num_candidates", "turns", "seats", "follow")


@with_texts
@dataclass
class SelfPlay:
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
    def reference_prompt(self) -> PromptOptions | None:
        """The prompts of the reference, if they are not those of training."""
        given = dict(self.reference or {})
        told, prompt = given.pop("instruction", ""), given.pop("prompt", {})
        kinds = [type(told), type(given.pop("model", "")), type(prompt)]
        if given or kinds != [str, str, dict]:
            raise ValueError(
                "want reference as {model: PATH, instruction: TEXT, prompt: OPTIONS}, "
                f"got {self.reference!r:.200}"
            )
        if not told and not prompt:
            return None
        refuse_unknown("the prompt of reference", prompt, PROMPT_OPTIONS)
        own = {name: getattr(self, name) for name in PROMPT_OPTIONS} | prompt
        own["persona"] = " ".join(filter(None, (own["persona"], told)))
        found = PromptOptions(**own)
        if found.history != "state" or self.on_invalid == "retry":
            raise ValueError(
                "a reference with prompts of its own needs history='state' and no "
                f"retries, got history={found.history!r} and "
                f"on_invalid={self.on_invalid!r}; set both"
            )
        return found

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
        check_critic(self)
        self._check_rows()
        check_roles(self)
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
        betas = [one.get("beta", beta) for one in self.roles.values()] or [beta]
        return any([*betas, *("reference" in term.needs for term in terms)])

    def branching(self, seats: Sequence[int]) -> Branching | None:
        """The branching of training episodes; None without `branch`.

        Args:
            seats: seats that branch if `branch` names none.
        """
        return branching_of("branch", self.branch, seats=seats)

    def _check_terms(self) -> None:
        terms, of_trl = terms_of(self.losses, self.layout), vars(self)
        own = [term.name for term in terms if term.surrogate]
        for name, default in OF_SURROGATE.items():
            if own and of_trl.get(name, default) != default:
                raise ValueError(
                    f"{name} is of TRL's surrogate, in whose place {own[0]!r} stands; "
                    "leave one of the two out"
                )
        if self.reference is not None and not self.reads_reference:
            raise ValueError(
                "nothing reads the reference; set beta, or a term such as kl_to in "
                "losses"
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
        if self.flat_groups == "drop" and self.branch is not None:
            raise ValueError(
                "flat_groups='drop' does not support branch: the candidates of a turn "
                "tree share the rewards before them; leave one of the two out"
            )

    def _check_oversample(self) -> None:
        of_trl: Any = self
        times, size = self.oversample, of_trl.num_generations or 0
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
        if self.branch is not None:
            raise ValueError(
                "oversample does not support branch: the candidates of a turn tree "
                "share the turns before them; leave one of the two out"
            )

    def _check_rows(self) -> None:
        if self.layout == "trajectory" and self.history != "transcript":
            raise ValueError(
                "layout='trajectory' needs history='transcript', in which a seat's "
                f"prompt begins with its earlier turns, got {self.history!r}"
            )
        loss_type = getattr(self, "loss_type")  # noqa: B009 # a field of TRL
        if self.weighting == "turn" and loss_type not in PER_TOKEN_LOSSES:
            raise ValueError(
                "weighting='turn' needs a loss that averages over all tokens, got "
                f"loss_type={loss_type!r}; set one of {PER_TOKEN_LOSSES}"
            )


def branching_of(
    where: str, given: Mapping[str, Any] | None, **defaults: Any
) -> Branching | None:
    """The branching that options name; raises ValueError for options that do not fit."""
    if given is None:
        return None
    refuse_unknown(where, given, BRANCH_OPTIONS)
    if "num_candidates" not in given:
        raise ValueError(f"want num_candidates in {where}, got {dict(given)!r}")
    return Branching(**{**defaults, **given})


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
    found: dict[str, Any] = json.loads(LIST.read_text(encoding="utf-8"))
    return found


def listed_options() -> dict[str, Option]:
    """The fields of `TurnGRPOConfig`, those of TRL from the list, without importing TRL."""
    listed = [
        Option(**{**o, "types": tuple(o["types"]), "choices": tuple(o["choices"])})
        for o in _list()["options"]
    ]
    return {one.name: one for one in listed} | options_of(SelfPlay)


def installed_versions() -> dict[str, str | None]:
    """The installed versions of TRL and transformers; None if one is missing."""
    found: dict[str, str | None] = {}
    for package in SOURCES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


def is_of_installed_versions() -> bool:
    """Whether the list was made with the installed versions."""
    return dict(_list()["made_with"]) == installed_versions()


def part_weights(args: Any, functions: Collection[str]) -> dict[str, float]:
    """Weights of the parts of the reward, by name.

    These are the parts in `part_weights`, and those that column functions supply. A supplied
    part has weight 0 unless `part_weights` sets it.
    """
    given = [part for name in functions if (part := part_of(name))]
    weighted = dict.fromkeys(args.rewards, 1.0)  # as far as checks go
    return {**dict.fromkeys(given, 0.0), **weighted, **args.part_weights}


def check_part_weights(args: Any, functions: Collection[str]) -> None:
    """Checks the names and weights of `part_weights`.

    Raises:
        ValueError: a weight for an unknown part, or weight 0 for the part that the
            estimator needs as a reward (`paid_part` of its `needs`).
    """
    for name in args.rewards:
        if name in args.part_weights or name in PARTS:
            raise ValueError(
                f"want the weight of {name!r} in rewards or in part_weights, got both; "
                "leave one out, or give it another name"
            )
    known = [*PARTS, *(part for name in functions if (part := part_of(name)))]
    for name in args.part_weights:
        told = f"part_weights names {name!r}, which is not a reward part"
        check_known(name, known, told)
    option = needs_of(find_estimator(args.credit)).paid_part
    if option is None:
        return
    part = {**credit.default_options(args.credit), **args.credit_args}[option]
    if part_weights(args, functions).get(part, 1.0) == 0:
        raise ValueError(
            f"credit {args.credit!r} needs as {option} a reward part with a weight "
            f"other than 0, got {part!r} with weight 0; set part_weights to "
            f"{{{part!r}: 1.0}}"
        )


NUM_GAMES = 100  # random games that are played to see whether seats are paid early
SLACK = 1e-9  # rounding of a sum of rewards


def return_bounds(
    game: AnyGame, args: Any, weights: Mapping[str, float]
) -> tuple[float, float]:
    """Bounds of the weighted return of a trajectory, forfeits and penalties included.

    Args:
        game: the rules.
        args: settings; `penalty`, `on_invalid` and `max_retries` set the cost of invalid
            replies.
        weights: weights of the reward parts; 1 where none is given.
    """
    found = part_bounds(game, args)
    ends = [_times(found[part], weights.get(part, 1.0)) for part in PARTS]
    return sum(low for low, _ in ends), sum(high for _, high in ends)


def part_bounds(game: AnyGame, args: Any) -> dict[str, tuple[float, float]]:
    """Bounds of each part of a trajectory's return, without weights.

    The game's part lies within `bounds_of` the game. These bounds are
    widened if a seat is paid before its first turn: a trajectory begins with this turn, so
    it lacks the early payment, and the seat may lose it again later.
    """
    low, high = bounds_of(game)
    limited = [s for s in args.games if isinstance(s, dict) and s.get("max_turns")]
    if limited or args.curriculum is not None:
        low, high = (
            min(low, 0.0),
            max(high, 0.0),
        )  # an episode may be cut before any payment
    if pays_early(game):
        low, high = low - max(high, 0.0), high - min(low, 0.0)
    invalid = {
        "forfeit": 1 if game.num_players < 3 else game.max_turns,
        "retry": args.max_retries * game.max_turns + 1,
        "random": game.max_turns,
    }[args.on_invalid]
    return {"game": (low, high), "format": (-args.penalty * invalid, 0.0)}


def _times(ends: tuple[float, float], weight: float) -> tuple[float, float]:
    low, high = sorted(weight * end + 0.0 for end in ends)  # no -0
    return low, high


def pays_early(game: AnyGame) -> bool:
    """Whether random play finds an episode that pays a seat before its first turn."""
    rng = random.Random(0)
    for _ in range(NUM_GAMES):
        moved = set[int]()
        for state, player in random_states(game, rng):
            if moved.issuperset(range(game.num_players)):
                break
            paid = game.returns(state)
            if any(paid[seat] for seat in range(len(paid)) if seat not in moved):
                return True
            moved.add(player)
    return False


def check_bounds(
    args: Any, games: Sequence[AnyGame], weights: Mapping[str, float]
) -> None:
    """Raises if a return can lie outside of the bounds that the estimator's options set.

    Which options these are is declared by the estimator (`return_bounds` of `needs`). A
    bound may be a number, or a mapping from parts of the reward to numbers.

    Raises:
        ValueError: names the bound and the value that it needs.
    """
    options = {**credit.default_options(args.credit), **args.credit_args}
    names = needs_of(find_estimator(args.credit)).return_bounds or ()
    for side, name in enumerate(names):
        given = options[name]
        by_part = given if isinstance(given, Mapping) else {None: given}
        for part, bound in by_part.items():
            if not isinstance(bound, Real):
                continue  # the estimator checks it
            what = name if part is None else f"{name}[{part!r}]"
            _check_known(args, weights, what, part)
            # a part of weight 0 is read without weight
            weight = weights.get(part or "", 1.0) or 1.0
            for game in games:
                ends = return_bounds(game, args, weights)
                if part is not None:
                    ends = _times(part_bounds(game, args)[part], weight)
                end = ends[side]
                beyond = float(bound) - end if side == 0 else end - float(bound)
                if beyond > SLACK:
                    raise ValueError(
                        f"want a {what} of {end:g} or {('less', 'more')[side]}, got "
                        f"{bound!r}: {type(game).__name__} can pay {end:g}, with "
                        "penalties and part_weights"
                    )


def _check_known(
    args: Any, weights: Mapping[str, float], what: str, part: str | None
) -> None:
    """Raises if a bound is set for a part of the reward without known bounds."""
    counted = [part] if part is not None else [p for p in weights if weights[p]]
    others = [other for other in counted if other not in PARTS]
    if others:
        raise ValueError(
            f"credit {args.credit!r} cannot check {what}: the bounds of the reward "
            f"part {others[0]!r} are not known; leave {what} out"
        )


ALWAYS = (
    *("game", "episode", "seat", "turn", "group", "team"),
    *("terminated", "truncated"),
)
COUNTS = ("num_tokens", "row_length")
ON_DEMAND = (
    *("state_key", "action", "opponent", "role"),
    *("tokens.entropy", "tokens.logprob"),
)
PROVIDED = (
    *ALWAYS,
    *COUNTS,
    *(f"rewards.{part}" for part in PARTS),
    *ON_DEMAND,
)


class OfCritic(NamedTuple):
    """The columns that a critic supplies, its options, and further columns that it reads."""

    columns: tuple[str, ...]
    options: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()


_FITTED, _CRITICS = ("hidden_size", "learning_rate"), "arena_trainers.train.critics"
_VALUES = ("value", "next_value")
OF_CRITIC = {  # of those of this package, whose module imports torch
    "features": OfCritic(_VALUES, (*_FITTED, "num_steps"), ("features",)),
    "exact": OfCritic((*_VALUES, "action_value")),
    "tokens": OfCritic(
        ("tokens.value", *_VALUES), (*_FITTED, "loss_weight", "shared", "clip")
    ),
    "utterances": OfCritic(
        (*_VALUES, "action_value"),
        (*_FITTED, "num_steps", "batch_size", "replay", "polyak"),
    ),
}
critics: Door[Any] = Door(
    "critic",
    "arena.critics",
    {
        "features": f"{_CRITICS}:FeatureCritic",
        "exact": f"{_CRITICS}:ExactCritic",
        "tokens": f"{_CRITICS}:TokenCritic",
        "utterances": f"{_CRITICS}:UtteranceCritic",
    },
    given=("games", "discount", "seed", "seats", "options", "weight", "trainer"),
    kit=f"{_CRITICS}:check_critic",
)


def of_critic(critic: str | None) -> OfCritic:
    """What is known of a critic; a plug-in declares `supplies` and `reads`."""
    if critic is None or critic in OF_CRITIC:
        return OF_CRITIC[critic] if critic else OfCritic(())
    made = critics.find(critic)
    supplies, reads = getattr(made, "supplies", _VALUES), getattr(made, "reads", ())
    return OfCritic(tuple(supplies), reads=tuple(reads))


BRANCH_COLUMNS = ("parent", "branch", "unselected")
PER_BATCH_IDS = (
    *("group", "episode", "rollout", "parent"),
    *("state_key", "action", "opponent", "role"),
)  # the same number means something else in the next batch
FUNCTION = "set columns={'NAME': 'my_module:my_function'}"
CRITICS = (
    "set critic='features', or 'exact' for games that can be enumerated, or 'tokens'"
)
ABSENT = {
    "value": f"{CRITICS}, or {FUNCTION}",
    "next_value": CRITICS,
    "action_value": "set critic='exact', for games that can be enumerated, or "
    f"'utterances', or {FUNCTION}",
    "tokens.value": "set critic='tokens'",
    **dict.fromkeys(BRANCH_COLUMNS, "episodes do not branch; set branch"),
    "stratum": f"games define no strata; {FUNCTION}",
    "rollout": "trajectories are not cut into segments; choose another column",
}


def check_credit_columns(args: Any, functions: Collection[str] = ()) -> tuple[str, ...]:
    """The columns that the estimator reads.

    These are the columns that it declares with `needs` and the columns that its options
    name, such as `pool` or, for token columns, `metric`.

    Args:
        args: settings.
        functions: names of the columns that the user's functions give.

    Raises:
        ValueError: unknown estimator; a column that rollouts do not give (the message says
            what to set); a critic whose values are not read; turn trees for an estimator
            that compares whole trajectories; a state that is kept by columns whose numbers
            change from batch to batch.
    """
    named = _named_columns(args)
    needed = credit.needed_columns(args.credit, args.within_turn)
    optional = _columns_with_options(args)
    wanted = tuple(dict.fromkeys([*needed, *named, *optional]))
    provided = (*PROVIDED, *functions)
    supplied = of_critic(args.critic).columns
    provided += supplied
    if args.branch is not None:
        _check_branch(args, wanted)
        provided += BRANCH_COLUMNS
        wanted = tuple(dict.fromkeys([*wanted, *BRANCH_COLUMNS]))
    _check_provided(args, [*named, *wanted], provided)
    if args.critic is not None and not {*supplied} & {*wanted}:
        raise ValueError(
            f"credit {args.credit!r} reads no values of critic={args.critic!r}; leave "
            "critic out, or give --critic null where a recipe has one"
        )
    check_engine_columns(args, wanted)
    return tuple(dict.fromkeys([*wanted, *functions]))


def _columns_with_options(args: Any) -> list[str]:
    """The columns that the estimator reads while an option is true, as it is now."""
    by_option = needs_of(find_estimator(args.credit)).with_option
    options = {**credit.default_options(args.credit), **args.credit_args}
    return [
        name
        for option, names in by_option.items()
        if options.get(option) is True
        for name in names
    ]


def _check_branch(args: Any, wanted: Collection[str]) -> None:
    """Raises if the estimator cannot train on turn trees, or on those of `follow`."""
    needs, branching = needs_of(find_estimator(args.credit)), args.branching(())
    if needs.compares_trajectories or "state_key" not in wanted:
        known = estimators_with(_compares_states)
        raise ValueError(
            f"TurnGRPOTrainer does not support branch with credit {args.credit!r}: "
            "want an estimator that compares only turns of the same state, such as "
            f"{known}"
        )
    if branching and branching.follow == "best" and not needs.unselected_only:
        known = estimators_with(lambda needs: needs.unselected_only)
        raise ValueError(
            f"credit {args.credit!r} does not support turns that were selected by "
            "their return, got branch with follow='best'; set follow='random' or "
            f"'all', or credit to {known}"
        )


def _compares_states(needs: Needs) -> bool:
    return "state_key" in needs.columns and not needs.compares_trajectories


def _named_columns(args: Any) -> list[str]:
    """The columns that options name; raises if a kept state cannot be keyed by them."""
    named = [
        name
        for value in args.credit_args.values()
        if isinstance(value, list | tuple)
        for name in value
        if name in INT_COLUMNS
    ]
    mixed = [name for name in named if name in PER_BATCH_IDS]
    if mixed and keeps_state(find_estimator(args.credit)):
        raise ValueError(
            f"credit {args.credit!r} keeps a state, but the numbers of {mixed[0]!r} "
            "change from batch to batch; want columns such as 'game' and 'seat', got "
            f"{named}"
        )
    tokens = [f"tokens.{value}" for value in args.credit_args.values()]
    read = [name for name, value in args.credit_args.items() if value == "column"]
    return named + read + [name for name in tokens if name in ON_DEMAND]


def _check_provided(args: Any, wanted: Sequence[str], provided: Sequence[str]) -> None:
    """Raises if the rollouts lack a column; the message says what to set."""
    own = credit.needed_columns(args.credit)
    within = credit.needed_columns(args.credit, args.within_turn)
    for name in wanted:
        if name in provided:
            continue
        reason = ABSENT.get(name, f"choose from {', '.join(provided)}")
        if part_of(name):
            reason = f"no function supplies this reward part; {FUNCTION}"
        if name in BRANCH_COLUMNS and "state_key" not in wanted:
            reason = "rollouts have no workers; choose another estimator or column"
        who = f"credit {args.credit!r}"
        if name in within and name not in own:
            who += f" with within_turn={args.within_turn!r}"
        raise ValueError(
            f"{who} needs the column {name!r}, which these rollouts do not have: "
            + reason.replace("NAME", name)
        )


def check_credit(
    args: Any,
    games: Sequence[AnyGame] = (),
    functions: Mapping[str, Supplier] | None = None,
) -> tuple[str, ...]:
    """Tests the estimator on a small batch with the columns of a real one.

    Args:
        args: settings.
        games: the games to train on; the test batch has their lowest and highest returns.
        functions: the user's functions and reward models, by column.

    Returns:
        The columns to collect: those that the estimator reads, and those of the functions.

    Raises:
        ValueError: unknown estimator or option; a reward with another discount than the
            estimator; a column that rollouts do not give; a function whose column does not
            affect the credit; bounds that a return can lie outside of; weights of reward parts
            that do not fit the estimator; a part of the reward that a game cannot pay.
    """
    try_parts(parts_of(args.rewards), games)
    functions = {} if functions is None else functions
    credit.check_options(args.credit, args.credit_args)
    check_discounts(args)
    by_critic = of_critic(args.critic).columns
    taken = {*PROVIDED, *by_critic}
    check_functions(functions, taken)
    wanted = check_credit_columns(args, functions)
    weights = part_weights(args, functions)
    check_part_weights(args, functions)
    check_bounds(args, games, weights)
    turns = trial_records(games, functions)
    names = [str(number) for number in range(max(len(games), 1))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", credit.FlatPoolWarning)
        batch = turn_batch([turns], weights, names, wanted, [(0,)] * len(names))
        size = len(turns)
        for name in by_critic:
            values = np.full(size, np.nan if name == "next_value" else 0.0)
            given: dict[str, Any] = {name: values}
            if name == "tokens.value":
                given = {
                    "tokens": {**(batch.tokens or {}), "value": np.zeros(2 * size)}
                }
            batch = replace(batch, **given)
        result = estimate_credit(args, batch, None)
        for name in functions:
            if not weights.get(part_of(name) or "", 0.0):  # a paid part is read
                _check_read(args, batch, name, result)
    return wanted


def trial_records(
    games: Sequence[AnyGame], functions: Collection[str] = ()
) -> list[TurnRecord]:
    """Two turns of each game: one is paid the lowest return, one the highest."""
    ranges = [bounds_of(game) for game in games] or [(0.0, 1.0)]
    tokens = {"entropy": [0.5, 1.0], "logprob": [-1.0, -2.0]}
    found = []
    for game, ends in enumerate(ranges):
        for i, paid in enumerate(ends):
            parts = {part: float(i) for n in functions if (part := part_of(n))}
            rewards = {**dict.fromkeys(PARTS, 0.0), "game": paid, **parts}
            record = TurnRecord(
                game=game,
                seed=0,
                episode=2 * game + i,
                place=0,
                seat=0,
                turn=0,
                rewards=rewards,
                num_tokens=2,
                row_length=4,
                terminated=True,
                truncated=False,
                state=i,
                action=i,
                tokens=tokens,
                supplied={name: i for name in functions if name in SUPPLIED},
            )
            found.append(record)
    return found


def _check_read(
    args: Any, batch: credit.TurnBatch, name: str, result: credit.Credit
) -> None:
    """Raises if the column does not affect the credit."""
    parts = {k: v for k, v in (batch.rewards or {}).items() if k != part_of(name)}
    columns: dict[str, Any] = {} if part_of(name) else {name: None}
    without = replace(batch, rewards=parts, **columns)
    try:
        same = estimate_credit(args, without, None).advantage == result.advantage
    except ValueError:
        return
    if np.all(same):
        raise ValueError(
            f"credit {args.credit!r} does not read {name!r}; leave it out of columns"
        )


def estimate_credit(
    args: Any, batch: credit.TurnBatch, state: Mapping[str, Any] | None
) -> credit.Credit:
    """The configured estimator's credit.

    Warns only if all advantages are 0. Single flat pools are counted in the metrics.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", credit.FlatPoolWarning)
        result = credit.estimate(
            args.credit,
            batch,
            state=state,
            within_turn=args.within_turn,
            **args.credit_args,
        )
    is_new = batch.action_value is not None and not batch.action_value.any()  # a critic
    if not result.advantage.any() and not is_new:
        warnings.warn(
            "all advantages of this batch are 0, since every pool has equal returns or a "
            "single turn; set a wider pool in credit_args, or more episodes_per_step",
            credit.FlatPoolWarning,
            stacklevel=2,
        )
    return result


def check_discounts(args: Any) -> None:
    """Raises ValueError for a potential with another discount than that of the credit."""
    discount = discount_of(args.credit, args.credit_args)
    for name in [n for n in ("milestones", "belief_gain") if n in args.rewards]:
        given = args.rewards[name] or {}
        own = given.get("discount", 1.0)
        # turns that change nothing would be paid, or the optimum would change
        if own != discount and given.get("potential", True):
            raise ValueError(
                f"want the discount of the credit, {discount!r}, in rewards[{name!r}], "
                f"got {own!r}"
            )


def discount_of(estimator: str, options: Mapping[str, Any]) -> float:
    """The discount of an estimator with these options; its critic uses the same."""
    found = {**credit.default_options(estimator), **options}.get("discount", 1.0)
    return float(found)
