"""Which trajectories `oversample` trains: wins with few invalid replies, and losses by chance."""

from collections.abc import Sequence

import numpy as np

from arena_credit import TurnBatch
from arena_credit.batch import Bools
from arena_credit.pools import ZERO


def clean_wins(
    batch: TurnBatch,
    invalid: Sequence[bool] | Bools,
    oversample: int,
    rng: np.random.Generator,
) -> Bools:
    """bool[N]: whether the trajectory of each of the N turns is trained.

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
    trajectories, trajectory_of = np.unique(keys, axis=0, return_inverse=True)
    trajectory_of = trajectory_of.ravel()
    reward = np.bincount(trajectory_of, batch.reward)
    rate = np.bincount(trajectory_of, np.asarray(invalid, float)) / np.bincount(
        trajectory_of
    )
    pools, pool_of = np.unique(trajectories[:, :2], axis=0, return_inverse=True)
    is_trained = np.zeros(len(trajectories), bool)
    for pool in range(len(pools)):
        members = rng.permutation(np.flatnonzero(pool_of.ravel() == pool))
        won = reward[members] > reward[members].mean() + ZERO
        wins, losses = members[won], members[~won]
        num_wins, num_losses = num_trained(len(wins), len(losses), oversample)
        cleanest = wins[np.argsort(rate[wins], kind="stable")]
        is_trained[cleanest[:num_wins]] = True
        is_trained[losses[:num_losses]] = True
    return is_trained[trajectory_of]


def num_trained(num_wins: int, num_losses: int, oversample: int) -> tuple[int, int]:
    """The numbers of wins and losses of a seat's trajectories in a group that are trained.

    >>> num_trained(4, 4, 2), num_trained(1, 7, 2), num_trained(7, 1, 2), num_trained(0, 8, 2)
    ((2, 2), (1, 3), (3, 1), (0, 4))
    """
    num = max((num_wins + num_losses) // oversample, 1)
    wins = round(num * num_wins / (num_wins + num_losses))
    wins = max(wins, min(num_wins, 1))
    wins = min(wins, num - min(num_losses, 1)) if num > 1 else wins
    return wins, num - wins
