"""`BatchCredit`: from what was played to the advantages of its turns."""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from accelerate.utils import gather_object

from arena_credit import Credit, FlatPoolWarning, TurnBatch
from arena_trainers.lm.policy import LMPolicy
from arena_trainers.lm.reward_model import RewardModel
from arena_trainers.matchmaking import SELF
from arena_trainers.rewards import Part
from arena_trainers.train.clock import Clock
from arena_trainers.train.columns import functions_of, reward_columns_of
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.critics.protocol import Critic
from arena_trainers.train.critics.replies import with_reply_probs
from arena_trainers.train.estimator import estimate_credit, part_weights
from arena_trainers.train.played import PlayedBatch, RecordsByProcess
from arena_trainers.train.prepared import PreparedGames
from arena_trainers.train.records import (
    SpanFunction,
    TurnRecord,
    num_turns,
    turn_records,
)
from arena_trainers.train.rollout.reward_columns import with_reward_columns, with_scores
from arena_trainers.train.rows import whole_row_lengths
from arena_trainers.train.together import check_together
from arena_trainers.train.turn_batches import turn_batch


class CreditedBatch(NamedTuple):
    """The turns of all processes as one batch, and their credit."""

    turns: TurnBatch
    credit: Credit


class BatchCredit:
    """The part of `TurnGRPOTrainer` that gives turns their credit.

    All processes make the same calls, and get the same credit.

    Args:
        args: the trainer's settings.
        games: the games, with the columns that the estimator reads.
        critic: supplies the value columns, if there is one.
        models: reward models that supply columns, by path.
        clock: counts the time.
        max_tokens: most tokens that run through a reward model at once.
        spans: as for `turn_records`.
        policy: which plays the seats that learn, for critics with action values.

    Attributes:
        state: the estimator's, from the batch before.
        parts: of the reward, of the option `rewards`; `multipliers` of those with a limit.
        step: the optimizer step, at which `weights` holds.
        metrics: of the critic and of `rewards`, for the latest batch.
    """

    def __init__(
        self,
        args: TurnGRPOConfig,
        games: PreparedGames,
        critic: Critic | None,
        models: Mapping[str, RewardModel],
        clock: Clock,
        max_tokens: int,
        spans: SpanFunction | None = None,
        policy: LMPolicy | None = None,
    ) -> None:
        self.args, self.games, self.critic = args, games, critic
        self.models, self.clock, self.max_tokens = models, clock, max_tokens
        self.spans, self.policy = spans, policy
        self.state: Mapping[str, Any] | None = None
        self.metrics: dict[str, float] = {}
        functions = games.functions.values()
        self.parts = [part for part in functions if isinstance(part, Part)]
        self.multipliers = {part.name: 0.0 for part in self.parts if part.sign}
        self.step = 0

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each part of the reward at this step."""
        now = {
            part.name: part.weight_at(self.step, self.multipliers.get(part.name, 0.0))
            for part in self.parts
        }
        return part_weights(self.args, self.games.functions) | now

    def _log_rewards(self, records: Sequence[TurnRecord], trains: bool) -> None:
        """Logs weights and means of the rewards, and moves the multipliers."""
        weights = self.weights
        for part in self.parts:
            paid_records = [record for record in records if part.name in record.rewards]
            # over turns, not their calls
            total = math.fsum(record.rewards[part.name] for record in paid_records)
            mean = total / max(num_turns(paid_records), 1)
            self.metrics[f"arena/reward/{part.name}"] = mean
            self.metrics[f"arena/reward/{part.name}/weight"] = weights[part.name]
            if trains and records and part.sign:
                moved = part.moved(self.multipliers[part.name], mean)
                self.multipliers[part.name] = moved

    def _check_calls(self, played: PlayedBatch) -> None:
        """Raises ValueError for what turns of several calls do not support, see `together`."""
        turns = (
            turn
            for episode, policies in zip(played.episodes, played.seats, strict=True)
            for turn in episode.turns
            if policies[turn.seat] == SELF
        )
        if any(turn.generations for turn in turns):
            games = self.games
            check_together(self.args, games.columns, games.functions, plays_agent=True)

    def records(self, played: PlayedBatch) -> RecordsByProcess:
        """The records of all turns that were played, of each process."""
        games, from_rewards = self.games, reward_columns_of(self.games.functions)
        self._check_calls(played)
        with self.clock.part("credit"):
            records = turn_records(
                played.episodes,
                played.games,
                played.seats,
                games.rules,
                games.columns,
                functions_of(games.functions),
                self.args.branching(()),
                self.spans,
            )
            if "reply_probs" in games.columns and self.policy is not None:
                records = with_reply_probs(records, played.episodes, self.policy)
            if from_rewards:
                records = with_scores(
                    records, played.episodes, self.models, self.max_tokens
                )
            shares: RecordsByProcess = gather_object([records])
            return with_reward_columns(shares, from_rewards) if from_rewards else shares

    def __call__(self, shares: RecordsByProcess, trains: bool) -> CreditedBatch:
        """The credit of a batch; if it is trained, the estimator's state and critic go on."""
        args, games = self.args, self.games
        records = [turn for share in shares for turn in share]
        with self.clock.part("credit"):
            turns = turn_batch(
                shares,
                self.weights,
                games.names,
                games.columns,
                [game.teams for game in games.rules],
            )
            if args.layout == "trajectory":
                turns = replace(turns, row_length=whole_row_lengths(turns))
            if self.critic is not None:
                turns = self.critic.with_values(turns, records)
            with warnings.catch_warnings():
                if all(record.is_invalid for record in records):
                    # equal returns of invalid replies are no fault of the pools
                    warnings.simplefilter("ignore", FlatPoolWarning)
                credit = estimate_credit(args, turns, self.state)
            self.metrics = {}
            if self.critic is not None:
                self.metrics = self.critic.after(turns, records, trains)
            self._log_rewards(records, trains)
            if trains:
                self.state = credit.state
        return CreditedBatch(turns, credit)
