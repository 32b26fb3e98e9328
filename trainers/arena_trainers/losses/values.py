"""The loss of a critic's values."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def value_loss(
    values: "Tensor", old: "Tensor", targets: "Tensor", clip: float | None = None
) -> "Tensor":
    """PPO's loss of values v, per token: ½ max((v - R)², (v_old + clip(v - v_old, ±c) - R)²).

    Without a clip c it is ½ (v - R)²; v_old is the value as the batch was played, R the target.
    """
    error = (values - targets) ** 2
    if clip is not None:
        near_old = old + (values - old).clamp(-clip, clip)
        error = error.maximum((near_old - targets) ** 2)
    return error / 2
