"""The curriculum and the matchmaker that the settings name, tried on the games of a run.

This module imports neither TRL nor torch.
"""

from collections.abc import Sequence

from arena_trainers.curricula import Curriculum, curricula
from arena_trainers.curricula.testing import try_step as try_curriculum
from arena_trainers.engines import by_server
from arena_trainers.matchmaking import Matchmaker
from arena_trainers.matchmaking.by_name import (
    assigns_seats,
    matchmaker_for,
    names_matchmaker,
)
from arena_trainers.matchmaking.protocol import missing_snapshot
from arena_trainers.matchmaking.testing import try_step as try_matchmaker
from arena_trainers.processes import splits_weights
from arena_trainers.train.games import GamePlan, numbered_names
from arena_trainers.train.settings import SelfPlay
from arena_trainers.trial import trial


def curriculum_of(args: SelfPlay, plans: Sequence[GamePlan]) -> Curriculum | None:
    """The curriculum that the settings name, ready for its games; None if they name none.

    Raises:
        ValueError: an option or a game does not fit the curriculum, its first step fails,
            or it reads a success that is the same in every episode.
    """
    if args.curriculum is None:
        return None
    name, remedy = f"curriculum {args.curriculum!r}", "one that check_curriculum passes"
    games = dict(zip(numbered_names(plans), (p.game for p in plans), strict=True))
    with trial(name, remedy):
        trial_curriculum = curricula.make(args.curriculum)
        trial_curriculum.prepare(games)
        try_curriculum(trial_curriculum, [*games], 0)
        curriculum = curricula.make(args.curriculum)
        curriculum.prepare(games)
    for plan in plans:
        if curriculum.reads_success and is_constant(
            plan.game.zero_sum, plan.seats or ()
        ):
            raise ValueError(
                f"the curriculum {args.curriculum!r} reads the success, which in "
                f"self-play of {plan.name} is the same in every episode; give it "
                "opponents, or a curriculum by steps"
            )
    return curriculum


def is_constant(zero_sum: bool, seats: Sequence[str]) -> bool:
    """Whether the mean return of the seats that learn is the same in every episode."""
    return zero_sum and bool(seats) and all(spec == "self" for spec in seats)


MAX_CHECKED_STEPS = 10_000  # of a run, to find out which snapshots are wanted when


def matchmaker_of(args: SelfPlay, plans: Sequence[GamePlan]) -> Matchmaker | None:
    """The matchmaker of the seats, ready for its games; None if they are fixed.

    Raises:
        ValueError: an option or a game does not fit the matchmaker, no game has a seat for
            an opponent, or a setting does not support snapshots.
    """
    if not assigns_seats(args.opponents):
        return None
    games = {plan.name: plan.game for plan in plans if plan.is_matched}
    if all(game.num_players == 1 for game in games.values()):
        raise ValueError(
            f"want a game of several seats for opponents {args.opponents!r}, got "
            f"{', '.join(games)}; leave opponents out"
        )
    name, remedy = f"opponents {args.opponents!r}", "what check_matchmaker passes"
    with trial(name, remedy):
        trial_matchmaker = matchmaker_for(args.opponents)
        trial_matchmaker.prepare(games)
        if names_matchmaker(args.opponents):
            try_matchmaker(trial_matchmaker, games, 0)
        matchmaker = matchmaker_for(args.opponents)
        matchmaker.prepare(games)
    if matchmaker.max_live > 0:
        _check_snapshots(args, matchmaker)
    return matchmaker


def _check_snapshots(args: SelfPlay, matchmaker: Matchmaker) -> None:
    """Refuses settings under which snapshots cannot be taken or played."""
    feature = f"opponents {args.opponents!r}, which plays snapshots of the model"
    if by_server(args):
        raise ValueError(
            f"vllm_mode 'server' does not support {feature}: the server gets the weights "
            "of the learner alone; leave vllm_mode and the settings of the server out, "
            "or give lm: opponents"
        )
    if splits_weights(args):
        raise ValueError(
            f"sharded training does not support {feature}: it has not been tested with it; "
            "train with plain data parallelism, or give lm: opponents"
        )
    last = args.max_steps if args.max_steps > 0 else MAX_CHECKED_STEPS
    steps = range(0, min(last, MAX_CHECKED_STEPS), args.window)
    missing = missing_snapshot(matchmaker, steps)
    if missing is not None:
        raise ValueError(
            f"matchmaker {args.opponents!r} wants at step {missing[0]} the snapshot of "
            f"step {missing[1]}, when none is taken; set its every to a multiple of "
            f"{args.window}, the optimizer steps that share a generation batch"
        )
