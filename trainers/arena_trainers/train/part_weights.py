"""Weights of the parts of the reward."""

from collections.abc import Collection
from typing import TYPE_CHECKING

from arena_envs.checks import did_you_mean
from arena_trainers import credit
from arena_trainers.credit.needs import needs_of
from arena_trainers.credit.registry import find_estimator
from arena_trainers.train.column_functions import part_of
from arena_trainers.train.turn_records import PARTS

if TYPE_CHECKING:
    from arena_trainers.train.config import TurnGRPOConfig


def part_weights(
    args: "TurnGRPOConfig", functions: Collection[str]
) -> dict[str, float]:
    """Weights of the reward parts that `part_weights` or a function names.

    The default weight of a part that a function gives is 0.
    """
    given = [part for name in functions if (part := part_of(name))]
    return {**dict.fromkeys(given, 0.0), **args.part_weights}


def check_part_weights(args: "TurnGRPOConfig", functions: Collection[str]) -> None:
    """Raises for a weight of an unknown part, and if a part must be paid and is not.

    Which part must be paid is declared by the estimator (`paid_part` of `needs`).

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
    option = needs_of(find_estimator(args.credit)).paid_part
    if option is None:
        return
    part = {**credit.default_options(args.credit), **args.credit_args}[option]
    if part_weights(args, functions).get(part, 1.0) == 0:
        raise ValueError(
            f"credit {args.credit!r} needs {option} to name a part that is paid, got "
            f"{part!r} with weight 0; set part_weights to {{{part!r}: 1.0}}"
        )
