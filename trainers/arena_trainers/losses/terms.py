"""Terms that are added to TRL's surrogate. This module imports no torch."""

from typing import TYPE_CHECKING

from arena_trainers.losses.inputs import LossInputs, needs

if TYPE_CHECKING:
    from torch import Tensor


@needs("old", "reference")
def kl_to(logps: "Tensor", inputs: LossInputs, *, corrected: bool = True) -> "Tensor":
    """The KL divergence to the reference, as TRL's `beta`: exp(d) - d - 1, d = log π_ref - log π.

    It is `corrected` by ρ as with TRL's `use_bias_correction_kl`: then its gradient is unbiased.
    """
    log_ratio = inputs.reference - logps
    kl = log_ratio.exp() - log_ratio - 1
    return kl * (logps - inputs.old).exp() if corrected else kl


@needs("entropy")
def entropy(logps: "Tensor", inputs: LossInputs) -> "Tensor":
    """The entropy of the policy, negative: a weight above 0 raises it."""
    return -inputs.entropy


@needs("teacher")
def kickstart(logps: "Tensor", inputs: LossInputs) -> "Tensor":
    """The cross-entropy H(teacher, learner) over the legal actions, exactly.

    Of "Kickstarting Deep Reinforcement Learning" (https://arxiv.org/abs/1803.03835). The tokens of a
    reply have equal shares of it.
    """
    cross = -(inputs.teacher.probs * inputs.teacher.logps).sum(1, keepdim=True)
    return cross / inputs.mask.sum(1, keepdim=True).clamp(min=1) * inputs.mask


@needs("reference", "invalid")
def down_push(logps: "Tensor", inputs: LossInputs, *, of: str = "invalid") -> "Tensor":
    """Pushes failed turns down: log(1 + π / π_ref), as the code of SEAgent with a weight of 0.2.

    Code: https://github.com/SunzeY/SEAgent. A judge names its failed turns; here these are `"invalid"`
    replies, or those of negative advantage if `of` is `"losing"`.
    """
    if of not in ("invalid", "losing"):
        raise ValueError(f"want of as 'invalid' or 'losing' in down_push, got {of!r}")
    failed = inputs.invalid[:, None] if of == "invalid" else inputs.advantages < 0
    gap = logps - inputs.reference
    return gap.logaddexp(gap.new_zeros(())) * failed
