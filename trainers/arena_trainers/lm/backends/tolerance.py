"""Differences of log-probabilities that are of rounding alone."""

import math

import torch

TOLERANCE = 1e-3  # nats by which log-probabilities of a token may differ, in float32

# mean in half precision; 0.03 measured in 12 layers, where single tokens differ by 0.12
HALF_TOLERANCE = 0.1


def tolerance(dtype: torch.dtype) -> float:
    """The `logprob_gap` log-probabilities, in nats, that is of rounding alone."""
    return TOLERANCE if dtype == torch.float32 else HALF_TOLERANCE


def logprob_gap(apart: torch.Tensor, dtype: torch.dtype) -> float:
    """The largest of absolute differences in float32, their mean in half precision."""
    gap = apart.max() if dtype == torch.float32 else apart.mean()
    return float(gap) if bool(gap.isfinite()) else math.inf
