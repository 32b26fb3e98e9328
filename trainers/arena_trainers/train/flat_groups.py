"""Groups without spread: in every seat that learns, all trajectories have the same reward.

This module imports neither TRL nor torch.
"""

import numpy as np
from numpy.typing import NDArray

from arena_trainers.credit import TurnBatch
from arena_trainers.credit.rounding import ZERO


def flat_groups(batch: TurnBatch) -> NDArray[np.bool_]:
    """bool[G]: whether each of the G groups of a batch is flat, by ascending `group`.

    >>> one = dict(turn=[0] * 4, episode=[0, 1, 2, 3], game=[0] * 4)
    >>> flat_groups(TurnBatch([1, 1, 1, 0], seat=[0] * 4, group=[0, 0, 1, 1], **one))
    array([ True, False])
    """
    _, group = np.unique(batch.group, return_inverse=True)
    keys = np.stack([batch.episode, batch.seat], axis=1)
    _, first, of = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    rewards = np.bincount(of.ravel(), batch.reward)
    pairs = np.stack([group.ravel()[first], batch.seat[first]], axis=1)
    seats, of = np.unique(pairs, axis=0, return_inverse=True)
    low, high = np.full(len(seats), np.inf), np.full(len(seats), -np.inf)
    np.minimum.at(low, of.ravel(), rewards)
    np.maximum.at(high, of.ravel(), rewards)
    has_spread = np.bincount(seats[:, 0], high - low > ZERO)
    flat: NDArray[np.bool_] = has_spread == 0
    return flat
