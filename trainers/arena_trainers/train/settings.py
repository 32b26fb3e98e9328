"""`SelfPlay`: the options that self-play adds to TRL's, each with the check of its value.

`TurnGRPOConfig` has them, and so has `Draft`, which is made before TRL is imported. This module imports
neither TRL nor torch.
"""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from arena_credit.by_name import with_options
from arena_envs.registry import split
from arena_trainers.curricula import curricula
from arena_trainers.losses import terms_of
from arena_trainers.matchmaking import make_matchmaker, matchmakers
from arena_trainers.matchmaking.by_name import names_matchmaker
from arena_trainers.options import (
    check_declared,
    option,
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
from arena_trainers.train.roles import check_roles
from arena_trainers.train.rows import PER_TOKEN_LOSSES
from arena_trainers.train.trl_options import TRLOptions
from arena_wrappers import Branching, PromptOptions
from arena_wrappers.prompts import DATE, PROMPT_OPTIONS

# options of TRL's surrogate, with their defaults
OF_SURROGATE = {
    "delta": None,
    "top_entropy_quantile": 1.0,
    "off_policy_mask_threshold": None,
    "importance_sampling_level": "token",
}
MAX_REPLY_TOKENS = 256  # if the settings give no limit
BRANCH_OPTIONS = ("num_candidates", "turns", "seats", "follow")


@with_texts
@dataclass
class SelfPlay(TRLOptions):
    """The options that self-play adds to TRL's."""

    games: list[Any] = option(
        ["kuhn_poker"],
        group="Games and prompts",
        help="Games to train on: ids, or dicts of id, params, max_turns, weight, "
        "opponents, knobs, ladder. Episodes are truncated after `max_turns` turns of all "
        "seats together; there is no limit by default. `knobs: true`, or a list of "
        "names, lists the game once for each value of its knobs. `ladder: [random, "
        "'mcts:10']` lists it once for each opponent.",
    )
    opponents: Any = option(
        "self",
        group="Games and prompts",
        help="Players: 'self', a policy against the learner, a list of seats, or a "
        f'matchmaker: {", ".join(matchmakers.built_in)}. `"self"` is the model '
        'that learns; other policies are strings such as `"random"`, `"mcts:100"` or '
        '`"lm:PATH"`. A list names one for each seat. One policy alone plays all '
        "seats but one, which is drawn for each start and learns. A matchmaker "
        'assigns the seats of each start: `"past_selves"`, or `{"past_selves": '
        '{"every": 10}}` with its options. See `arena_trainers.matchmaking`.',
    )
    curriculum: Any = option(
        None,
        group="Games and prompts",
        help=f"Tasks of starts: {', '.join(curricula.built_in)}. It chooses the game "
        'of each start and a limit of turns: a name, or `{"horizon": {"horizons": [4, '
        "8, None]}}` with options. See `arena_trainers.curricula`. By default games "
        "start by their `weight`.",
    )
    num_starts: int | None = option(
        None,
        least=1,
        group="Games and prompts",
        help="Number of different starts (seeds); by default enough for max_steps. "
        "Each is played `num_generations` times. Without `max_steps` it is 1000.",
    )
    reply_format: str = option(
        "answer",
        mapping="prompt",
        group="Games and prompts",
        help="Reply format of the prompts.",
    )
    history: Literal["state", "transcript"] = option(
        "state",
        mapping="prompt",
        group="Games and prompts",
        help="Prompts: 'state' or 'transcript'. The current state, or the whole "
        "episode.",
    )
    rules: bool = option(
        True,
        mapping="prompt",
        group="Games and prompts",
        help="Whether prompts contain the rules.",
    )
    show_legal_actions: bool = option(
        True,
        mapping="prompt",
        group="Games and prompts",
        help="Whether prompts list the legal actions.",
    )
    parsing: Literal["tolerant", "strict"] = option(
        "tolerant",
        mapping="prompt",
        group="Games and prompts",
        help="How replies are read: 'tolerant' or 'strict'.",
    )
    persona: str = option(
        "",
        mapping="prompt",
        group="Games and prompts",
        help="Who the player is, in a sentence before the rules.",
    )
    language: str = option(
        "en",
        mapping="prompt",
        group="Games and prompts",
        help="Language of the prompts: 'en', 'de', 'es' or 'zh'. Other than 'en' only "
        "for tic_tac_toe, kuhn_poker, mini_hanabi, say_select and the iterated matrix "
        "games.",
    )
    system: str | None = option(
        None,
        mapping="prompt",
        group="Games and prompts",
        help="Template of the system message, with {rules}, {format}; it may also "
        "name {persona} and {example}.",
    )
    turn: str | None = option(
        None,
        mapping="prompt",
        group="Games and prompts",
        help="Template of the user message, with {text} and {legal}.",
    )
    again: str | None = option(
        None,
        mapping="prompt",
        group="Games and prompts",
        help="Template of the request for another reply, with {fault}.",
    )
    shuffle: bool | int = option(
        0,
        mapping="prompt",
        group="Games and prompts",
        help="Seed of the order in which prompts list the legal actions; 0: the game's order.",
    )
    date: str = option(
        DATE,
        mapping="prompt",
        group="Games and prompts",
        help="The day that chat templates read as today, such as '2026-01-01'.",
    )
    reasoning_marks: list[str] | None = option(
        None,
        mapping="prompt",
        group="Games and prompts",
        help="What begins and ends the model's reasoning, such as ['<think>', "
        "'</think>']. By default learned from the chat template. Empty: the model "
        "does not reason.",
    )
    on_invalid: Literal["forfeit", "retry", "random"] = option(
        "forfeit",
        mapping="prompt",
        group="Games and prompts",
        help="Reaction to an invalid reply: 'forfeit', 'retry' or 'random'.",
    )
    penalty: float = option(
        0.5,
        group="Games and prompts",
        help="Cost of an invalid reply. It is in the `format` part of the reward.",
    )
    max_retries: int = option(
        2,
        mapping="prompt",
        group="Games and prompts",
        help="Retries of a seat after an invalid reply.",
    )
    rewards: dict[str, Any] = option(
        {},
        group="Games and prompts",
        help="Further parts of the reward by name, such as {length: {weight: "
        "-0.001}}. Each has a weight, a number or [from, to] with `over` steps, "
        "`until` a step, or a limit, as in {length: {at_most: 40, rate: 0.001}}; see "
        "`arena_trainers.rewards`.",
    )
    part_weights: dict[str, float] = option(
        {},
        group="Games and prompts",
        help="Weights of the reward parts, such as {format: 0.5}. Default: 1 for "
        "`game` and `format`; 0 for parts that the trainer's `columns` give, which "
        "are then read but not paid.",
    )
    rollout_batch_size: int | None = option(
        None,
        least=1,
        group="Sampling",
        help="Largest number of prompts per call of the model. Default: no limit.",
    )
    vllm_importance_sampling_mode: Any = option(
        None,
        group="Sampling",
        help="Mode of the correction with use_vllm. Default: 'token_truncate' with "
        '`layout="trajectory"`, where a row holds several turns, else TRL\'s '
        "'sequence_mask'.",
    )
    seeds: Literal["request", "engine"] = option(
        "request",
        group="Sampling",
        help="With `use_vllm`: 'request' draws each reply from a seed of its own, so that a "
        "run repeats; 'engine' leaves the draws to vLLM, which is faster, and no run repeats.",
    )
    asynchronous: dict[str, Any] | None = option(
        None,
        group="Sampling",
        help="Play beside training, such as {max_staleness: 1, in_flight: 2}. The "
        "episodes of the next step are played while this one trains, with weights "
        "that are one step old (`max_staleness: 0`: no). At most `in_flight` "
        "generation batches are played and not yet trained.",
    )
    episodes_per_step: int | None = option(
        None,
        least=1,
        group="Episodes and batch",
        help="Episodes per optimizer step. All processes count. It sets "
        "`per_device_train_batch_size`, which counts episodes here.",
    )
    max_tokens_per_forward: int | None = option(
        None,
        least=1,
        group="Episodes and batch",
        help="Most tokens in one training pass; by default what memory allows. "
        "Padding counts. The gradient is the same for any bound. Where half of the "
        "free memory does not hold several passes, most run again: a lower bound then "
        "takes less memory and about 40 % more time.",
    )
    flat_groups: Literal["keep", "drop"] = option(
        "keep",
        mapping="select",
        group="Episodes and batch",
        help="Groups without spread: 'keep' or 'drop'. In these groups all "
        "trajectories of each seat have the same reward. Dropping selects data by its "
        "returns; see `arena_trainers.train.rollout.filters` for the bias.",
    )
    max_replays: int = option(
        0,
        least=0,
        mapping="select",
        group="Episodes and batch",
        help="Times that a flat group is played again. Then it is dropped.",
    )
    oversample: int = option(
        1,
        least=1,
        mapping="select",
        group="Episodes and batch",
        help="Trajectories per trained one; clean wins are preferred. Clean are those "
        "with few invalid replies. This selects data; see "
        "`arena_trainers.train.rollout.filters`.",
    )
    branch: dict[str, Any] | None = option(
        None,
        group="Episodes and batch",
        help="Options of `Branching`, to train on turn trees. Turns that were "
        "selected by their return are not trained on. Batch sizes count the episodes "
        "that others branch from. By default the seats that learn branch. The "
        "estimator must compare only turns of the same state.",
    )
    layout: Literal["turn", "trajectory"] = option(
        "turn",
        group="Episodes and batch",
        help="Content of a training row: 'turn' or 'trajectory'. In a trajectory, "
        "which has all turns of a seat, the words of others are masked. It needs "
        '`history="transcript"`.',
    )
    credit: str = option(
        "control_variates",
        group="Credit",
        help="Estimator of turn-level credit. A name, or 'module:function' of your "
        "own; options may follow as in 'mars(discount=0.9)', or stand in credit_args. "
        "The trainer raises when it is made if it lacks a column that the estimator "
        "reads; its `columns` can supply some of them.",
    )
    credit_args: dict[str, Any] = option(
        {},
        group="Credit",
        help="Options of the estimator.",
    )
    within_turn: Literal["uniform", "entropy", "values"] = option(
        "uniform",
        group="Credit",
        help="How tokens share their turn's advantage: 'uniform' or 'entropy'. By "
        "entropy is biased, see `by_token_entropy`. 'values' reads the values of "
        '`critic="tokens"`.',
    )
    critic: str | None = option(
        None,
        group="Credit",
        help=f"Critic: {', '.join(critics.built_in)} or 'module:name'; "
        "none by default. It gives the columns `value` and `next_value`, and "
        "`action_value` where credit reads it: by small networks on `Game.features`; by "
        "enumeration of the game under the policies that play (`ExactCritic`); by a network "
        "on the model's hidden states (`TokenCritic`), which also gives `tokens.value`; or "
        "by networks with a replay buffer (`UtteranceCritic`).",
    )
    critic_args: dict[str, Any] = option(
        {},
        group="Credit",
        help="Options of the critic, such as {hidden_size: 64, learning_rate: 0.003}. "
        "See `arena_trainers.train.critics`.",
    )
    weighting: Literal["token", "turn"] = option(
        "token",
        group="Optimization",
        help="Level at which the loss is averaged: 'token' or 'turn'. By token is as "
        "`loss_type` does. By turn averages over seats, then trajectories, then "
        "turns, then tokens (MARS, equation 3); it needs a `loss_type` that averages "
        "over tokens. The KL term is averaged as `loss_type` does.",
    )
    agent: str | None = option(
        None,
        group="Optimization",
        help="Agent that the model plays. Such as `planner_worker`, or `module:name` "
        "for one of your own. Each call of the model in a turn is trained as a turn "
        "of its own.",
    )
    roles: dict[Any, Any] = option(
        {},
        group="Optimization",
        help="Learners by role of the agent, or by seat. Such as `{planner: {lora_r: "
        "8}, worker: {lora_r: 8}}`, or `{0: {lora_r: 8}, 1: {lora_r: 8}}`: adapters "
        "on one base model. Without lora_r, as `{planner: {model: PATH}, worker: "
        "{}}`, each trains a whole model, which begins as the model of the run or as "
        "its own. Each may have its own lora_r or model, learning_rate and beta. See "
        "`arena_trainers.train.trainer`.",
    )
    update: Any = option(
        "joint",
        group="Optimization",
        help="Which of the roles a step trains. `joint` is all of them; `{alternate: "
        "20}` one at a time, for 20 steps; `{freeze: [worker]}` all but these. "
        "`sequential` is one after the other on the same episodes, see "
        "`arena_trainers.train.trainer`.",
    )
    reference: dict[str, Any] | None = option(
        None,
        group="Optimization",
        help="What the KL term and terms of the loss compare with: model (a path), "
        "instruction (a sentence of its prompt), prompt (other options of prompts). "
        "By default the model before training, with the prompts of training. The "
        "reply's tokens are the same.",
    )
    losses: dict[str, Any] = option(
        {},
        group="Optimization",
        help="Terms of the loss by name, such as {entropy: {weight: 0.01}}. Each has "
        "a weight, a number or [from, to] with `over` steps, `until` a step, and "
        "options. They are averaged as `loss_type` does; see `arena_trainers.losses`.",
    )

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
        options = dict(self.reference or {})
        model = options.pop("model", "")
        instruction = options.pop("instruction", "")
        prompt = options.pop("prompt", {})
        are_texts = isinstance(model, str) and isinstance(instruction, str)
        if options or not are_texts or not isinstance(prompt, dict):
            raise ValueError(
                "want reference as {model: PATH, instruction: TEXT, prompt: OPTIONS}, "
                f"got {self.reference!r:.200}"
            )
        if not instruction and not prompt:
            return None
        refuse_unknown("the prompt of reference", prompt, PROMPT_OPTIONS)
        values = {name: getattr(self, name) for name in PROMPT_OPTIONS} | prompt
        values["persona"] = " ".join(filter(None, (values["persona"], instruction)))
        prompt_options = PromptOptions(**values)
        if not prompt_options.is_of_state or self.on_invalid == "retry":
            raise ValueError(
                "a reference with prompts of its own needs history='state', shuffle=0 and no "
                f"retries, got history={prompt_options.history!r}, "
                f"shuffle={prompt_options.shuffle} and on_invalid={self.on_invalid!r}; set them"
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
