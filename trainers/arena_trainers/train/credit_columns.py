"""The columns that the estimator reads, and whether rollouts supply them.

This module imports neither TRL nor torch.
"""

from collections.abc import Collection, Sequence

import arena_credit as credit
from arena_credit.batch import INT_COLUMNS
from arena_credit.by_name import estimators_with, find_estimator
from arena_credit.needs import Needs, keeps_state, needs_of
from arena_trainers.train.columns import part_of
from arena_trainers.train.critics.registry import critic_facts
from arena_trainers.train.records import PARTS
from arena_trainers.train.settings import SelfPlay

ALWAYS = (
    "game",
    "episode",
    "seat",
    "turn",
    "group",
    "team",
    "terminated",
    "truncated",
)
COUNTS = ("num_tokens", "row_length")
ON_DEMAND = (
    "state_key",
    "action",
    "opponent",
    "role",
    "tokens.entropy",
    "tokens.logprob",
    "tokens.span",
)
PROVIDED = (
    *ALWAYS,
    *COUNTS,
    *(f"rewards.{part}" for part in PARTS),
    *ON_DEMAND,
)
BRANCH_COLUMNS = ("parent", "branch", "unselected")
PER_BATCH_IDS = (
    "group",
    "episode",
    "rollout",
    "parent",
    "state_key",
    "action",
    "opponent",
    "role",
)  # the same number means something else in the next batch
FUNCTION = "set columns={'NAME': 'my_module:my_function'}"
CRITICS = (
    "set critic='features', or 'exact' for games that can be enumerated, or 'tokens'"
)
ABSENT = {
    "value": f"{CRITICS}, or {FUNCTION}",
    "next_value": CRITICS,
    "action_value": "set critic='features', or 'exact' for games that can be enumerated, or "
    f"'tokens' or 'utterances', or {FUNCTION}",
    "tokens.value": "set critic='tokens'",
    **dict.fromkeys(BRANCH_COLUMNS, "episodes do not branch; set branch"),
    "stratum": f"games define no strata; {FUNCTION}",
    "rollout": "trajectories are not cut into segments; choose another column",
}


def check_credit_columns(
    args: SelfPlay, functions: Collection[str] = ()
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
    option_columns = _option_columns(args)
    declared_columns = credit.needed_columns(args.credit, args.within_turn)
    read_columns = tuple(
        dict.fromkeys(
            [*declared_columns, *option_columns, *_columns_of_true_options(args)]
        )
    )
    provided = (*PROVIDED, *functions)
    supplied = critic_facts(args.critic).supplies
    provided += supplied
    if args.branch is not None:
        _check_branch(args, read_columns)
        provided += BRANCH_COLUMNS
        read_columns = tuple(dict.fromkeys([*read_columns, *BRANCH_COLUMNS]))
    _check_provided(args, [*option_columns, *read_columns], provided)
    if args.critic is not None and not {*supplied} & {*read_columns}:
        raise ValueError(
            f"credit {args.credit!r} reads no values of critic={args.critic!r}; give a credit "
            f"that does, such as {estimators_with(_reads_values)}, or leave critic out "
            "(--critic null where a recipe has one)"
        )
    return tuple(dict.fromkeys([*read_columns, *functions]))


def _columns_of_true_options(args: SelfPlay) -> list[str]:
    """The columns that the estimator reads only while an option is true, as it is now."""
    by_option = needs_of(find_estimator(args.credit)).with_option
    options = {**credit.default_options(args.credit), **args.credit_args}
    return [
        name
        for option, names in by_option.items()
        if options.get(option) is True
        for name in names
    ]


def _reads_values(needs: Needs) -> bool:
    return "value" in needs.columns


def _check_branch(args: SelfPlay, read_columns: Collection[str]) -> None:
    """Raises if the estimator cannot train on turn trees, or on those of `follow`."""
    needs, branching = needs_of(find_estimator(args.credit)), args.branching(())
    if needs.compares_trajectories or "state_key" not in read_columns:
        suitable = estimators_with(_compares_states)
        raise ValueError(
            f"TurnGRPOTrainer does not support branch with credit {args.credit!r}: "
            "want an estimator that compares only turns of the same state, such as "
            f"{suitable}"
        )
    if branching and branching.follow == "best" and not needs.unselected_only:
        suitable = estimators_with(lambda needs: needs.unselected_only)
        raise ValueError(
            f"credit {args.credit!r} does not support turns that were selected by "
            "their return, got branch with follow='best'; set follow='random' or "
            f"'all', or credit to {suitable}"
        )


def _compares_states(needs: Needs) -> bool:
    return "state_key" in needs.columns and not needs.compares_trajectories


def _option_columns(args: SelfPlay) -> list[str]:
    """The columns that options name; raises if a kept state cannot be keyed by them."""
    id_columns = [
        name
        for value in args.credit_args.values()
        if isinstance(value, list | tuple)
        for name in value
        if name in INT_COLUMNS
    ]
    mixed = [name for name in id_columns if name in PER_BATCH_IDS]
    if mixed and keeps_state(find_estimator(args.credit)):
        raise ValueError(
            f"credit {args.credit!r} keeps a state, but the numbers of {mixed[0]!r} "
            "change from batch to batch; want columns such as 'game' and 'seat', got "
            f"{id_columns}"
        )
    token_columns = [f"tokens.{value}" for value in args.credit_args.values()]
    supplied_columns = [
        name for name, value in args.credit_args.items() if value == "column"
    ]
    return (
        id_columns
        + supplied_columns
        + [name for name in token_columns if name in ON_DEMAND]
    )


def _check_provided(
    args: SelfPlay, read_columns: Sequence[str], provided: Sequence[str]
) -> None:
    """Raises if the rollouts lack a column; the message says what to set."""
    estimator_columns = credit.needed_columns(args.credit)
    all_columns = credit.needed_columns(args.credit, args.within_turn)
    for name in read_columns:
        if name in provided:
            continue
        reason = ABSENT.get(name, f"choose from {', '.join(provided)}")
        if part_of(name):
            reason = f"no function supplies this reward part; {FUNCTION}"
        if name in BRANCH_COLUMNS and "state_key" not in read_columns:
            reason = "rollouts have no workers; choose another estimator or column"
        reader = f"credit {args.credit!r}"
        if name in all_columns and name not in estimator_columns:
            reader += f" with within_turn={args.within_turn!r}"
        raise ValueError(
            f"{reader} needs the column {name!r}, which these rollouts do not have: "
            + reason.replace("NAME", name)
        )
