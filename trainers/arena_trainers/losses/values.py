"""The loss of a critic's values."""

from typing import Any


def value_loss(values: Any, old: Any, targets: Any, clip: float | None = None) -> Any:
    """PPO's loss of values v, per token: ½ max((v - R)², (v_old + clip(v - v_old, ±c) - R)²).

    Without a clip c it is ½ (v - R)²; v_old is the value as the batch was played, R the target.
    """
    error = (values - targets) ** 2
    if clip is not None:
        near = old + (values - old).clamp(-clip, clip)
        error = error.maximum((near - targets) ** 2)
    return error / 2
