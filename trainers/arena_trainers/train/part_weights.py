"""Weights of the parts of the reward, such as `game` and `format`."""

from collections.abc import Collection
from typing import TYPE_CHECKING

from arena_envs.checks import did_you_mean
from arena_trainers import credit
from arena_trainers.credit.by_name import find_estimator
from arena_trainers.credit.needs import needs_of
from arena_trainers.train.column_functions import part_of
from arena_trainers.train.turn_records import PARTS

if TYPE_CHECKING:
    from arena_trainers.train.config import TurnGRPOConfig


def part_weights(
    args: "TurnGRPOConfig", functions: Collection[str]
) -> dict[str, float]:
    """Weights of the parts of the reward, by name.

    These are the parts in `part_weights`, and those that column functions supply. A supplied
    part has weight 0 unless `part_weights` sets it.
    """
    given = [part for name in functions if (part := part_of(name))]
    return {**dict.fromkeys(given, 0.0), **args.part_weights}


def check_part_weights(args: "TurnGRPOConfig", functions: Collection[str]) -> None:
    """Checks the names and weights of `part_weights`.

    Raises:
        ValueError: a weight for an unknown part, or weight 0 for the part that the
            estimator needs as a reward (`paid_part` of its `needs`).
    """
    known = [*PARTS, *(part for name in functions if (part := part_of(name)))]
    for name in args.part_weights:
        if name not in known:
            raise ValueError(
                f"part_weights names {name!r}, which is not a reward part; "
                f"{did_you_mean(str(name), known)}"
            )
    option = needs_of(find_estimator(args.credit)).paid_part
    if option is None:
        return
    part = {**credit.default_options(args.credit), **args.credit_args}[option]
    if part_weights(args, functions).get(part, 1.0) == 0:
        raise ValueError(
            f"credit {args.credit!r} needs as {option} a reward part with a weight other "
            f"than 0, got {part!r} with weight 0; set part_weights to {{{part!r}: 1.0}}"
        )
