"""Checks of the estimator's columns and options before training, and its credit."""

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from arena_envs.game import AnyGame
from arena_trainers import credit
from arena_trainers.credit.batch import INT_COLUMNS
from arena_trainers.credit.by_name import estimators_with, find_estimator
from arena_trainers.credit.needs import Needs, keeps_state, needs_of
from arena_trainers.train.column_functions import (
    SUPPLIED,
    Supplier,
    check_functions,
    part_of,
)
from arena_trainers.train.engine import check_engine_columns
from arena_trainers.train.global_batch import turn_batch
from arena_trainers.train.part_weights import check_part_weights, part_weights
from arena_trainers.train.return_bounds import check_bounds
from arena_trainers.train.turn_records import PARTS, TurnRecord

if TYPE_CHECKING:
    from arena_trainers.train.config import TurnGRPOConfig

ALWAYS = (
    *("game", "episode", "seat", "turn", "group", "team"),
    *("terminated", "truncated"),
)
COUNTS = ("num_tokens", "row_length")
ON_DEMAND = ("state_key", "action", "opponent", "tokens.entropy", "tokens.logprob")
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
BRANCH_COLUMNS = ("parent", "branch", "unselected")
PER_BATCH_IDS = (
    *("group", "episode", "rollout", "parent"),
    *("state_key", "action", "opponent"),
)  # the same number means something else in the next batch
FUNCTION = "set columns={'NAME': 'my_module:my_function'}"
CRITICS = "set critic='features', or 'exact' for games that can be enumerated"
ABSENT = {
    "value": f"{CRITICS}, or {FUNCTION}",
    "next_value": CRITICS,
    "action_value": "set critic='exact', for games that can be enumerated, or "
    + FUNCTION,
    "tokens.value": "no critic gives values of tokens; choose another option",
    "parent": "episodes do not branch; set branch",
    "branch": "episodes do not branch; set branch",
    "unselected": "episodes do not branch; set branch",
    "stratum": f"games define no strata; {FUNCTION}",
    "rollout": "trajectories are not cut into segments; choose another column",
}


def check_credit_columns(
    args: "TurnGRPOConfig", functions: Collection[str] = ()
) -> tuple[str, ...]:
    """The columns that the estimator reads.

    These are the columns that it declares with `needs` and the columns that its options
    name, such as `pool` or, for token columns, `metric`.

    Args:
        args: settings.
        functions: names of the columns that the user's functions give.

    Raises:
        ValueError: unknown estimator; a column that rollouts do not give (the message says
            what to set); a critic whose values are not read; turn trees for an estimator
            that compares whole trajectories; a state that is kept by columns whose numbers
            change from batch to batch.
    """
    named = _named_columns(args)
    needed = credit.needed_columns(args.credit, args.within_turn)
    wanted = tuple(dict.fromkeys([*needed, *named]))
    provided = (*PROVIDED, *functions)
    if args.critic is not None:
        if not set(OF_CRITIC[args.critic]) & set(wanted):
            raise ValueError(
                f"credit {args.credit!r} reads no values, got critic={args.critic!r}; "
                "leave critic out"
            )
        provided += OF_CRITIC[args.critic]
    if args.branch is not None:
        _check_branch(args, wanted)
        provided += BRANCH_COLUMNS
        wanted = tuple(dict.fromkeys([*wanted, *BRANCH_COLUMNS]))
    _check_provided(args, wanted, provided)
    check_engine_columns(args, wanted)
    return tuple(dict.fromkeys([*wanted, *functions]))


def _check_branch(args: "TurnGRPOConfig", wanted: Collection[str]) -> None:
    """Raises if the estimator cannot train on turn trees, or on those of `follow`."""
    needs, branching = needs_of(find_estimator(args.credit)), args.branching(())
    if needs.compares_trajectories or "state_key" not in wanted:
        known = estimators_with(_compares_states)
        raise ValueError(
            f"TurnGRPOTrainer does not support branch with credit {args.credit!r}: want an "
            f"estimator that compares only turns of the same state, such as {known}"
        )
    if branching and branching.follow == "best" and not needs.unselected_only:
        known = estimators_with(lambda needs: needs.unselected_only)
        raise ValueError(
            f"credit {args.credit!r} does not support turns that were selected by their "
            f"return, got branch with follow='best'; set follow='random' or 'all', or "
            f"credit to {known}"
        )


def _compares_states(needs: Needs) -> bool:
    return "state_key" in needs.columns and not needs.compares_trajectories


def _named_columns(args: "TurnGRPOConfig") -> list[str]:
    """The columns that options name; raises if a kept state cannot be keyed by them."""
    named = [
        name
        for value in args.credit_args.values()
        if isinstance(value, list | tuple)
        for name in value
        if name in INT_COLUMNS
    ]
    mixed = [name for name in named if name in PER_BATCH_IDS]
    if mixed and keeps_state(find_estimator(args.credit)):
        raise ValueError(
            f"credit {args.credit!r} keeps a state, but the numbers of {mixed[0]!r} change "
            f"from batch to batch; want columns such as 'game' and 'seat', got {named}"
        )
    tokens = [f"tokens.{value}" for value in args.credit_args.values()]
    return named + [name for name in tokens if name in ON_DEMAND]


