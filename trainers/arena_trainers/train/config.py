"""`TurnGRPOConfig`: TRL's `GRPOConfig` with options for self-play and turn-level credit."""

import os
from dataclasses import dataclass, field
from typing import Any

from trl import GRPOConfig

from arena_trainers.train.checks import (
    check_ranges,
    refuse_saving_between_generations,
    refuse_what_is_not_supported,
)
from arena_trainers.train.engine import correction_mode
from arena_trainers.train.own_options import MAX_REPLY_TOKENS, OwnOptions
from arena_wrappers import PromptOptions
from arena_wrappers.prompts import PROMPT_OPTIONS


@dataclass
class TurnGRPOConfig(OwnOptions, GRPOConfig):
    """Settings of `TurnGRPOTrainer`; every inherited field keeps TRL's default.

    `vllm_mode="server"` is not TRL's server, see `arena_trainers.train.server_weights`.

    One training row is one turn, so `max_completion_length` limits the reply of a turn.
    Choose a `loss_type` that gives every token the same weight for any number of rows:
    `"dapo"` (TRL's default), `"cispo"` or `"dr_grpo"`.

    Args:
        games (`list[str | dict]`, *optional*, defaults to `["kuhn_poker"]`):
            Games to train on: an id, or `{"id": ..., "params": {...}, "max_turns": 40,
            "weight": 1.0, "opponents": [...]}`. Episodes are truncated after `max_turns`
            turns of all seats together. There is no limit by default. `"knobs": True`, or a
            list of names, lists the game once for each value of its knobs.
        opponents (`str | list[str] | dict`, *optional*, defaults to `"self"`):
            Policy of each seat: `"self"` is the model that learns; other policies are
            strings such as `"random"`, `"mcts:100"` or `"lm:PATH"`. A list names one for
            each seat. One policy alone plays all seats but one, which is drawn for each
            start and learns. Or a matchmaker, which assigns the seats of each start: its name,
            such as `"past_selves"`, or `{"past_selves": {"every": 10}}` with
            its options. See `arena_trainers.matchmaking`.
        curriculum (`str | dict`, *optional*):
            Chooses the game of each start and a limit of turns: a name, or
            `{"horizon": {"horizons": [4, 8, None]}}` with options. See
            `arena_trainers.curricula`. By default games start by their `weight`.
        credit (`str`, *optional*, defaults to `"mars"`):
            Estimator of `arena_trainers.credit`, a plug-in, or `"module:function"` of your
            own. The trainer raises when it is made if it lacks a column that the
            estimator reads; its `columns` can supply some of them.
        credit_args (`dict`, *optional*):
            Options of the estimator.
        within_turn (`str`, *optional*, defaults to `"uniform"`):
            How tokens share the advantage of their turn: `"uniform"`, or by `"entropy"`
            (biased, see `by_token_entropy`). `"values"` needs values of tokens, which no
            critic gives.
        critic (`str`, *optional*):
            Source of the columns `value` and `next_value`. `"features"`: a small network on
            `Game.features`. `"exact"`: enumeration of the game under the policies that play
            (`ExactCritic`), which also gives `action_value`.
        critic_args (`dict`, *optional*):
            Options of `FeatureCritic`: `hidden_size`, `learning_rate`, `num_steps`.
        branch (`dict`, *optional*):
            Options of `Branching`: training episodes become turn trees. Turns that were
            selected by their return are not trained on. Batch sizes count the episodes that
            others branch from. By default the seats that learn branch. The estimator must
            compare only turns of the same state.
        flat_groups (`str`, *optional*, defaults to `"keep"`):
            Treatment of groups in which all trajectories of each seat have the same
            reward: `"keep"`, or `"drop"`, which selects data by its returns. See
            `arena_trainers.train.play` for the bias.
        max_replays (`int`, *optional*, defaults to `0`):
            How often such a group is played again before it is dropped.
        oversample (`int`, *optional*, defaults to `1`):
            Trajectories played for each one that is trained. Wins with few invalid replies
            are preferred, which selects data; see `arena_trainers.train.play`.
        layout (`str`, *optional*, defaults to `"turn"`):
            Content of a training row: one `"turn"`, or a seat's whole `"trajectory"` with
            the words of others masked. `"trajectory"` needs `history="transcript"`.
        weighting (`str`, *optional*, defaults to `"token"`):
            Level at which the loss is averaged. `"token"`: as `loss_type` does.
            `"turn"`: over seats, then trajectories, then turns, then tokens (MARS,
            equation 3); needs a `loss_type` that averages over tokens. The KL term is
            averaged as `loss_type` does.
        reply_format (`str`, *optional*, defaults to `"answer"`):
            Reply format of the prompts.
        history (`str`, *optional*, defaults to `"state"`):
            Content of prompts: the current `"state"`, or a `"transcript"` of the episode.
        rules (`bool`, *optional*, defaults to `True`):
            Whether prompts contain the rules.
        show_legal_actions (`bool`, *optional*, defaults to `True`):
            Whether prompts list the legal actions.
        on_invalid (`str`, *optional*, defaults to `"forfeit"`):
            Reaction to an invalid reply: `"forfeit"`, `"retry"` or `"random"`.
        penalty (`float`, *optional*, defaults to `0.5`):
            Cost of an invalid reply, in the `format` part of the reward.
        max_retries (`int`, *optional*, defaults to `2`):
            How often a seat is asked again with `on_invalid="retry"`.
        parsing (`str`, *optional*, defaults to `"strict"`):
            How replies are read: `"strict"` or `"tolerant"`.
        part_weights (`dict[str, float]`, *optional*):
            Weights of the reward parts. Default: 1 for `game` and `format`; 0 for parts
            that the trainer's `columns` give, which are then read but not paid.
        episodes_per_step (`int`, *optional*):
            Episodes per optimizer step of all processes together. Sets
            `per_device_train_batch_size`, which counts episodes here.
        rollout_batch_size (`int`, *optional*):
            Largest number of prompts per call of the model during play. Default: no limit.
        max_tokens_per_forward (`int`, *optional*):
            Largest number of tokens, padding included, that run through the model at once
            in training. The gradient is the same for any bound. A lower bound takes less
            memory and about 40 % more time. Default: from the model's size and the free
            memory.
        vllm_importance_sampling_mode (`str`, *optional*):
            As in TRL. Default: `"token_truncate"` with `layout="trajectory"`, where a row
            holds several turns, else TRL's `"sequence_mask"`.
        num_starts (`int`, *optional*):
            Number of different starts (seeds). Each is played `num_generations` times.
            Default: enough for `max_steps` without repetition, or 1000.
    """

    games: list[Any] = field(
        default_factory=lambda: ["kuhn_poker"],
        metadata={
            "help": "Games to train on: ids, or dicts of id, params, max_turns, weight, "
            "opponents, knobs."
        },
    )
    opponents: Any = field(
        default="self",
        metadata={
            "help": "Who plays: 'self', a policy against the learner, a list of seats, or "
            "a matchmaker: past_selves, prioritised, psro, mixture."
        },
    )
    curriculum: Any = field(
        default=None,
        metadata={"help": "Tasks of starts: weights, stages, horizon or band."},
    )
    credit: str = field(
        default="mars", metadata={"help": "Estimator of turn-level credit."}
    )
    credit_args: dict[str, Any] = field(
        default_factory=dict, metadata={"help": "Options of the estimator."}
    )
    within_turn: str = field(
        default="uniform",
        metadata={
            "help": "How tokens share their turn's advantage: 'uniform' or 'entropy'."
        },
    )
    critic: str | None = field(
        default=None,
        metadata={
            "help": "Critic: 'features' (a network) or 'exact' (in small games); none by "
            "default."
        },
    )
    critic_args: dict[str, Any] = field(
        default_factory=dict, metadata={"help": "Options of the critic."}
    )
    branch: dict[str, Any] | None = field(
        default=None,
        metadata={"help": "Options of `Branching`, to train on turn trees."},
    )
    flat_groups: str = field(
        default="keep",
        metadata={"help": "Groups without spread: 'keep' or 'drop'."},
    )
    max_replays: int = field(
        default=0, metadata={"help": "Times that a flat group is played again."}
    )
    oversample: int = field(
        default=1,
        metadata={"help": "Trajectories per trained one; clean wins are preferred."},
    )
    layout: str = field(
        default="turn",
        metadata={"help": "Content of a training row: 'turn' or 'trajectory'."},
    )
    weighting: str = field(
        default="token",
        metadata={"help": "Level at which the loss is averaged: 'token' or 'turn'."},
    )
    reply_format: str = field(
        default="answer", metadata={"help": "Reply format of the prompts."}
    )
    history: str = field(
        default="state",
        metadata={"help": "Prompts: 'state' or 'transcript'."},
    )
    rules: bool = field(
        default=True, metadata={"help": "Whether prompts contain the rules."}
    )
    show_legal_actions: bool = field(
        default=True, metadata={"help": "Whether prompts list the legal actions."}
    )
    on_invalid: str = field(
        default="forfeit",
        metadata={
            "help": "Reaction to an invalid reply: 'forfeit', 'retry' or 'random'."
        },
    )
    penalty: float = field(default=0.5, metadata={"help": "Cost of an invalid reply."})
    max_retries: int = field(
        default=2,
        metadata={"help": "How often a seat is asked again after an invalid reply."},
    )
    parsing: str = field(
        default="strict",
        metadata={"help": "How replies are read: 'strict' or 'tolerant'."},
    )
    part_weights: dict[str, float] = field(
        default_factory=dict,
        metadata={"help": "Weights of the reward parts, such as {format: 0.5}."},
    )
    episodes_per_step: int | None = field(
        default=None, metadata={"help": "Episodes per optimizer step."}
    )
    rollout_batch_size: int | None = field(
        default=None,
        metadata={"help": "Largest number of prompts per call of the model."},
    )
    max_tokens_per_forward: int | None = field(
        default=None,
        metadata={
            "help": "Most tokens in one training pass; by default what memory allows."
        },
    )
    vllm_importance_sampling_mode: str | None = field(  # type: ignore[assignment] # filled in
        default=None,
        metadata={
            "help": "Mode of the importance-sampling correction with use_vllm; by default "
            "'token_truncate' where a row is a trajectory, else 'sequence_mask'."
        },
    )
    num_starts: int | None = field(
        default=None,
        metadata={
            "help": "Number of different starts (seeds); by default enough for max_steps."
        },
    )

    def __post_init__(self) -> None:
        self.check_own()
        if self.episodes_per_step is not None:
            processes = int(os.environ.get("WORLD_SIZE", "1"))
            share = processes * self.gradient_accumulation_steps
            if self.episodes_per_step < 1 or self.episodes_per_step % share:
                raise ValueError(
                    f"want episodes_per_step divisible by {share} (processes times "
                    f"gradient_accumulation_steps), got {self.episodes_per_step}"
                )
            self.per_device_train_batch_size = self.episodes_per_step // share
        if self.vllm_importance_sampling_mode is None:
            self.vllm_importance_sampling_mode = correction_mode(self)
        super().__post_init__()
        check_ranges(self)
        refuse_what_is_not_supported(self)
        refuse_saving_between_generations(self)

    @property
    def generations_per_step(self) -> float:
        """Generation batches per optimizer step; below 1 if several steps share a batch."""
        reuse = (self.steps_per_generation or 1) * self.num_iterations
        return self.gradient_accumulation_steps / reuse

    @property
    def window(self) -> int:
        """Optimizer steps that share a generation batch; `save_steps` is a multiple."""
        return round(1 / min(self.generations_per_step, 1.0))

    @property
    def prompt(self) -> PromptOptions:
        """Options of prompts and of the parsing of replies."""
        return PromptOptions(**{n: getattr(self, n) for n in PROMPT_OPTIONS})

    @property
    def sampling_options(self) -> dict[str, Any]:
        """Arguments of the `LMPolicy`, except for its `prompt`."""
        return {
            "max_new_tokens": self.max_completion_length or MAX_REPLY_TOKENS,
            "temperature": self.temperature,
            "top_k": self.top_k,
            "top_p": self.top_p,
            "min_p": self.min_p or 0.0,
            "repetition_penalty": self.repetition_penalty,
            "batch_size": self.rollout_batch_size,
            "chat_template_kwargs": self.chat_template_kwargs,
        }
