"""`TokenScores`: what losses read of a model."""

from typing import NamedTuple

import torch


class TokenScores(NamedTuple):
    """Log-probabilities, entropies and a critic's values, float32[B, T]."""

    logprobs: torch.Tensor
    entropies: torch.Tensor | None
    aux_loss: torch.Tensor | None = None  # third, as TRL reads it
    values: torch.Tensor | None = None
