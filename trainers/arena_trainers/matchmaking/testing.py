"""Tests of a matchmaker: the promises that training relies on.

from arena_trainers.matchmaking.testing import check_matchmaker

def test_my_matchmaker_keeps_its_promises():
    check_matchmaker(lambda: MyMatchmaker(every=10))
"""

import copy
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from arena_envs import make_game
from arena_envs.doors import BrokenPromise, broken
from arena_envs.game import AnyGame
from arena_trainers.curricula.testing import STEPS, check_alike
from arena_trainers.matchmaking.protocol import (
    SELF,
    Matchmaker,
    Result,
    Seats,
    Start,
    missing_snapshot,
    snapshot_step,
)

__all__ = ["BrokenPromise", "check_matchmaker"]
NUM_STARTS = 6  # of a batch and game


def check_matchmaker(
    make: Callable[[], Matchmaker], games: Sequence[str] = ("kuhn_poker",)
) -> None:
    """Plays 61 steps with a matchmaker, by random results.

    | promise | what is checked |
    |---|---|
    | seats | one assignment for each start, of as many policy strings as the game has seats |
    | a learner | a seat of each start is `"self"` |
    | known policies | the others are in `policies`, or snapshots of `snapshots(step)` |
    | snapshots | each was taken when it is wanted; dropped ones never come back |
    | same for all processes | equal calls give equal assignments |
    | state | `state_dict` is JSON, and a matchmaker that loads it goes on alike |
    | arguments | starts and results are left as they are |

    Args:
        make: makes the matchmaker; each call makes a new one with the same options.
        games: ids of the games, for which `prepare` is called.

    Raises:
        BrokenPromise: names the first promise that is broken.
    """
    rules = {game: make_game(game) for game in games}
    made = [make() for _ in range(3)]
    for matchmaker in made:
        matchmaker.prepare(rules)
    missing = missing_snapshot(made[0], STEPS)
    if missing is not None:
        broken(
            "snapshots",
            f"at step {missing[0]} it wants the snapshot of step {missing[1]}, which was "
            "not taken or was dropped",
        )
    check_alike(made, lambda one, step: try_step(one, rules, step), "assigns")


def try_step(
    matchmaker: Matchmaker, rules: Mapping[str, AnyGame], step: int
) -> list[Seats]:
    """The assignments at a step; random results are told after that.

    Raises:
        BrokenPromise: an assignment does not fit, or starts or results are changed.
    """
    draw = np.random.default_rng([0, step])
    played: list[Result] = []
    for match in matchmaker.matches(step):
        for _ in range(match.num_episodes):
            returns = _returns(rules[match.game], draw)
            played.append(Result(match.game, tuple(match.seats), returns))
    if played:
        _update(matchmaker, played, step)
    starts = [
        Start(name, game.num_players, int(draw.integers(2**62)))
        for name, game in rules.items()
        for _ in range(NUM_STARTS)
    ]
    given = list(starts)
    found = list(matchmaker.assign(given, step, np.random.default_rng(step)))
    if given != starts:
        broken("arguments", "assign changes the list of starts")
    _check_seats(matchmaker, starts, found, step)
    results = [
        Result(start.game, tuple(seats), _returns(rules[start.game], draw))
        for start, seats in zip(starts, found, strict=True)
    ]
    _update(matchmaker, results, step)
    return [tuple(seats) for seats in found]


def _check_seats(
    matchmaker: Matchmaker, starts: Sequence[Start], found: Sequence[Seats], step: int
) -> None:
    if len(found) != len(starts):
        broken("seats", f"want {len(starts)} assignments, got {len(found)}")
    wanted = matchmaker.snapshots(step)
    for start, seats in zip(starts, found, strict=True):
        if len(seats) != start.num_seats or not all(isinstance(s, str) for s in seats):
            broken("seats", f"want {start.num_seats} policy strings, got {seats!r}")
        if SELF not in seats:
            broken(
                "a learner", f"want a seat of {SELF!r}, got {seats!r} at step {step}"
            )
        for who in {*seats} - {SELF, *matchmaker.policies}:
            if snapshot_step(who) not in wanted:
                broken(
                    "known policies",
                    f"{who!r} at step {step} is neither in policies "
                    f"{list(matchmaker.policies)!r} nor a snapshot of {list(wanted)!r}",
                )


def _update(matchmaker: Matchmaker, results: list[Result], step: int) -> None:
    given = copy.copy(results)
    matchmaker.update(given, step)
    if given != results:
        broken("arguments", "update changes the list of results")


def _returns(game: AnyGame, draw: np.random.Generator) -> tuple[float, ...]:
    """Random returns; in a zero-sum game they add up to 0."""
    values = draw.uniform(game.min_return, game.max_return, game.num_players)
    if game.zero_sum:
        values -= values.mean()
    return tuple(values.tolist())
