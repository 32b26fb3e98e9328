"""Which columns an estimator reads, whether rollouts give them, and its credit."""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from arena_trainers import credit
from arena_trainers.config import TurnGRPOConfig
from arena_trainers.credit.batch import INT_COLUMNS
from arena_trainers.rows import PARTS, TurnRecord, turn_batch

ALWAYS = ("game", "episode", "seat", "turn", "group", "terminated", "truncated")
COUNTS = ("num_tokens", "row_length")
ON_DEMAND = ("state_key", "action", "tokens.entropy", "tokens.logprob")
PROVIDED = (
    *ALWAYS,
    *COUNTS,
    *(f"rewards.{part}" for part in PARTS),
    *ON_DEMAND,
)
OF_CRITIC = {
    "features": ("value", "next_value"),
    "exact": ("value", "next_value", "action_value"),
}
OF_TREES = ("parent", "branch")
WHOLE = ("gigpo", "salt")  # compare trajectories besides turns of the same state
ABSENT = {
    "value": "set critic='features', or 'exact' for games that can be enumerated",
    "next_value": "set critic='features', or 'exact' for games that can be enumerated",
    "action_value": "set critic='exact', for games that can be enumerated",
    "rewards.judge": "no judge scores turns",
    "tokens.value": "no critic values tokens",
    "parent": "episodes do not branch, see `branch`",
    "branch": "episodes do not branch, see `branch`",
    "team": "games name no teams",
    "stratum": "games name no strata",
    "rollout": "trajectories are not cut into segments",
}


def check_credit_columns(args: TurnGRPOConfig) -> tuple[str, ...]:
    """The columns that the estimator reads, all of which rollouts give.

    They are those that it needs, and those that an option names, such as `pool` or, for
    token columns, `metric`.

    Raises:
        ValueError: unknown estimator, or a column that rollouts do not give; says what
            would give it. A critic whose values are not read, or turn trees for an
            estimator that would compare whole episodes with parts of them.
    """
    named = [
        name
        for value in args.credit_args.values()
        if isinstance(value, list | tuple)
        for name in value
        if name in INT_COLUMNS
    ]
    tokens = [f"tokens.{value}" for value in args.credit_args.values()]
    named += [name for name in tokens if name in ON_DEMAND]
    wanted = tuple(dict.fromkeys([*credit.needed_columns(args.credit), *named]))
    provided = PROVIDED
    if args.critic is not None:
        if not set(OF_CRITIC[args.critic]) & set(wanted):
            raise ValueError(
                f"credit {args.credit!r} reads no values: critic={args.critic!r} would do "
                "nothing"
            )
        provided += OF_CRITIC[args.critic]
    if args.branch is not None:
        if "state_key" not in wanted or args.credit in WHOLE:
            raise ValueError(
                f"TurnGRPOTrainer does not support branch with credit {args.credit!r}, "
                "which does not compare turns of the same state alone, as 'at_grpo' does"
            )
        provided += OF_TREES
        wanted = tuple(dict.fromkeys([*wanted, *OF_TREES]))
    for name in wanted:
        if name not in provided:
            reason = ABSENT.get(name, f"known are {', '.join(provided)}")
            raise ValueError(
                f"credit {args.credit!r} reads the column {name!r}, which these rollouts "
                f"do not give: {reason}"
            )
    return wanted


def check_credit(args: TurnGRPOConfig) -> tuple[str, ...]:
    """Tries the estimator on two turns that have the columns of a real batch.

    Returns:
        The columns that it reads.

    Raises:
        ValueError: unknown estimator or option, or a column that rollouts do not give.
    """
    credit.check_options(args.credit, args.credit_args)
    wanted = check_credit_columns(args)
    tokens = {"entropy": [0.5, 0.5], "logprob": [-1.0, -1.0]}
    turns = [
        TurnRecord(0, i, i, 0, 0, paid, 2, 4, True, False, i, i, tokens)
        for i, paid in enumerate([dict.fromkeys(PARTS, 0.0), dict.fromkeys(PARTS, 1.0)])
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", credit.FlatPoolWarning)
        batch = turn_batch([turns], {}, ["example"], wanted)
        if args.critic is not None:
            batch = replace(batch, value=np.zeros(2), next_value=np.full(2, np.nan))
        if args.critic == "exact":
            batch = replace(batch, action_value=np.zeros(2))
        estimate_credit(args, batch, None)
    return wanted


def estimate_credit(
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
