"""`TurnGRPOConfig`: TRL's `GRPOConfig` with what self-play and turn-level credit add."""

import os
from dataclasses import dataclass, field
from typing import Any

from trl import GRPOConfig

from arena_trainers.train.checks import (
    check_ranges,
    refuse_saving_between_generations,
    refuse_what_is_not_supported,
)
from arena_trainers.train.own_options import OwnOptions
from arena_wrappers import PromptOptions
from arena_wrappers.prompts import PROMPT_OPTIONS

MAX_REPLY_TOKENS = 256  # where the settings give no limit


@dataclass
class TurnGRPOConfig(OwnOptions, GRPOConfig):
    """Settings of `TurnGRPOTrainer`; every inherited field keeps TRL's default.

    One training row is one turn, so `max_completion_length` limits a turn's reply, and
    `loss_type` should be one that weighs tokens alike however many rows there are
    (`"dapo"`, TRL's default, or `"cispo"`, `"dr_grpo"`).

    Args:
        games (`list[str | dict]`, *optional*, defaults to `["kuhn_poker"]`):
            Games to train on: an id, or `{"id": ..., "params": {...}, "max_turns": 40,
            "weight": 1.0, "opponents": [...]}`. Episodes are truncated after `max_turns`
            turns of all seats together; by default they are played to the end.
        opponents (`str | list[str]`, *optional*, defaults to `"self"`):
            Who plays each seat: `"self"` is the model that learns, anything else a policy
            string such as `"random"`, `"mcts:100"` or `"lm:PATH"`. One string stands for
            all seats.
        credit (`str`, *optional*, defaults to `"mars"`):
            Estimator of `arena_trainers.credit`. It gets the columns of the turn batch that
            it reads, some from `columns` of the trainer, or is refused when that is made.
        credit_args (`dict`, *optional*):
            Options of the estimator.
        within_turn (`str`, *optional*, defaults to `"uniform"`):
            How tokens share the credit of their turn: `"uniform"`, or by `"entropy"`
            (biased, see `by_token_entropy`). No critic gives what `"values"` reads.
        critic (`str`, *optional*):
            Who gives the columns `value` and `next_value` to estimators that read them.
            `"features"`: a small network on `Game.features`. `"exact"`: enumeration of the
            game by the policies that play, see `ExactCritic`, which also gives
            `action_value`.
        critic_args (`dict`, *optional*):
            Options of `FeatureCritic`: `hidden_size`, `learning_rate`, `num_steps`.
        branch (`dict`, *optional*):
            Options of `Branching`: training episodes are turn trees, and all their unselected
            turns are trained on. Batch sizes count the episodes that others branch from.
            By default the seats that learn branch. Only with an estimator that compares
            turns of the same state.
        layout (`str`, *optional*, defaults to `"turn"`):
            What a training row holds: one `"turn"`, or a seat's whole `"trajectory"`, what
            others said masked, which takes `history="transcript"`.
        weighting (`str`, *optional*, defaults to `"token"`):
            Whose mean the loss is: `"token"` as `loss_type` says; `"turn"` over seats, then
            trajectories, then turns, then tokens (MARS, equation 3), which takes one of the
            losses that average over tokens. A KL term is averaged as `loss_type` says.
        reply_format (`str`, *optional*, defaults to `"answer"`):
            Reply format of the prompts.
        history (`str`, *optional*, defaults to `"state"`):
            `"state"` or `"transcript"`.
        rules (`bool`, *optional*, defaults to `True`):
            Whether prompts tell the rules.
        show_legal_actions (`bool`, *optional*, defaults to `True`):
            Whether prompts list the legal actions.
        on_invalid (`str`, *optional*, defaults to `"forfeit"`):
            What follows an invalid reply: `"forfeit"`, `"retry"` or `"random"`.
        penalty (`float`, *optional*, defaults to `0.5`):
            What an invalid reply costs, in the `format` part of the reward.
        max_retries (`int`, *optional*, defaults to `2`):
            How often a seat is asked again under `on_invalid="retry"`.
        parsing (`str`, *optional*, defaults to `"strict"`):
            How replies are read: `"strict"` or `"tolerant"`.
        part_weights (`dict[str, float]`, *optional*):
            Weights of the reward parts; 1 for `game` and `format` where none is given, 0
            for parts that the trainer's `columns` give, which are then read but not paid.
        episodes_per_step (`int`, *optional*):
            Episodes per optimizer step, all processes together; sets
            `per_device_train_batch_size`, which counts episodes here.
        rollout_batch_size (`int`, *optional*):
            Most prompts in one call of the model during play; all that wait by default.
        max_tokens_per_forward (`int`, *optional*):
            Most tokens, padding included, that run through the model at once in training. The
            gradient is the same for any bound; a lower one takes less memory and about 40 %
            more time. Default: from the model's size and the memory that is free.
        num_starts (`int`, *optional*):
            Number of different starts (seeds). Each is played `num_generations` times.
            Default: enough that `max_steps` repeat none, or 1000.
    """

    games: list[Any] = field(
        default_factory=lambda: ["kuhn_poker"],
        metadata={
            "help": "Games to train on: ids, or dicts of id, params, max_turns, weight, "
            "opponents."
        },
    )
    opponents: Any = field(
        default="self",
        metadata={
            "help": "Who plays each seat: 'self' or a policy string; one for all, or a list."
        },
    )
    credit: str = field(
        default="mars", metadata={"help": "Estimator of turn-level credit."}
    )
    credit_args: dict[str, Any] = field(
        default_factory=dict, metadata={"help": "Options of the estimator."}
    )
    within_turn: str = field(
        default="uniform",
        metadata={"help": "Tokens share their turn's credit: 'uniform' or 'entropy'."},
    )
    critic: str | None = field(
        default=None,
        metadata={
            "help": "Gives values to estimators: 'features', a network, or 'exact'."
        },
    )
    critic_args: dict[str, Any] = field(
        default_factory=dict, metadata={"help": "Options of the critic."}
    )
    branch: dict[str, Any] | None = field(
        default=None, metadata={"help": "Options of `Branching`: train on turn trees."}
    )
    layout: str = field(
        default="turn",
        metadata={"help": "A training row is a 'turn' or a 'trajectory'."},
    )
    weighting: str = field(
        default="token",
        metadata={"help": "Loss averaged by 'token', or by seat, trajectory, 'turn'."},
    )
    reply_format: str = field(
        default="answer", metadata={"help": "Reply format of the prompts."}
    )
    history: str = field(default="state", metadata={"help": "'state' or 'transcript'."})
    rules: bool = field(
        default=True, metadata={"help": "Whether prompts tell the rules."}
    )
    show_legal_actions: bool = field(
        default=True, metadata={"help": "Whether prompts list the legal actions."}
    )
    on_invalid: str = field(
        default="forfeit",
        metadata={
            "help": "What follows an invalid reply: 'forfeit', 'retry' or 'random'."
        },
    )
    penalty: float = field(
        default=0.5, metadata={"help": "What an invalid reply costs."}
    )
    max_retries: int = field(
        default=2, metadata={"help": "How often an invalid reply may be retried."}
    )
    parsing: str = field(
        default="strict",
        metadata={"help": "How replies are read: 'strict' or 'tolerant'."},
    )
    part_weights: dict[str, float] = field(
        default_factory=dict, metadata={"help": "Weights of the reward parts."}
    )
    episodes_per_step: int | None = field(
        default=None, metadata={"help": "Episodes per optimizer step."}
    )
    rollout_batch_size: int | None = field(
        default=None, metadata={"help": "Most prompts in one call of the model."}
    )
    max_tokens_per_forward: int | None = field(
        default=None,
        metadata={
            "help": "Most tokens in one training pass; by default what memory allows."
        },
    )
    num_starts: int | None = field(
        default=None, metadata={"help": "Number of different starts."}
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
        super().__post_init__()
        check_ranges(self)
        refuse_what_is_not_supported(self)
        refuse_saving_between_generations(self)

    @property
    def generations_per_step(self) -> float:
        """Generation batches per optimizer step; below 1 where a batch serves several."""
        reuse = (self.steps_per_generation or 1) * self.num_iterations
        return self.gradient_accumulation_steps / reuse

    @property
    def window(self) -> int:
        """Optimizer steps that share a generation batch; a checkpoint ends one."""
        return round(1 / min(self.generations_per_step, 1.0))

    @property
    def prompt(self) -> PromptOptions:
        """What the model reads, and how its replies are read."""
        return PromptOptions(**{n: getattr(self, n) for n in PROMPT_OPTIONS})

    @property
    def sampling_options(self) -> dict[str, Any]:
        """Arguments of the `LMPolicy`, but for its `prompt`."""
        return {
            "max_new_tokens": self.max_completion_length or MAX_REPLY_TOKENS,
            "temperature": self.temperature,
            "top_k": self.top_k,
            "top_p": self.top_p,
            "batch_size": self.rollout_batch_size,
            "chat_template_kwargs": self.chat_template_kwargs,
        }
