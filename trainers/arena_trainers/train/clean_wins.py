"""Which trajectories of an oversampled group are trained: clean wins are preferred.

A trajectory *wins* if its reward is above the mean of its seat in its group. Of `oversample`
times as many trajectories as are trained,

- wins with the smallest share of invalid replies are kept, others by chance,
- losses are kept by chance, each equally often,

in the proportion in which they were played, but at least one of each that there is.

This is GRPO-RoC of "rStar2-Agent: Agentic Reasoning Technical Report"
(https://arxiv.org/abs/2508.20722), section 3.2. Departures: a win is relative to the group, since
games have other returns than 0 and 1; wins with the smallest share are kept, as in the released
code, where the paper draws them with probability by their penalty; losses are drawn by chance, as in
the paper, where the released code sorts them, too.

This module imports neither TRL nor torch.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from arena_trainers.credit import TurnBatch
from arena_trainers.credit.rounding import ZERO

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


def clean_wins(
    batch: TurnBatch,
    invalid: Sequence[bool] | Bools,
    oversample: int,
    rng: np.random.Generator,
) -> Bools:
    """bool[N]: whether the trajectory of each of the N turns is trained.

    Args:
        batch: the turns that were played.
        invalid: bool[N], whether the reply of a turn was invalid.
        oversample: trajectories played for each one that is trained.
        rng: the source of all choices.

    >>> one = dict(turn=[0] * 4, episode=[0, 1, 2, 3], game=[0] * 4)
    >>> played = TurnBatch([1, 1, 0, 1], seat=[0] * 4, group=[0] * 4, **one)
    >>> replies = [True, False, False, True]
    >>> clean_wins(played, replies, 2, np.random.default_rng(0))
    array([False,  True,  True, False])
    """
    keys = np.stack([batch.group, batch.seat, batch.episode], axis=1)
    trajectories, of = np.unique(keys, axis=0, return_inverse=True)
    of = of.ravel()
    reward = np.bincount(of, batch.reward)
    rate = np.bincount(of, np.asarray(invalid, float)) / np.bincount(of)
    pools, pool_of = np.unique(trajectories[:, :2], axis=0, return_inverse=True)
    kept = np.zeros(len(trajectories), bool)
    for pool in range(len(pools)):
        members = rng.permutation(np.flatnonzero(pool_of.ravel() == pool))
        won = reward[members] > reward[members].mean() + ZERO
        wins, losses = members[won], members[~won]
        num_wins, num_losses = shares(len(wins), len(losses), oversample)
        cleanest = wins[np.argsort(rate[wins], kind="stable")]
        kept[cleanest[:num_wins]] = True
        kept[losses[:num_losses]] = True
    return kept[of]


def shares(num_wins: int, num_losses: int, oversample: int) -> tuple[int, int]:
    """How many wins and losses of a seat's trajectories in a group are trained.

    >>> shares(4, 4, 2), shares(1, 7, 2), shares(7, 1, 2), shares(0, 8, 2)
    ((2, 2), (1, 3), (3, 1), (0, 4))
    """
    num = max((num_wins + num_losses) // oversample, 1)
    wins = round(num * num_wins / (num_wins + num_losses))
    wins = max(wins, min(num_wins, 1))
    wins = min(wins, num - min(num_losses, 1)) if num > 1 else wins
    return wins, num - wins
