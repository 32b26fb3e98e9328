"""`dpo`: TRL's `DPOTrainer` on pairs, with their masks."""

from trl import DPOConfig, DPOTrainer

from arena_trainers.offline.batches import WholeSteps, masked_batch
from arena_trainers.offline.protocol import Given, RowTrainer

COMPARES_ROWS = {"aot", "aot_unpaired", "sft"}  # losses that are no means over rows


class TokenDPOTrainer(WholeSteps, DPOTrainer):
    """TRL's trainer on rows that are tokens already."""


def dpo() -> RowTrainer:
    """Prefers the chosen completion of a pair."""
    return RowTrainer("pairs", DPOConfig, _make)


def _make(given: Given) -> TokenDPOTrainer:
    if given.args.precompute_ref_log_probs:
        raise ValueError(
            "want precompute_ref_log_probs off with rows of tokens and masks; leave it out"
        )
    cut, losses = given.cut, given.args.loss_type
    whole = COMPARES_ROWS & ({losses} if isinstance(losses, str) else {*losses})
    if whole and cut.at_once < cut.batch_size:
        raise ValueError(
            f"want all {cut.batch_size} rows of a step at once for loss_type "
            f"{sorted(whole)}, which is no mean over rows, got {cut.at_once}; give a larger "
            "--max_tokens_per_forward, or another loss_type"
        )
    texts = ("chosen", "rejected")
    return given.trainer(
        TokenDPOTrainer, lambda rows: masked_batch(rows, texts, given.pad_id)
    )
