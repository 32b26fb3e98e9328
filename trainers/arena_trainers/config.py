"""`TurnGRPOConfig`: TRL's `GRPOConfig` with what self-play and turn-level credit add."""

import math
import os
from dataclasses import dataclass, field
from typing import Any

from trl import GRPOConfig

from arena_envs.registration import did_you_mean

LOSS_TYPES = ("grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "luspo", "vespo")
MAX_REPLY_TOKENS = 256  # where the settings give no limit
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
            string such as `"random"`, `"mcts:100"` or `"lm:PATH"`. One string stands for
            all seats.
        credit (`str`, *optional*, defaults to `"mars"`):
            Estimator of `arena_trainers.credit`. It gets the columns of the turn batch that
            it reads, or is refused when the trainer is made.
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
        parsing (`str`, *optional*, defaults to `"strict"`):
            How replies are read: `"strict"` or `"tolerant"`.
        part_weights (`dict[str, float]`, *optional*):
            Weights of the reward parts (`game`, `format`); 1 where none is given.
        episodes_per_step (`int`, *optional*):
            Episodes per optimizer step, all processes together; sets
            `per_device_train_batch_size`, which counts episodes here.
        rollout_batch_size (`int`, *optional*):
            Most prompts in one call of the model during play; all that wait by default.
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
    num_starts: int | None = field(
        default=None, metadata={"help": "Number of different starts."}
    )

    def __post_init__(self) -> None:
        self._check_own_fields()
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
        self._check_ranges()
        self._refuse_what_is_not_supported()
        self._refuse_saving_between_generations()

    @property
    def generations_per_step(self) -> float:
        """Generation batches per optimizer step; below 1 where a batch serves several."""
        reuse = (self.steps_per_generation or 1) * self.num_iterations
        return self.gradient_accumulation_steps / reuse

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
            "parsing",
        )
        return {name: getattr(self, name) for name in names}

    @property
    def sampling_options(self) -> dict[str, Any]:
        """Arguments of the `LMPolicy`."""
        return {
            "max_new_tokens": self.max_completion_length or MAX_REPLY_TOKENS,
            "temperature": self.temperature,
            "top_k": self.top_k,
            "top_p": self.top_p,
            "batch_size": self.rollout_batch_size,
            "chat_template_kwargs": self.chat_template_kwargs,
        }

    def _check_own_fields(self) -> None:
        if isinstance(self.games, str):
            self.games = [self.games]
        if not isinstance(self.games, list) or not self.games:
            raise ValueError(
                f"want games as a list of ids or dicts, got {self.games!r}"
            )
        check_opponents(self.opponents)
        for name in ("credit_args", "part_weights"):
            if not isinstance(getattr(self, name), dict):
                raise ValueError(
                    f"want {name} as a mapping, got {getattr(self, name)!r}"
                )
        for name, weight in self.part_weights.items():
            if name not in PARTS:
                raise ValueError(
                    f"part_weights names {name!r}, which is no reward part; "
                    f"{did_you_mean(str(name), PARTS)}"
                )
            if not isinstance(weight, int | float) or not math.isfinite(weight):
                raise ValueError(f"want a number as weight of {name!r}, got {weight!r}")
        known = ("forfeit", "retry", "random")
        if self.on_invalid not in known:
            raise ValueError(
                f"want on_invalid from {known}, got {self.on_invalid!r}; "
                f"{did_you_mean(str(self.on_invalid), known)}"
            )

    def _check_ranges(self) -> None:
        """Holds numbers to their ranges where a mistake would show late or never."""
        length = self.max_completion_length
        ranges = {
            "seed": (0 <= self.seed < 2**32, "from 0 to 2**32 - 1"),
            "temperature": (0 < self.temperature < math.inf, "above 0"),
            "top_p": (0 < self.top_p <= 1, "above 0 and at most 1"),
            "learning_rate": (0 <= self.learning_rate < math.inf, "of at least 0"),
            "max_completion_length": (length is None or length >= 1, "of at least 1"),
            "num_starts": (self.num_starts is None or self.num_starts >= 1, "above 0"),
            "rollout_batch_size": (
                self.rollout_batch_size is None or self.rollout_batch_size >= 1,
                "above 0",
            ),
            "loss_type": (self.loss_type in LOSS_TYPES, f"from {LOSS_TYPES}"),
        }
        for name, (holds, wanted) in ranges.items():
            if not holds:
                raise ValueError(f"want {name} {wanted}, got {getattr(self, name)!r}")

    def _refuse_what_is_not_supported(self) -> None:
        deepspeed = getattr(self, "hf_deepspeed_config", None)  # set where it is used
        untested = "its rollouts have not been tested with it"
        bypassed = "advantages come from credit; see credit_args and part_weights"
        refused = {
            "use_vllm": (self.use_vllm, untested),
            "use_transformers_continuous_batching": (
                self.use_transformers_continuous_batching,
                untested,
            ),
            "fsdp": (
                bool(self.fsdp) or os.environ.get("ACCELERATE_USE_FSDP") == "true",
                untested,
            ),
            "deepspeed stage 3": (
                deepspeed is not None and deepspeed.is_zero3(),
                untested,
            ),
            "min_p": (bool(self.min_p), untested),
            "repetition_penalty": (self.repetition_penalty != 1.0, untested),
            "generation_kwargs": (bool(self.generation_kwargs), untested),
            "scale_rewards": (self.scale_rewards != "group", bypassed),
            "reward_weights": (self.reward_weights is not None, bypassed),
            "multi_objective_aggregation": (
                self.multi_objective_aggregation != "sum_then_normalize",
                bypassed,
            ),
        }
        for name, (used, reason) in refused.items():
            if used:
                raise ValueError(f"TurnGRPOTrainer does not support {name}: {reason}")

    def _refuse_saving_between_generations(self) -> None:
        """A generation batch is not in a checkpoint, so none may be in use at one."""
        window = round(1 / min(self.generations_per_step, 1.0))
        saves = self.save_strategy == "steps" and self.save_steps >= 1
        if saves and self.save_steps % window:
            raise ValueError(
                f"want save_steps divisible by {window}, the optimizer steps that share a "
                f"generation batch, got {self.save_steps}"
            )


def check_opponents(opponents: Any) -> None:
    """Raises ValueError unless they are a string or a list of strings."""
    seats = [opponents] if isinstance(opponents, str) else opponents
    if not isinstance(seats, list) or not all(isinstance(seat, str) for seat in seats):
        raise ValueError(f"want opponents as a string or a list, got {opponents!r}")
