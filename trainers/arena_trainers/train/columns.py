"""Which columns an estimator reads, whether rollouts give them, and its credit."""

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from arena_envs.game import AnyGame
from arena_envs.registration import did_you_mean
from arena_trainers import credit
from arena_trainers.credit.batch import INT_COLUMNS
from arena_trainers.credit.needs import compares_unselected_only, keeps_state
from arena_trainers.credit.registry import find_estimator
from arena_trainers.train.column_functions import (
    SUPPLIED,
    ColumnFunction,
    check_functions,
    part_of,
)
from arena_trainers.train.engine import check_engine_columns
from arena_trainers.train.return_bounds import check_bounds
from arena_trainers.train.turn_records import PARTS, TurnRecord, turn_batch

if TYPE_CHECKING:
    from arena_trainers.train.config import TurnGRPOConfig

ALWAYS = (
    *("game", "episode", "seat", "turn", "group", "team"),
    *("terminated", "truncated"),
)
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
BRANCH_COLUMNS = ("parent", "branch", "unselected")
PER_BATCH_IDS = (
    *("group", "episode", "rollout", "parent"),
    *("state_key", "action"),
)  # numbered anew in every batch
WHOLE = ("gigpo", "salt")  # compare trajectories besides turns of the same state
FUNCTION = "give a function to TurnGRPOTrainer, columns={'NAME': function}"
CRITICS = "set critic='features', or 'exact' for games that can be enumerated"
ABSENT = {
    "value": f"{CRITICS}, or {FUNCTION}",
    "next_value": CRITICS,
    "action_value": "set critic='exact', for games that can be enumerated, or "
    + FUNCTION,
    "tokens.value": "no critic values tokens",
    "parent": "episodes do not branch, see `branch`",
    "branch": "episodes do not branch, see `branch`",
    "unselected": "episodes do not branch, see `branch`",
    "stratum": f"games name no strata; {FUNCTION}",
    "rollout": "trajectories are not cut into segments",
}


def part_weights(
    args: "TurnGRPOConfig", functions: Collection[str]
) -> dict[str, float]:
    """Weights of the reward parts; 0 for parts that functions give, if none is set."""
    given = [part for name in functions if (part := part_of(name))]
    return {**dict.fromkeys(given, 0.0), **args.part_weights}


def check_credit_columns(
    args: "TurnGRPOConfig", functions: Collection[str] = ()
) -> tuple[str, ...]:
    """The columns that the estimator reads, all of which rollouts give.

    They are those that it needs, and those that an option names, such as `pool` or, for
    token columns, `metric`.

    Args:
        args: settings.
        functions: the columns that the user's functions give.

    Raises:
        ValueError: unknown estimator, or a column that rollouts do not give; says what
            would give it. A critic whose values are not read, turn trees for an
            estimator that would compare whole episodes with parts of them, or columns
            that every batch numbers anew for an estimator that keeps a state by them.
    """
    named = _named_columns(args)
    needed = credit.needed_columns(args.credit, args.within_turn)
    wanted = tuple(dict.fromkeys([*needed, *named]))
    provided = (*PROVIDED, *functions)
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
        branching = args.branching(())
        unselected_only = compares_unselected_only(find_estimator(args.credit))
        if branching is not None and branching.follow == "best" and not unselected_only:
            raise ValueError(
                f"credit {args.credit!r} compares all turns, want no turns that were selected by their return: "
                "branch takes follow='random' or 'all' with it, got 'best'"
            )
        provided += BRANCH_COLUMNS
        wanted = tuple(dict.fromkeys([*wanted, *BRANCH_COLUMNS]))
    _check_provided(args, wanted, provided)
    check_engine_columns(args, wanted)
    return tuple(dict.fromkeys([*wanted, *functions]))


