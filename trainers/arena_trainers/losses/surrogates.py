"""Surrogates, which take the place of TRL's. This module imports no torch."""

from typing import TYPE_CHECKING, TypeVar

from arena_trainers.losses.inputs import TINY, LossInputs, needs

if TYPE_CHECKING:
    from torch import Tensor

Limit = TypeVar("Limit", "Tensor", float)


def clipped(ratio: "Tensor", advantages: "Tensor", low: Limit, high: Limit) -> "Tensor":
    """PPO's surrogate: -min(ρ A, clip(ρ, low, high) A)."""
    return -(ratio * advantages).minimum(ratio.clamp(min=low, max=high) * advantages)


@needs("old", "entropy", surrogate=True)
def hapo_clip(
    logps: "Tensor",
    inputs: LossInputs,
    *,
    quantile: float = 0.8,
    redistribute: bool = True,
) -> "Tensor":
    """PPO's surrogate with clipping by entropy, of HAPO (https://arxiv.org/abs/2509.16591).

    h = log H - its quantile, scaled to [-1, 0] and to [0, 1] on the sides of 0:

        low = ε (1 - h) where h ≤ 0,  high = ε' (1 + h) where h > 0

    `redistribute` makes A (1 + h) of A where h > 0 and ρ is outside of [1 - low / 2, 1 + high / 2], or
    h ≤ 0 and ρ is inside.
    """
    ratio = (logps - inputs.old).exp()
    log_entropy = inputs.entropy.detach().clamp(min=TINY).log()
    limit = log_entropy[inputs.mask].quantile(quantile, interpolation="nearest")
    h = log_entropy - limit
    of_tokens = h[inputs.mask]
    top = of_tokens.max().clamp(min=TINY)
    bottom = (-of_tokens).max().clamp(min=TINY)
    h = (h / top).where(h > 0, h / bottom).clamp(-1, 1)
    low = inputs.clip[0] * (1 - h.clamp(max=0))
    high = inputs.clip[1] * (1 + h.clamp(min=0))
    advantages = inputs.advantages
    if redistribute:
        value = ratio.detach()
        inside = (value > 1 - low / 2) & (value < 1 + high / 2)
        advantages = (advantages * (1 + h)).where(inside != (h > 0), advantages)
    return clipped(ratio, advantages, 1 - low, 1 + high)


@needs("old", "entropy", surrogate=True)
def aepo_clip(logps: "Tensor", inputs: LossInputs, *, alpha: float = 0.2) -> "Tensor":
    """PPO's surrogate whose upper clip keeps a gradient, of AEPO (https://arxiv.org/abs/2510.14545).

    Where A > 0 and ρ > 1 + ε', the loss is -(1 + ε') A ρ / sg(ρ): the value of the clip, with a
    gradient. A is scaled by 1 + alpha z(H), z standardised.
    """
    ratio = (logps - inputs.old).exp()
    entropy = inputs.entropy.detach()
    of_tokens = entropy[inputs.mask]
    z = (entropy - of_tokens.mean()) / of_tokens.std(correction=0).clamp(min=TINY)
    advantages = inputs.advantages * (1 + alpha * z)
    low, high = 1 - inputs.clip[0], 1 + inputs.clip[1]
    with_gradient = -high * advantages * ratio / ratio.detach()
    is_above = (advantages > 0) & (ratio.detach() > high)
    return with_gradient.where(is_above, clipped(ratio, advantages, low, high))


@needs("old", surrogate=True)
def dpo_drift(
    logps: "Tensor", inputs: LossInputs, *, alpha: float = 2.0, beta: float = 0.6
) -> "Tensor":
    """-(ρ A - drift) of Discovered Policy Optimisation (https://arxiv.org/abs/2210.05639).

    drift = relu(x - α tanh(x / α)), x = (ρ - 1) A where A ≥ 0; else the same of β and x = A log ρ.
    """
    log_ratio = logps - inputs.old
    ratio = log_ratio.exp()
    advantages = inputs.advantages
    x = (ratio - 1) * advantages
    y = log_ratio * advantages
    drift_of_gains = (x - alpha * (x / alpha).tanh()).relu()
    drift_of_losses = (y - beta * (y / beta).tanh()).relu()
    drift = drift_of_gains.where(advantages >= 0, drift_of_losses)
    return drift - ratio * advantages