def _check_provided(
    args: "TurnGRPOConfig", wanted: Sequence[str], provided: Sequence[str]
) -> None:
    """Raises if the rollouts lack a column; the message says what to set."""
    own = credit.needed_columns(args.credit)
    within = credit.needed_columns(args.credit, args.within_turn)
    for name in wanted:
        if name in provided:
            continue
        reason = ABSENT.get(name, f"choose from {', '.join(provided)}")
        if part_of(name):
            reason = f"no function supplies this reward part; {FUNCTION}"
        if name in BRANCH_COLUMNS and "state_key" not in wanted:
            reason = "rollouts have no workers; choose another estimator or column"
        who = f"credit {args.credit!r}"
        if name in within and name not in own:
            who += f" with within_turn={args.within_turn!r}"
        raise ValueError(
            f"{who} needs the column {name!r}, which these rollouts do not have: "
            + reason.replace("NAME", name)
        )


def check_credit(
    args: "TurnGRPOConfig",
    games: Sequence[AnyGame] = (),
    functions: Mapping[str, Supplier] | None = None,
) -> tuple[str, ...]:
    """Tests the estimator on a small batch with the columns of a real one.

    Args:
        args: settings.
        games: the games to train on; the test batch has their lowest and highest returns.
        functions: the user's functions and reward models, by column.

    Returns:
        The columns to collect: those that the estimator reads, and those of the functions.

    Raises:
        ValueError: unknown estimator or option; a column that rollouts do not give; a
            function whose column does not affect the credit; bounds that a return can lie
            outside of; weights of reward parts that do not fit the estimator.
    """
    functions = {} if functions is None else functions
    credit.check_options(args.credit, args.credit_args)
    taken = {*PROVIDED, *(OF_CRITIC[args.critic] if args.critic else ())}
    check_functions(functions, taken)
    wanted = check_credit_columns(args, functions)
    weights = part_weights(args, functions)
    check_part_weights(args, functions)
    check_bounds(args, games, weights)
    turns = _trial(games, functions)
    names = [str(number) for number in range(max(len(games), 1))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", credit.FlatPoolWarning)
        batch = turn_batch([turns], weights, names, wanted, [(0,)] * len(names))
        size = len(turns)
        if args.critic is not None:
            unread = np.full(size, np.nan)
            batch = replace(batch, value=np.zeros(size), next_value=unread)
        if args.critic == "exact":
            batch = replace(batch, action_value=np.zeros(size))
        result = estimate_credit(args, batch, None)
        for name in functions:
            if not weights.get(part_of(name) or "", 0.0):  # a paid part is read
                _check_read(args, batch, name, result)
    return wanted


def _trial(games: Sequence[AnyGame], functions: Collection[str]) -> list[TurnRecord]:
    """Two turns of each game: one is paid the lowest return, one the highest."""
    ranges = [(game.min_return, game.max_return) for game in games] or [(0.0, 1.0)]
    tokens = {"entropy": [0.5, 1.0], "logprob": [-1.0, -2.0]}
    found = []
    for game, ends in enumerate(ranges):
        for i, paid in enumerate(ends):
            parts = {part: float(i) for n in functions if (part := part_of(n))}
            rewards = {**dict.fromkeys(PARTS, 0.0), "game": paid, **parts}
            record = TurnRecord(
                game=game,
                seed=0,
                episode=2 * game + i,
                place=0,
                seat=0,
                turn=0,
                rewards=rewards,
                num_tokens=2,
                row_length=4,
                terminated=True,
                truncated=False,
                state=i,
                action=i,
                tokens=tokens,
                supplied={name: i for name in functions if name in SUPPLIED},
            )
            found.append(record)
    return found


def _check_read(
    args: "TurnGRPOConfig", batch: credit.TurnBatch, name: str, result: credit.Credit
) -> None:
    """Raises if the column does not affect the credit."""
    parts = {k: v for k, v in (batch.rewards or {}).items() if k != part_of(name)}
    columns: dict[str, Any] = {} if part_of(name) else {name: None}
    without = replace(batch, rewards=parts, **columns)
    try:
        same = estimate_credit(args, without, None).advantage == result.advantage
    except ValueError:
        return
    if np.all(same):
        raise ValueError(
            f"credit {args.credit!r} does not read {name!r}; leave it out of columns"
        )


def estimate_credit(
    args: "TurnGRPOConfig", batch: credit.TurnBatch, state: Mapping[str, Any] | None
) -> credit.Credit:
    """The configured estimator's credit.

    Warns only if all advantages are 0. Single flat pools are counted in the metrics.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", credit.FlatPoolWarning)
        result = credit.estimate(
            args.credit,
            batch,
            state=state,
            within_turn=args.within_turn,
            **args.credit_args,
        )
    if not result.advantage.any():
        warnings.warn(
            "all advantages of this batch are 0, since every pool has equal returns or a "
            "single turn; set a wider pool in credit_args, or more episodes_per_step",
            credit.FlatPoolWarning,
            stacklevel=2,
        )
    return result
