"""The trainer's credit: which columns it reads, whether settings fit, and computing it."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from arena_envs.game import AnyGame
from arena_trainers import credit
from arena_trainers.config import TurnGRPOConfig
from arena_trainers.critic import FeatureCritic
from arena_trainers.rows import TurnRecord, turn_batch

STATE_COLUMNS = {"state_key", "action"}
VALUE_COLUMNS = {"value", "next_value"}


def compute_credit(
    args: TurnGRPOConfig, batch: credit.TurnBatch, state: Mapping[str, Any] | None
) -> credit.Credit:
    """The configured estimator's credit; pools without spread are logged, not warned of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", credit.FlatPoolWarning)
        result = credit.estimate(args.credit, batch, state=state, **args.credit_args)
    if not result.advantage.any():
        warnings.warn(
            "all advantages of this batch are 0: every pool has equal returns, or a single "
            "turn; a wider pool or more episodes per step would teach something",
            credit.FlatPoolWarning,
            stacklevel=2,
        )
    return result


def columns_read(args: TurnGRPOConfig) -> set[str]:
    """Optional columns that the estimator needs, or that its pools are made by."""
    pools = [v for v in args.credit_args.values() if isinstance(v, list | tuple)]
    named = {str(name) for pool in pools for name in pool}
    return {*credit.needed_columns(args.credit), *named}


def reads_positions(args: TurnGRPOConfig) -> bool:
    """Whether episodes are played again to find what the seats knew."""
    return args.critic is not None or bool(columns_read(args) & STATE_COLUMNS)


def check_credit(args: TurnGRPOConfig) -> None:
    """Tries the estimator on two turns that have the columns of a real batch.

    Raises:
        ValueError: unknown estimator or option, a column that rollouts do not give, a
            critic that nobody reads, or turn trees for an estimator that would compare
            whole episodes with parts of them.
    """
    credit.check_options(args.credit, args.credit_args)
    read = columns_read(args)
    if args.critic is None and read & VALUE_COLUMNS:
        raise ValueError(
            f"credit {args.credit!r} needs the column 'value': set critic='features'"
        )
    if args.critic is not None and not read & VALUE_COLUMNS:
        raise ValueError(
            f"credit {args.credit!r} reads no values: critic={args.critic!r} would do "
            "nothing"
        )
    if args.branch is not None and "state_key" not in read:
        raise ValueError(
            f"TurnGRPOTrainer does not support branch with credit {args.credit!r}: it does "
            "not compare turns of the same state, as 'at_grpo' and 'agentprm' do"
        )
    turns = [
        TurnRecord(0, i, i, 0, 0, {"game": float(i)}, 2, 4, True, False)
        for i in range(2)
    ]
    if reads_positions(args):
        turns = [turn._replace(state_key=0, action=turn.episode) for turn in turns]
    batch = turn_batch([turns], {}, ["example"])
    if args.critic is not None:
        batch = replace(batch, value=np.zeros(2), next_value=np.full(2, np.nan))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", credit.FlatPoolWarning)
        compute_credit(args, batch, None)


def make_critic(args: TurnGRPOConfig, games: Sequence[AnyGame]) -> FeatureCritic | None:
    """The configured critic, with the discount of the estimator."""
    if args.critic is None:
        return None
    discount = credit.default_option(args.credit, "discount")
    discount = args.credit_args.get("discount", 1.0 if discount is None else discount)
    return FeatureCritic(games, discount=discount, seed=args.seed, **args.critic_args)
