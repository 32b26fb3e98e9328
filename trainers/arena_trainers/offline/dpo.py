"""`dpo`: TRL's `DPOTrainer` on pairs, with their masks."""

from typing import Any

from trl import DPOConfig, DPOTrainer

from arena_trainers.offline.batches import masked_batch
from arena_trainers.offline.protocol import Given, RowTrainer


class TokenDPOTrainer(DPOTrainer):
    """TRL's trainer on rows that are tokens already."""

    def _prepare_dataset(self, dataset: Any, *_: Any) -> Any:
        return dataset


def dpo() -> RowTrainer:
    """Prefers the chosen completion of a pair."""
    return RowTrainer("pairs", DPOConfig, _make)


def _make(given: Given) -> TokenDPOTrainer:
    if given.args.precompute_ref_log_probs:
        raise ValueError(
            "want precompute_ref_log_probs off with rows of tokens and masks; leave it out"
        )
    return TokenDPOTrainer(
        given.model,
        args=given.args,
        train_dataset=given.rows,
        processing_class=given.tokenizer,
        data_collator=lambda rows: masked_batch(
            rows, ("chosen", "rejected"), given.pad_id
        ),
        peft_config=given.peft_config,
    )
