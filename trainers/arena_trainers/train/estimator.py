"""The estimator that the settings name: its credit of a batch, its discount, weights of the reward's parts.

This module imports neither TRL nor torch.
"""

import warnings
from collections.abc import Collection, Mapping
from typing import Any

import arena_credit as credit
from arena_credit.by_name import find_estimator
from arena_credit.needs import needs_of
from arena_envs.checks import check_known
from arena_trainers.train.columns import part_of
from arena_trainers.train.records import PARTS
from arena_trainers.train.settings import SelfPlay


def estimate_credit(
    args: SelfPlay, batch: credit.TurnBatch, state: Mapping[str, Any] | None
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
    is_new = batch.action_value is not None and not batch.action_value.any()  # a critic
    if not result.advantage.any() and not is_new:
        warnings.warn(
            "all advantages of this batch are 0, since every pool has equal returns or a "
            "single turn; set a wider pool in credit_args, or more episodes_per_step",
            credit.FlatPoolWarning,
            stacklevel=2,
        )
    return result


def part_weights(args: SelfPlay, functions: Collection[str]) -> dict[str, float]:
    """Weights of the parts of the reward, by name.

    These are the parts in `part_weights`, and those that column functions supply. A supplied
    part has weight 0 unless `part_weights` sets it.
    """
    supplied_parts = [part for name in functions if (part := part_of(name))]
    reward_weights = dict.fromkeys(args.rewards, 1.0)  # as far as checks go
    return {**dict.fromkeys(supplied_parts, 0.0), **reward_weights, **args.part_weights}


def check_part_weights(args: SelfPlay, functions: Collection[str]) -> None:
    """Checks the names and weights of `part_weights`.

    Raises:
        ValueError: a weight for an unknown part, or weight 0 for the part that the
            estimator needs as a reward (`paid_part` of its `needs`).
    """
    for name in args.rewards:
        if name in args.part_weights or name in PARTS:
            raise ValueError(
                f"want the weight of {name!r} in rewards or in part_weights, got both; "
                "leave one out, or give it another name"
            )
    part_names = [*PARTS, *(part for name in functions if (part := part_of(name)))]
    for name in args.part_weights:
        problem = f"part_weights names {name!r}, which is not a reward part"
        check_known(name, part_names, problem)
    option = needs_of(find_estimator(args.credit)).paid_part
    if option is None:
        return
    part = {**credit.default_options(args.credit), **args.credit_args}[option]
    if part_weights(args, functions).get(part, 1.0) == 0:
        raise ValueError(
            f"credit {args.credit!r} needs as {option} a reward part with a weight "
            f"other than 0, got {part!r} with weight 0; set part_weights to "
            f"{{{part!r}: 1.0}}"
        )


def check_discounts(args: SelfPlay) -> None:
    """Raises ValueError for a potential with another discount than that of the credit."""
    discount = discount_of(args.credit, args.credit_args)
    for name in [n for n in ("milestones", "belief_gain") if n in args.rewards]:
        options = args.rewards[name] or {}
        own_discount = options.get("discount", 1.0)
        # turns that change nothing would be paid, or the optimum would change
        if own_discount != discount and options.get("potential", True):
            raise ValueError(
                f"want the discount of the credit, {discount!r}, in rewards[{name!r}], "
                f"got {own_discount!r}"
            )


def discount_of(estimator: str, options: Mapping[str, Any]) -> float:
    """The discount of an estimator with these options; its critic uses the same."""
    discount = {**credit.default_options(estimator), **options}.get("discount", 1.0)
    return float(discount)
