"""`reward`: TRL's `RewardTrainer` on pairs, a reward model that scores a prompt with its completion.

The model has one output, read at the last token. Masks are not used, because the
model reads all tokens, and neither are margins, which are in the unit of returns.
"""

import torch
from trl import RewardConfig, RewardTrainer

from arena_trainers.offline.batches import Rows, WholeSteps, masked_batch
from arena_trainers.offline.protocol import Given, RowTrainer


class TokenRewardTrainer(WholeSteps, RewardTrainer):
    """TRL's trainer on rows that are tokens already."""


def reward() -> RowTrainer:
    """Scores the chosen completion of a pair above the rejected one."""
    return RowTrainer("pairs", RewardConfig, _make, plays=False)


def _make(given: Given) -> TokenRewardTrainer:
    if given.peft_config is not None:
        raise ValueError(
            "want trainer reward without an adapter, whose output layer would not be "
            "saved; leave --lora_r out"
        )
    pad_id, token = given.pad_id, given.args.pad_token
    if token is not None:  # the model finds the last token by it
        pad_id = given.tokenizer.convert_tokens_to_ids(token)

    def batch(rows: Rows) -> dict[str, torch.Tensor]:
        found = masked_batch(rows, ("chosen", "rejected"), pad_id)
        del found["completion_mask"]
        return found

    return given.trainer(TokenRewardTrainer, batch)
