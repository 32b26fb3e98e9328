"""`TurnGRPOConfig`: TRL's `GRPOConfig` with what self-play and turn-level credit add."""

import os
from dataclasses import dataclass, field
from typing import Any

from trl import GRPOConfig

from arena_envs.registration import did_you_mean

PARTS = ("game", "format")  # of the reward, as `PromptWrapper` pays them


@dataclass
class TurnGRPOConfig(GRPOConfig):
    """Settings of `TurnGRPOTrainer`; every inherited field keeps TRL's default.

    One training row is one turn, so `max_completion_length` limits a turn's reply, and
    `loss_type` should be one that weighs tokens alike however many rows there are
    (`"dapo"`, TRL's default, or `"cispo"`, `"dr_grpo"`).

    Args:
        games (`list[str | dict]`, *optional*, defaults to `["kuhn_poker"]`):
            Games to train on: an id, or `{"id": ..., "params": {...}, "weight": 1.0,
            "opponents": [...]}`.
        opponents (`str | list[str]`, *optional*, defaults to `"self"`):
            Who plays each seat: `"self"` is the model that learns, anything else a policy
            string such as `"random"` or `"lm:PATH"`. One string stands for all seats.
        credit (`str`, *optional*, defaults to `"mars"`):
            Estimator of `arena_trainers.credit`.
        credit_args (`dict`, *optional*):
            Options of the estimator.
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
        part_weights (`dict[str, float]`, *optional*):
            Weights of the reward parts (`game`, `format`); 1 where none is given.
        episodes_per_step (`int`, *optional*):
            Episodes per optimizer step, all processes together; sets
            `per_device_train_batch_size`, which counts episodes here.
        num_starts (`int`, *optional*):
            Number of different starts (seeds). Each is played `num_generations` times.
            Default: enough that `max_steps` repeat none, or 1000.
    """

    games: list[Any] = field(
        default_factory=lambda: ["kuhn_poker"],
        metadata={
            "help": "Games to train on: ids, or dicts of id, params, weight, opponents."
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
    part_weights: dict[str, float] = field(
        default_factory=dict, metadata={"help": "Weights of the reward parts."}
    )
    episodes_per_step: int | None = field(
        default=None, metadata={"help": "Episodes per optimizer step."}
    )
    num_starts: int | None = field(
        default=None, metadata={"help": "Number of different starts."}
    )

    def __post_init__(self) -> None:
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
        if self.num_starts is not None and self.num_starts < 1:
            raise ValueError(f"want num_starts of at least 1, got {self.num_starts}")
        if self.seed < 0:
            raise ValueError(f"want a non-negative integer as seed, got {self.seed}")
        for name in self.part_weights:
            if name not in PARTS:
                raise ValueError(
                    f"part_weights names {name!r}, which is no reward part; "
                    f"{did_you_mean(name, PARTS)}"
                )
        known = ("forfeit", "retry", "random")
        if self.on_invalid not in known:
            raise ValueError(
                f"want on_invalid from {known}, got {self.on_invalid!r}; "
                f"{did_you_mean(self.on_invalid, known)}"
            )
        self._refuse_what_is_not_supported()

    @property
    def prompt_options(self) -> dict[str, Any]:
        """Arguments of the `PromptWrapper`."""
        names = (
            "reply_format",
            "history",
            "rules",
            "show_legal_actions",
            "on_invalid",
            "penalty",
            "max_retries",
        )
        return {name: getattr(self, name) for name in names}

    def _refuse_what_is_not_supported(self) -> None:
        deepspeed = getattr(self, "hf_deepspeed_config", None)  # set where it is used
        refused = {
            "use_vllm": self.use_vllm,
            "use_transformers_continuous_batching": self.use_transformers_continuous_batching,
            "fsdp": bool(self.fsdp) or os.environ.get("ACCELERATE_USE_FSDP") == "true",
            "deepspeed stage 3": deepspeed is not None and deepspeed.is_zero3(),
            "min_p": self.min_p is not None and self.min_p > 0,
            "repetition_penalty": self.repetition_penalty != 1.0,
        }
        for name, used in refused.items():
            if used:
                raise ValueError(
                    f"TurnGRPOTrainer does not support {name} yet: its rollouts have not "
                    "been tested with it"
                )
