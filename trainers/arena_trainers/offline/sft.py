"""`sft`: TRL's `SFTTrainer` on completions, with their masks and weights; equal rows run once.

The loss of a batch is ∑ wᵢ ∑ₜ -log p(tokenᵢₜ) / n, where t runs over the n tokens whose mask is 1,
and the weights are scaled so that they are 1 on average over all trained tokens.
"""

from collections.abc import Callable
from typing import Any

import torch
from trl import SFTConfig, SFTTrainer

from arena_trainers.lm.backends.forward_pass import positions
from arena_trainers.offline.batches import WholeSteps, labelled_batch
from arena_trainers.offline.protocol import RowTrainer, TrainerParts
from arena_trainers.train.score.heads import scoring_the_last
from arena_trainers.train.score.packing import IGNORED, distinct_rows


class SharingSFTTrainer(SFTTrainer):
    """TRL's trainer, whose equal rows run once and score the vocabulary from the first reply on."""

    aux_loss_enabled: bool

    def compute_loss(
        self, model: torch.nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Any:
        weights = inputs.pop("weights", None)
        shared = model if self.aux_loss_enabled else self.sharing(model, weights)
        return super().compute_loss(shared, inputs, *args, **kwargs)

    def sharing(
        self, model: torch.nn.Module, weights: torch.Tensor | None
    ) -> Callable[..., Any]:
        """The model as a function of a batch in which equal rows run once.

        Log-probabilities are multiplied by the weights of their rows, if there are some.
        """
        inner = self.accelerator.unwrap_model(model)

        def forward(*, labels: torch.Tensor, **inputs: Any) -> Any:
            ids, mask = inputs.pop("input_ids"), inputs.pop("attention_mask")
            live = torch.ones(len(ids), dtype=torch.bool)
            # rows that train other tokens are other rows
            keys = torch.cat([ids, labels], dim=1)
            key_mask = torch.cat([mask, torch.ones_like(labels)], dim=1)
            firsts, kind = distinct_rows(keys, key_mask, live)
            trained = (labels != IGNORED).any(dim=0)
            first = max(int(trained.int().argmax()), 1)  # replies end at the right edge
            width = ids.shape[1] - first
            rows = {
                "input_ids": ids[firsts, :-1],
                "attention_mask": mask[firsts, :-1],
                **positions(inner, mask[firsts, :-1]),
                "shift_labels": labels[firsts, -width:],
            }
            with scoring_the_last(inner, width):
                output = model(**rows, **inputs)
            for name in ("log_probs", "entropy", "is_top1", "label_mask"):
                output[name] = output[name][kind]
            if weights is not None:
                output["log_probs"] = output["log_probs"] * weights[:, None]
            return output

        return forward


class WeightedSFTTrainer(WholeSteps, SharingSFTTrainer):
    """`SharingSFTTrainer` for rows that are tokens already."""


def sft() -> RowTrainer:
    """Imitates completions."""
    return RowTrainer("completions", SFTConfig, _make)


def _make(parts: TrainerParts[SFTConfig]) -> WeightedSFTTrainer:
    args = parts.args
    for name in (
        "packing",
        "padding_free",
        "assistant_only_loss",
        "label_smoothing_factor",
    ):
        if getattr(args, name):
            raise ValueError(
                f"want {name} off with rows of tokens and masks, got "
                f"{getattr(args, name)}; leave it out"
            )
    has_weights = len(set(parts.rows["weight"])) > 1
    if args.loss_type != "nll" and has_weights:
        raise ValueError(
            "want loss_type nll for rows of different weights, got "
            f"{args.loss_type!r}; leave it out, or choose rows of equal weights"
        )
    args.dataset_kwargs = {"skip_prepare_dataset": True}
    trainer = parts.trainer(
        WeightedSFTTrainer, lambda rows: labelled_batch(rows, parts.pad_id)
    )
    if trainer.aux_loss_enabled and has_weights:
        raise ValueError(
            "want router_aux_loss_coef 0 for rows of different weights; give "
            "--router_aux_loss_coef 0, or choose rows of equal weights"
        )
    return trainer
