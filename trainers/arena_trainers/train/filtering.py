"""`FilteringTrainer`: the part of `TurnGRPOTrainer` that chooses what is trained.

A group is *flat* if in every seat that learns all its trajectories have the same reward. An
estimator with one advantage per trajectory that compares within a group, such as `grpo`, gives
it none. Estimators over returns-to-go do, where rewards come at different turns or pools join
several turns. With `flat_groups="drop"` the
trainer plays the starts of flat groups again, at most `max_replays` times and each time with
other samples. It drops the groups that are still flat. If every group is flat, it drops none.

Both **select data by its returns**, so what is trained is biased:

- An estimator that pools over several groups, or that keeps a moving baseline, no longer sees
  the returns of flat groups. Its baseline then is biased, and so is the gradient.
- An estimator with one advantage per trajectory that pools within a group has the same gradient
  without the flat groups, up to a factor, if `beta` is 0: a loss that averages over tokens
  divides by fewer of them. With a KL term the dropped groups also lose their KL gradient.
- A group that was played again is drawn from groups with spread. Within such groups rare returns
  are more frequent than in the policy's play. Starts whose groups are mostly flat still weigh
  less than their share.
- A critic is fitted to the selected groups only.

With `oversample` above 1 a part of each group's trajectories is trained, and clean wins are
preferred (`arena_trainers.train.clean_wins`). This selects by returns and by replies:

- The gradient is not that of the expected return. Wins with invalid replies count less than
  their share, so clean replies are learned besides.
- Wins and losses keep their proportion up to rounding, so a baseline of the group changes little.
  The rarer of the two weighs more than its share where rounding would leave it out.
- The opponent's trajectory in the same episode may be trained when this seat's is not.

Neither marks turns as selected (`unselected` of `TurnBatch`): such turns get no credit at all.

Dropping flat groups is DAPO's dynamic sampling without new starts ("DAPO: An Open-Source LLM
Reinforcement Learning System at Scale", https://arxiv.org/abs/2503.14476, section 3.2).
"""

from collections.abc import Mapping

import numpy as np
from accelerate.utils import gather_object

from arena_trainers.lm.reward_model import RewardModel
from arena_trainers.train.clean_wins import clean_wins
from arena_trainers.train.columns import part_weights
from arena_trainers.train.flat_groups import flat_groups
from arena_trainers.train.playing import PlayingTrainer
from arena_trainers.train.records import (
    TurnRecord,
    functions_of,
    reward_columns_of,
    rows_of_process,
    turn_batch,
    turn_records,
)
from arena_trainers.train.reward_columns import (
    compared_turns,
    scored,
    with_reward_columns,
)

Shares = list[list[TurnRecord]]

CLEAN_WINS = 4  # what is drawn for, beside `CHOICES`


class FilteringTrainer(PlayingTrainer):
    """Chooses the records that are trained.

    Attributes:
        last_records: the turns of this process that are trained, of seats that learn.
        last_rows: where these turns are in the global batch.
        filter_metrics: share of the groups that were flat when they were first played, and
            of those that were dropped; share of the trajectories that are trained, and of
            invalid replies among the others; share of the turns that reward models compare;
            empty without a filter and without reward models.
        reward_models: that supply columns, by path.
    """

    last_records: list[TurnRecord]
    last_rows: range
    filter_metrics: Mapping[str, float]
    reward_models: Mapping[str, RewardModel]

    def trained_records(self) -> Shares:
        """The records of each process that are trained."""
        shares, self.filter_metrics = self._shared_records(), {}
        if self.reward_models:
            self.filter_metrics = {"arena/compared_turns": compared_turns(shares)}
        if self.model.training and self.args.flat_groups == "drop":
            shares = self._with_spread(shares)
        if self.model.training and self.args.oversample > 1:
            shares = self._with_clean_wins(shares)
        self.last_rows = rows_of_process(shares, self.accelerator.process_index)
        return shares

    def _shared_records(self) -> Shares:
        """The records of all turns that were played, of each process."""
        games, branch = self.games, self.args.branching(())
        from_rewards = reward_columns_of(games.functions)
        with self.clock.part("credit"):
            own = turn_records(
                self.last_episodes,
                self.last_games,
                self.last_seats,
                games.rules,
                games.columns,
                functions_of(games.functions),
                branch,
            )
            if from_rewards:
                given = self.reward_models, self.max_tokens_per_forward
                own = scored(own, self.last_episodes, *given)
            shares: Shares = gather_object([own])
            if from_rewards:
                shares = with_reward_columns(shares, from_rewards)
            self.last_records = shares[self.accelerator.process_index]
        return shares

    def _with_spread(self, shares: Shares) -> Shares:
        """The records without flat groups, which are played again before they are dropped."""
        is_flat = self._flat_starts(shares)
        at_first = sum(is_flat.values())
        for attempt in range(1, self.args.max_replays + 1):
            flat = {start for start, value in is_flat.items() if value}
            if not flat:
                break
            with self.clock.part("environment"):
                self.play_again(flat, attempt)
            shares = self._shared_records()
            is_flat = self._flat_starts(shares)
        num_flat, num_groups = sum(is_flat.values()), max(len(is_flat), 1)
        if num_flat == len(is_flat):
            num_flat, is_flat = 0, dict.fromkeys(is_flat, False)  # credit needs a turn
        self.filter_metrics = {
            **self.filter_metrics,
            "arena/flat_groups": at_first / num_groups,
            "arena/dropped_groups": num_flat / num_groups,
        }
        shares = [
            [turn for turn in share if not is_flat[turn.game, turn.seed]]
            for share in shares
        ]
        self.last_records = shares[self.accelerator.process_index]
        return shares

    def _with_clean_wins(self, shares: Shares) -> Shares:
        """The records of the trajectories that are trained; equal for all processes."""
        weights = part_weights(self.args, self.games.functions)
        turns = [turn for share in shares for turn in share]
        if not turns:
            return shares
        rng = np.random.default_rng([self.args.seed, self.batch_number, CLEAN_WINS])
        with self.clock.part("credit"):
            batch = turn_batch(shares, weights, self.games.names)
            invalid = np.array([turn.is_invalid for turn in turns])
            kept = clean_wins(batch, invalid, self.args.oversample, rng)
        pairs = np.stack([batch.episode, batch.seat], axis=1)
        num_played = len(np.unique(pairs, axis=0))
        left_out = invalid[~kept]
        self.filter_metrics = {
            **self.filter_metrics,
            "arena/trained_trajectories": len(np.unique(pairs[kept], axis=0))
            / num_played,
            "arena/left_out_invalid": float(left_out.mean()) if left_out.size else 0.0,
        }
        places = iter(kept.tolist())
        shares = [[turn for turn in share if next(places)] for share in shares]
        self.last_records = shares[self.accelerator.process_index]
        return shares

    def _flat_starts(self, shares: Shares) -> dict[tuple[int, int], bool]:
        """Whether the group of each start, a game and a seed, is flat; equal for all processes."""
        weights = part_weights(self.args, self.games.functions)
        with self.clock.part("credit"):
            starts = {(turn.game, turn.seed) for share in shares for turn in share}
            if not starts:
                return {}
            found = flat_groups(turn_batch(shares, weights, self.games.names))
        # groups are numbered in the order of their starts
        return dict(zip(sorted(starts), found.tolist(), strict=True))
