"""The matchmaker of a run, and the settings with which it works.

This module imports neither TRL nor torch.
"""

from collections.abc import Sequence
from typing import Any

from arena_trainers.matchmaking import Matchmaker
from arena_trainers.matchmaking.protocol import (
    assigns_seats,
    matchmaker_for,
    missing_snapshot,
)
from arena_trainers.train.checks import splits_weights
from arena_trainers.train.engine import by_server
from arena_trainers.train.game_plans import GamePlan

MAX_CHECKED_STEPS = 10_000  # of a run, to find out which snapshots are wanted when


def matchmaker_of(args: Any, plans: Sequence[GamePlan]) -> Matchmaker | None:
    """What assigns the seats of each start, ready for its games; None if they are fixed.

    Args:
        args: the trainer's settings.
        plans: the games.

    Raises:
        ValueError: an option or a game does not fit the matchmaker, no game has a seat for
            an opponent, or a setting does not support snapshots.
    """
    if not assigns_seats(args.opponents):
        return None
    matchmaker = matchmaker_for(args.opponents)
    games = {plan.name: plan.game for plan in plans if plan.seats is None}
    if all(game.num_players == 1 for game in games.values()):
        raise ValueError(
            f"want a game of several seats for opponents {args.opponents!r}, got "
            f"{', '.join(games)}; leave opponents out"
        )
    matchmaker.prepare(games)
    if matchmaker.max_live > 0:
        _check_snapshots(args, matchmaker)
    return matchmaker


def _check_snapshots(args: Any, matchmaker: Matchmaker) -> None:
    """Refuses settings under which snapshots cannot be taken or played."""
    who = f"opponents {args.opponents!r}, which plays snapshots of the model"
    if by_server(args):
        raise ValueError(
            f"vllm_mode 'server' does not support {who}: the server gets the weights of the "
            "learner alone; leave vllm_mode and the settings of the server out, or give lm: "
            "opponents"
        )
    if splits_weights(args):
        raise ValueError(
            f"sharded training does not support {who}: it has not been tested with it; "
            "train with plain data parallelism, or give lm: opponents"
        )
    last = args.max_steps if args.max_steps > 0 else MAX_CHECKED_STEPS
    steps = range(0, min(last, MAX_CHECKED_STEPS), args.window)
    missing = missing_snapshot(matchmaker, steps)
    if missing is not None:
        raise ValueError(
            f"matchmaker {args.opponents!r} wants at step {missing[0]} the snapshot of step "
            f"{missing[1]}, when none is taken; set its every to a multiple of {args.window}, "
            "the optimizer steps that share a generation batch"
        )