def _named_columns(args: "TurnGRPOConfig") -> list[str]:
    """The columns that options name; refuses those that a kept state would mix up."""
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
            f"credit {args.credit!r} keeps a state, and every batch numbers {mixed[0]!r} "
            f"anew: want columns that mean the same in all batches, got {named}"
        )
    tokens = [f"tokens.{value}" for value in args.credit_args.values()]
    return named + [name for name in tokens if name in ON_DEMAND]


def _check_provided(
    args: "TurnGRPOConfig", wanted: Sequence[str], provided: Sequence[str]
) -> None:
    """Refuses a column that rollouts do not give; says what would give it."""
    own = credit.needed_columns(args.credit)
    within = credit.needed_columns(args.credit, args.within_turn)
    for name in wanted:
        if name in provided:
            continue
        reason = ABSENT.get(name, f"known are {', '.join(provided)}")
        if part_of(name):
            reason = f"no judge scores turns; {FUNCTION}"
        if name in BRANCH_COLUMNS and "state_key" not in wanted:
            reason = "rollouts have no workers, and do not branch for this estimator"
        who = f"credit {args.credit!r}"
        if name in within and name not in own:
            who += f" with within_turn={args.within_turn!r}"
        raise ValueError(
            f"{who} reads the column {name!r}, which these rollouts do not give: "
            + reason.replace("NAME", name)
        )


def check_part_weights(args: "TurnGRPOConfig", functions: Collection[str]) -> None:
    """Refuses weights of parts that nobody pays, and an outcome that is not paid.

    Raises:
        ValueError: names the part.
    """
    known = [*PARTS, *(part for name in functions if (part := part_of(name)))]
    for name in args.part_weights:
        if name not in known:
            raise ValueError(
                f"part_weights names {name!r}, which is no reward part; "
                f"{did_you_mean(str(name), known)}"
            )
    outcome = args.credit_args.get("outcome", "game")
    weights = part_weights(args, functions)
    if args.credit == "mt_grpo" and weights.get(outcome, 1.0) == 0:
        raise ValueError(
            f"credit 'mt_grpo' takes an outcome that is paid, got part_weights of 0 for "
            f"{outcome!r}"
        )


def check_credit(
    args: "TurnGRPOConfig",
    games: Sequence[AnyGame] = (),
    functions: Mapping[str, ColumnFunction] | None = None,
) -> tuple[str, ...]:
    """Tries the estimator on turns that have the columns of a real batch.

    Args:
        args: settings.
        games: that are played, whose lowest and highest returns are tried.
        functions: of the user, by the column that each gives.

    Returns:
        The columns that are gathered: those that it reads, and those of the functions.

    Raises:
        ValueError: unknown estimator or option, a column that rollouts do not give, a
            function whose column nobody reads, bounds that a return can lie beyond, or
            weights of the reward parts that do not go with the estimator.
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
            if not weights.get(part_of(name) or "", 0.0):  # else it is paid
                _check_read(args, batch, name, result)
    return wanted


def _trial(games: Sequence[AnyGame], functions: Collection[str]) -> list[TurnRecord]:
    """Two turns of each game, one paid its lowest and one its highest return."""
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
    """Refuses a column without which the credit is the same."""
    parts = {k: v for k, v in (batch.rewards or {}).items() if k != part_of(name)}
    columns: dict[str, Any] = {} if part_of(name) else {name: None}
    without = replace(batch, rewards=parts, **columns)
    try:
        same = estimate_credit(args, without, None).advantage == result.advantage
    except ValueError:
        return
    if np.all(same):
        raise ValueError(
            f"columns gives {name!r}, which credit {args.credit!r} does not read"
        )


def estimate_credit(
    args: "TurnGRPOConfig", batch: credit.TurnBatch, state: Mapping[str, Any] | None
) -> credit.Credit:
    """The configured estimator's credit; pools without spread are logged, not warned of."""
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
            "all advantages of this batch are 0: every pool has equal returns, or a single "
            "turn; a wider pool or more episodes per step would teach something",
            credit.FlatPoolWarning,
            stacklevel=2,
        )
    return result
