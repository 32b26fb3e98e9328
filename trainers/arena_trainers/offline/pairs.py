"""`dpo` and `reward`: TRL's `DPOTrainer` and `RewardTrainer` on pairs of rows.

`dpo` reads masks. A reward model, which scores a prompt with its completion, has one output,
read at the last token. It uses no masks, because it reads all tokens, and no margins, which
are in the unit of returns.
"""

import torch
from trl import (
    DPOConfig,
    DPOTrainer,
    RewardConfig,
    RewardTrainer,
)

from arena_trainers.offline.batches import Rows, WholeSteps, masked_batch
from arena_trainers.offline.protocol import RowTrainer, TrainerParts

COMPARES_ROWS = {"aot", "aot_unpaired", "sft"}  # losses that are no means over rows

TEXTS = ("chosen", "rejected")


class TokenDPOTrainer(WholeSteps, DPOTrainer):
    """TRL's trainer on rows that are tokens already."""


class TokenRewardTrainer(WholeSteps, RewardTrainer):
    """TRL's trainer on rows that are tokens already."""


def dpo() -> RowTrainer:
    """Prefers the chosen completion of a pair."""
    return RowTrainer("pairs", DPOConfig, _dpo)


def reward() -> RowTrainer:
    """Scores the chosen completion of a pair above the rejected one."""
    return RowTrainer("pairs", RewardConfig, _reward, plays=False)


def _dpo(parts: TrainerParts[DPOConfig]) -> TokenDPOTrainer:
    cut, losses = parts.cut, parts.args.loss_type
    whole = COMPARES_ROWS & ({losses} if isinstance(losses, str) else {*losses})
    if whole and cut.at_once < cut.batch_size:
        raise ValueError(
            f"want all {cut.batch_size} rows of a step at once for loss_type "
            f"{sorted(whole)}, which is no mean over rows, got {cut.at_once}; give a "
            "larger --max_tokens_per_forward, or another loss_type"
        )
    return parts.trainer(
        TokenDPOTrainer, lambda rows: masked_batch(rows, TEXTS, parts.pad_id)
    )


def _reward(parts: TrainerParts[RewardConfig]) -> TokenRewardTrainer:
    if parts.peft_config is not None:
        raise ValueError(
            "want trainer reward without an adapter, whose output layer would not be "
            "saved; leave --lora out"
        )
    pad_id, token = parts.pad_id, parts.args.pad_token
    if token is not None:  # the model finds the last token by it
        pad_id = parts.tokenizer.convert_tokens_to_ids(token)  # type: ignore[assignment] # of one token

    def batch(rows: Rows) -> dict[str, torch.Tensor]:
        columns = masked_batch(rows, TEXTS, pad_id)
        del columns["completion_mask"]
        return columns

    return parts.trainer(TokenRewardTrainer, batch)
