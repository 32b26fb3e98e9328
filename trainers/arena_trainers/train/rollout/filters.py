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

from dataclasses import dataclass

import numpy as np

from arena_credit import TurnBatch
from arena_trainers.train.advantages import BatchCredit
from arena_trainers.train.clock import Clock
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.metrics import flat_groups
from arena_trainers.train.played import PlayedBatch, RecordsByProcess, SelectedTurns
from arena_trainers.train.prepared import PreparedGames
from arena_trainers.train.rollout.clean_wins import clean_wins
from arena_trainers.train.rollout.player import RolloutPlayer
from arena_trainers.train.rollout.reward_columns import compared_turns
from arena_trainers.train.turn_batches import rows_of_process, turn_batch

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
