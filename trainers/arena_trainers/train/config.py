"""`TurnGRPOConfig`: TRL's `GRPOConfig` with options for self-play and turn-level credit."""

import os
from dataclasses import dataclass, fields
from typing import Any

from trl import GRPOConfig

from arena_trainers.engines import correction_mode
from arena_trainers.lm.policy import sampling_of
from arena_trainers.options import Option, options_of
from arena_trainers.train.checks import (
    check_asynchronous,
    check_batches,
    check_ranges,
    check_save_steps,
    check_sequential,
    check_supported,
)
from arena_trainers.train.settings import (
    MAX_REPLY_TOKENS,
    SelfPlay,
)
from arena_trainers.train.together import check_together
from arena_wrappers import PromptOptions
from arena_wrappers.prompts import PROMPT_OPTIONS


@dataclass
class TurnGRPOConfig(SelfPlay, GRPOConfig):
    """Settings of `TurnGRPOTrainer`; every inherited field keeps TRL's default.

    `vllm_mode="server"` is not TRL's server, see `arena_trainers.engines.weights`.

    One training row is one turn, so `max_completion_length` limits the reply of a turn.
    Choose a `loss_type` that gives every token the same weight for any number of rows:
    `"dapo"` (TRL's default), `"cispo"` or `"dr_grpo"`.

    `SelfPlay` has the options that are not of TRL.
    """

    def __post_init__(self) -> None:
        self.check_own()
        check_batches(self)
        if self.episodes_per_step is not None:
            processes = int(os.environ.get("WORLD_SIZE", "1"))
            share = processes * self.gradient_accumulation_steps
            self.per_device_train_batch_size = self.episodes_per_step // share
        if self.vllm_importance_sampling_mode is None:
            self.vllm_importance_sampling_mode = correction_mode(self)
        super().__post_init__()
        check_ranges(self)
        check_supported(self)
        check_save_steps(self)
        check_asynchronous(self)
        check_sequential(self)
        check_together(self)

    @property
    def prompt(self) -> PromptOptions:
        """Options of prompts and of the parsing of replies."""
        return PromptOptions(**{n: getattr(self, n) for n in PROMPT_OPTIONS})

    @property
    def sampling_options(self) -> dict[str, Any]:
        """Arguments of the `LMPolicy`, except for its `prompt`."""
        return {
            "max_new_tokens": self.max_completion_length or MAX_REPLY_TOKENS,
            "batch_size": self.rollout_batch_size,
            **sampling_of(self),
        }


def training_options() -> dict[str, Option]:
    """The fields of `TurnGRPOConfig`."""
    own_names = {field.name for field in fields(SelfPlay)}
    inherited = {field.name for field in fields(GRPOConfig)} - own_names
    return options_of(TurnGRPOConfig, frozenset(inherited))
