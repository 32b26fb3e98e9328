"""The credit of a global batch, with the values of a critic."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from arena_trainers.credit import Credit, TurnBatch
from arena_trainers.train.columns import estimate_credit, part_weights
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.critics import ExactCritic, FeatureCritic
from arena_trainers.train.matching import PreparedGames
from arena_trainers.train.records import TurnRecord, turn_batch, whole_row_lengths


def credited_batch(
    args: TurnGRPOConfig,
    games: PreparedGames,
    shares: Sequence[Sequence[TurnRecord]],
    critic: FeatureCritic | ExactCritic | None,
    state: Mapping[str, Any] | None,
) -> tuple[TurnBatch, Credit]:
    """The turns of all processes as one batch, and their credit.

    Args:
        args: the trainer's settings.
        games: the games.
        shares: the records of each process.
        critic: supplies the value columns, if there is one.
        state: the estimator's, from the batch before.
    """
    batch = turn_batch(
        shares,
        part_weights(args, games.functions),
        games.names,
        games.columns,
        [game.teams for game in games.rules],
    )
    if args.layout == "trajectory":
        batch = replace(batch, row_length=whole_row_lengths(batch))
    if critic is not None:
        records = [record for share in shares for record in share]
        batch = critic.with_values(batch, records)
    return batch, estimate_credit(args, batch, state)
