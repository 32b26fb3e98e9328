"""Surrogates, which take the place of TRL's. This module imports no torch."""

from typing import Any

from arena_trainers.losses.inputs import TINY, needs


def clipped(ratio: Any, advantages: Any, low: Any, high: Any) -> Any:
    """PPO's surrogate: -min(ρ A, clip(ρ, low, high) A)."""
    return -(ratio * advantages).minimum(ratio.clamp(min=low, max=high) * advantages)


@needs("old", "entropy", surrogate=True)
def hapo_clip(
    logps: Any, seen: Any, *, quantile: float = 0.8, redistribute: bool = True
) -> Any:
    """PPO's surrogate with clipping by entropy, of HAPO (https://arxiv.org/abs/2509.16591).

    h = log H - its quantile, scaled to [-1, 0] and to [0, 1] on the sides of 0:

        low = ε (1 - h) where h ≤ 0,  high = ε' (1 + h) where h > 0

    `redistribute` makes A (1 + h) of A where h > 0 and ρ is outside of [1 - low / 2, 1 + high / 2], or
    h ≤ 0 and ρ is inside.
    """
    ratio = (logps - seen.old).exp()
    found = seen.entropy.detach().clamp(min=TINY).log()
    h = found - found[seen.mask].quantile(quantile, interpolation="nearest")
    own = h[seen.mask]
    top, bottom = own.max().clamp(min=TINY), (-own).max().clamp(min=TINY)
    h = (h / top).where(h > 0, h / bottom).clamp(-1, 1)
    low = seen.clip[0] * (1 - h.clamp(max=0))
    high = seen.clip[1] * (1 + h.clamp(min=0))
    advantages, now = seen.advantages, ratio.detach()
    if redistribute:
        inside = (now > 1 - low / 2) & (now < 1 + high / 2)
        advantages = (advantages * (1 + h)).where(inside != (h > 0), advantages)
    return clipped(ratio, advantages, 1 - low, 1 + high)


@needs("old", "entropy", surrogate=True)
def aepo_clip(logps: Any, seen: Any, *, alpha: float = 0.2) -> Any:
    """PPO's surrogate whose upper clip keeps a gradient, of AEPO (https://arxiv.org/abs/2510.14545).

    Where A > 0 and ρ > 1 + ε', the loss is -(1 + ε') A ρ / sg(ρ): the value of the clip, with a
    gradient. A is scaled by 1 + alpha z(H), z standardised.
    """
    ratio, own = (logps - seen.old).exp(), seen.entropy.detach()
    z = (own - own[seen.mask].mean()) / own[seen.mask].std(correction=0).clamp(min=TINY)
    advantages = seen.advantages * (1 + alpha * z)
    low, high = 1 - seen.clip[0], 1 + seen.clip[1]
    kept = -high * advantages * ratio / ratio.detach()
    over = (advantages > 0) & (ratio.detach() > high)
    return kept.where(over, clipped(ratio, advantages, low, high))


@needs("old", surrogate=True)
def dpo_drift(logps: Any, seen: Any, *, alpha: float = 2.0, beta: float = 0.6) -> Any:
    """-(ρ A - drift) of Discovered Policy Optimisation (https://arxiv.org/abs/2210.05639).

    drift = relu(x - α tanh(x / α)), x = (ρ - 1) A where A ≥ 0; else the same of β and x = A log ρ.
    """
    log_ratio, advantages = logps - seen.old, seen.advantages
    ratio = log_ratio.exp()
    x, y = (ratio - 1) * advantages, log_ratio * advantages
    gained, lost = x - alpha * (x / alpha).tanh(), y - beta * (y / beta).tanh()
    return gained.relu().where(advantages >= 0, lost.relu()) - ratio * advantages
