"""`sft`: TRL's `SFTTrainer` on completions, with their masks and weights.

The loss of a batch is ∑ wᵢ ∑ₜ -log p(tokenᵢₜ) / n, where t runs over the n tokens whose mask is 1,
and the weights are scaled so that they are 1 on average over all trained tokens.
"""

from typing import Any

import torch
from trl import SFTConfig

from arena_trainers.job.warm_start import SharingSFTTrainer
from arena_trainers.offline.batches import WholeSteps, labelled_batch
from arena_trainers.offline.protocol import Given, RowTrainer


class WeightedSFTTrainer(WholeSteps, SharingSFTTrainer):
    """TRL's trainer, whose log-probabilities are multiplied by the weights of their rows."""

    _weights: torch.Tensor

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Any = None,
    ) -> Any:
        self._weights = inputs.pop("weights")
        return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)

    def sharing(self, model: Any) -> Any:
        forward, weights = super().sharing(model), self._weights

        def weighted(**inputs: Any) -> Any:
            output = forward(**inputs)
            output["log_probs"] = output["log_probs"] * weights[:, None]
            return output

        return weighted


def sft() -> RowTrainer:
    """Imitates completions."""
    return RowTrainer("completions", SFTConfig, _make)


def _make(given: Given) -> WeightedSFTTrainer:
    args = given.args
    for name in (
        "packing",
        "padding_free",
        "assistant_only_loss",
        "label_smoothing_factor",
    ):
        if getattr(args, name):
            raise ValueError(
                f"want {name} off with rows of tokens and masks, got {getattr(args, name)}; "
                "leave it out"
            )
    has_weights = len(set(given.rows["weight"])) > 1
    if args.loss_type != "nll" and has_weights:
        raise ValueError(
            f"want loss_type nll for rows of different weights, got {args.loss_type!r}; leave "
            "it out, or choose rows of equal weights"
        )
    args.dataset_kwargs = {"skip_prepare_dataset": True}
    trainer = WeightedSFTTrainer(
        given.model,
        args,
        train_dataset=given.rows,
        processing_class=given.tokenizer,
        cut=given.cut,
        data_collator=lambda rows: labelled_batch(rows, given.pad_id),
        peft_config=given.peft_config,
    )
    if trainer.aux_loss_enabled and has_weights:
        raise ValueError(
            "want router_aux_loss_coef 0 for rows of different weights; give "
            "--router_aux_loss_coef 0, or choose rows of equal weights"
        )
    return trainer
