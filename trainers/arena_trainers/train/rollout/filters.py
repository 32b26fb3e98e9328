"""`Filter`: which of the turns that were played are trained.

A group is flat if in every seat that learns all its trajectories have the same reward: an estimator with one
advantage per trajectory that compares within a group learns nothing from it. `flat_groups="drop"` plays starts of flat
groups again, at most `max_replays` times, and drops those that stay flat (DAPO's dynamic sampling,
https://arxiv.org/abs/2503.14476, without new starts). `oversample` trains a part of each group, and prefers clean wins.

Each choice selects by returns, so the gradient is biased:

- A baseline that pools over several groups, or moves, no longer sees the returns of flat groups, nor does a critic.
- Within a group the gradient changes by a factor if `beta` is 0; with a KL term the dropped groups lose theirs.
- Groups that were played again have rare returns more often than the policy's play.
- With `oversample` wins with invalid replies count less than their share. Wins and losses keep their proportion up to
  rounding; the rarer of the two weighs more where rounding would leave it out.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from arena_credit import TurnBatch
from arena_credit.batch import Bools
from arena_credit.pools import ZERO
from arena_trainers.train.advantages import BatchCredit
from arena_trainers.train.clock import Clock
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.metrics import flat_groups
from arena_trainers.train.prepared import PreparedGames
from arena_trainers.train.records import (
    PlayedBatch,
    RecordsByProcess,
    SelectedTurns,
    rows_of_process,
    turn_batch,
)
from arena_trainers.train.rollout.player import RolloutPlayer
from arena_trainers.train.rollout.reward_columns import compared_turns

CLEAN_WINS = 4  # what is drawn for, beside the purposes of `Matching` and `Tasks`


@dataclass(frozen=True)
class Filter:
    """The part of `TurnGRPOTrainer` that chooses what is trained; equal for all processes.

    Args:
        args: the trainer's settings.
        games: the games.
        player: plays flat groups again.
        credit: makes records of turns.
        process: index of this process.
        clock: counts the time.
    """

    args: TurnGRPOConfig
    games: PreparedGames
    player: RolloutPlayer
    credit: BatchCredit
    process: int
    clock: Clock

    def __call__(self, played: PlayedBatch) -> SelectedTurns:
        """The turns of a batch that are trained."""
        selected = SelectedTurns(self.credit.records(played), self.process, {})
        if self.credit.models:
            share = {"arena/compared_turns": compared_turns(selected.shares)}
            selected = selected._replace(metrics=share)
        if played.trains and self.args.flat_groups == "drop":
            selected = self._with_spread(selected, played)
        if played.trains and self.args.oversample > 1:
            selected = self._with_clean_wins(selected, played)
        return selected

    def _with_spread(
        self, selected: SelectedTurns, played: PlayedBatch
    ) -> SelectedTurns:
        """The records without flat groups, which are played again before they are dropped."""
        shares = selected.shares
        is_flat = self._flat_starts(shares)
        at_first = sum(is_flat.values())
        for attempt in range(1, self.args.max_replays + 1):
            flat = {start for start, value in is_flat.items() if value}
            if not flat:
                break
            self.player.play_again(played, flat, attempt)
            shares = self.credit.records(played)
            is_flat = self._flat_starts(shares)
        num_flat, num_groups = sum(is_flat.values()), max(len(is_flat), 1)
        if num_flat == len(is_flat):
            num_flat, is_flat = 0, dict.fromkeys(is_flat, False)  # credit needs a turn
        metrics = {
            **selected.metrics,
            "arena/flat_groups": at_first / num_groups,
            "arena/dropped_groups": num_flat / num_groups,
        }
        shares = [
            [turn for turn in share if not is_flat[turn.game, turn.seed]]
            for share in shares
        ]
        return selected._replace(shares=shares, metrics=metrics)

    def _with_clean_wins(
        self, selected: SelectedTurns, played: PlayedBatch
    ) -> SelectedTurns:
        """The records of the trajectories that are trained."""
        turns = [turn for share in selected.shares for turn in share]
        if not turns:
            return selected
        rng = np.random.default_rng([self.args.seed, played.number, CLEAN_WINS])
        with self.clock.part("credit"):
            batch = self._batch(selected.shares)
            invalid = np.array([turn.is_invalid for turn in turns])
            is_trained = clean_wins(batch, invalid, self.args.oversample, rng)
        trajectories = np.stack([batch.episode, batch.seat], axis=1)
        num_played = len(np.unique(trajectories, axis=0))
        num_kept = len(np.unique(trajectories[is_trained], axis=0))
        left_out = invalid[~is_trained]
        metrics = {
            **selected.metrics,
            "arena/trained_trajectories": num_kept / num_played,
            "arena/left_out_invalid": float(left_out.mean()) if left_out.size else 0.0,
        }
        shares = []
        for rank, share in enumerate(selected.shares):
            rows = rows_of_process(selected.shares, rank)
            shares.append(
                [turn for row, turn in zip(rows, share, strict=True) if is_trained[row]]
            )
        return selected._replace(shares=shares, metrics=metrics)

    def _flat_starts(self, shares: RecordsByProcess) -> dict[tuple[int, int], bool]:
        """Whether the group of each start, a game and a seed, is flat."""
        with self.clock.part("credit"):
            starts = {(turn.game, turn.seed) for share in shares for turn in share}
            if not starts:
                return {}
            is_flat = flat_groups(self._batch(shares))
        # groups are numbered in the order of their starts
        return dict(zip(sorted(starts), is_flat.tolist(), strict=True))

    def _batch(self, shares: RecordsByProcess) -> TurnBatch:
        return turn_batch(shares, self.credit.weights, self.games.names)


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
