"""Terms that are added to TRL's surrogate. This module imports no torch."""

from typing import Any

from arena_trainers.losses.inputs import needs


@needs("old", "reference")
def kl_to(logps: Any, seen: Any, *, corrected: bool = True) -> Any:
    """The KL divergence to the reference, as TRL's `beta`: exp(d) - d - 1, d = log π_ref - log π.

    It is `corrected` by ρ as with TRL's `use_bias_correction_kl`: then its gradient is unbiased.
    """
    d = seen.reference - logps
    kl = d.exp() - d - 1
    return kl * (logps - seen.old).exp() if corrected else kl


@needs("entropy")
def entropy(logps: Any, seen: Any) -> Any:
    """The entropy of the policy, negative: a weight above 0 raises it."""
    return -seen.entropy


@needs("teacher")
def kickstart(logps: Any, seen: Any) -> Any:
    """The cross-entropy H(teacher, learner) over the legal actions, exactly.

    Of "Kickstarting Deep Reinforcement Learning" (https://arxiv.org/abs/1803.03835). The tokens of a
    reply have equal shares of it.
    """
    cross = -(seen.teacher.probs * seen.teacher.logps).sum(1, keepdim=True)
    return cross / seen.mask.sum(1, keepdim=True).clamp(min=1) * seen.mask


@needs("reference", "invalid")
def down_push(logps: Any, seen: Any, *, of: str = "invalid") -> Any:
    """Pushes failed turns down: log(1 + π / π_ref), as the code of SEAgent with a weight of 0.2.

    Code: https://github.com/SunzeY/SEAgent. A judge names its failed turns; here these are `"invalid"`
    replies, or those of negative advantage if `of` is `"losing"`.
    """
    if of not in ("invalid", "losing"):
        raise ValueError(f"want of as 'invalid' or 'losing' in down_push, got {of!r}")
    failed = seen.invalid[:, None] if of == "invalid" else seen.advantages < 0
    gap = logps - seen.reference
    return gap.logaddexp(gap.new_zeros(())) * failed
