"""The curriculum of a run, and the games that it cannot teach.

This module imports neither TRL nor torch.
"""

from collections.abc import Sequence
from typing import Any

from arena_trainers.curricula import Curriculum, make_curriculum
from arena_trainers.train.game_plans import GamePlan


def curriculum_of(args: Any, plans: Sequence[GamePlan]) -> Curriculum | None:
    """The curriculum that the settings name, ready for its games; None if they name none.

    Args:
        args: the trainer's settings.
        plans: the games.

    Raises:
        ValueError: an option or a game does not fit the curriculum, a game is listed twice,
            or the curriculum reads a success that is the same in every episode.
    """
    if args.curriculum is None:
        return None
    curriculum = make_curriculum(args.curriculum)
    names = [plan.name for plan in plans]
    if len(set(names)) < len(names):
        raise ValueError(
            f"want each game once with a curriculum, got {names}; merge the games that are "
            "listed twice"
        )
    curriculum.prepare({plan.name: plan.game for plan in plans})
    for plan in plans:
        if curriculum.reads_success and is_constant(
            plan.game.zero_sum, plan.seats or ()
        ):
            raise ValueError(
                f"the curriculum {args.curriculum!r} reads the success, which in self-play "
                f"of {plan.name} is the same in every episode; give it opponents, or a "
                "curriculum by steps"
            )
    return curriculum


def is_constant(zero_sum: bool, seats: Sequence[str]) -> bool:
    """Whether the mean return of the seats that learn is the same in every episode."""
    return zero_sum and bool(seats) and all(who == "self" for who in seats)
