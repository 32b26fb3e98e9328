"""TRL's correction of tokens that another policy sampled: the importance ratio."""

import torch
from accelerate.utils import gather_object

from arena_trainers.train.parts import CorrectedLoop


def importance_ratio(
    trainer: CorrectedLoop, old: torch.Tensor, sampled: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """TRL's correction of tokens that another policy sampled, float32[B, T] or [B, 1]; logs it.

    Args:
        trainer: its `vllm_importance_sampling_mode` and limits say how.
        old: float32[B, T], log-probabilities before the update.
        sampled: float32[B, T], as they were sampled; NaN where an engine gave none.
        mask: bool[B, T], tokens that are trained.
    """
    mode = trainer.vllm_importance_sampling_mode
    gap = (old - sampled).nan_to_num(0.0)
    low = trainer.vllm_importance_sampling_clip_min or 0.0
    by_sequence = mode.startswith("sequence")
    log_ratio = gap * mask
    if by_sequence:
        log_ratio = log_ratio.sum(dim=-1, keepdim=True)
    ratio = log_ratio.exp()
    clipped = ratio.clamp(low, trainer.vllm_importance_sampling_clip_max)
    if mode.endswith("truncate"):
        ratio = clipped
    else:
        ratio = ratio.masked_fill(clipped != ratio, 0.0)
    sampled_gaps = gap.abs()[mask & ~sampled.isnan()]
    _log_range(trainer, "sampling/sampling_logp_difference", sampled_gaps)
    ratios = ratio.flatten() if by_sequence else ratio[mask]
    _log_range(trainer, "sampling/importance_sampling_ratio", ratios)
    return ratio


def _log_range(trainer: CorrectedLoop, name: str, values: torch.Tensor) -> None:
    """Logs least, mean and largest of the numbers of all processes."""
    if len(values):
        own_range = [values.min().item(), values.mean().item(), values.max().item()]
    else:
        own_range = [0.0, 0.0, 0.0]
    lows, means, highs = zip(*gather_object([own_range]), strict=True)
    trainer.note(
        {
            f"{name}/min": min(lows),
            f"{name}/mean": sum(means) / len(means),
            f"{name}/max": max(highs),
        }
    )
