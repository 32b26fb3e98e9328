"""Tests of a matchmaker: the promises that training relies on.

from arena_trainers.matchmaking.testing import check_matchmaker

def test_my_matchmaker_keeps_its_promises():
    check_matchmaker(lambda: MyMatchmaker(every=10))
"""

import copy
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from arena_envs import make_game
from arena_envs.game import AnyGame
from arena_envs.registry import BrokenPromise, broken
from arena_trainers.curricula.testing import STEPS, check_alike
from arena_trainers.matchmaking.protocol import (
    SELF,
    EpisodeReturns,
    Matchmaker,
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
    matchmakers = [make() for _ in range(3)]
    for matchmaker in matchmakers:
        matchmaker.prepare(rules)
    missing = missing_snapshot(matchmakers[0], STEPS)
    if missing is not None:
        broken(
            "snapshots",
            f"at step {missing[0]} it wants the snapshot of step {missing[1]}, which was "
            "not taken or was dropped",
        )
    check_alike(
        matchmakers,
        lambda matchmaker, step: try_step(matchmaker, rules, step),
        "assigns",
    )


def try_step(
    matchmaker: Matchmaker, rules: Mapping[str, AnyGame], step: int
) -> list[Seats]:
    """The assignments at a step; random results are told after that.

    Raises:
        BrokenPromise: an assignment does not fit, or starts or results are changed.
    """
    rng = np.random.default_rng([0, step])
    match_results: list[EpisodeReturns] = []
    for match in matchmaker.matches(step):
        for _ in range(match.num_episodes):
            returns = _random_returns(rules[match.game], rng)
            match_results.append(
                EpisodeReturns(match.game, tuple(match.seats), returns)
            )
    if match_results:
        _check_update(matchmaker, match_results, step)
    starts = [
        Start(name, game.num_players, int(rng.integers(2**62)))
        for name, game in rules.items()
        for _ in range(NUM_STARTS)
    ]
    passed_starts = list(starts)
    assignments = list(
        matchmaker.assign(passed_starts, step, np.random.default_rng(step))
    )
    if passed_starts != starts:
        broken("arguments", "assign changes the list of starts")
    _check_seats(matchmaker, starts, assignments, step)
    results = [
        EpisodeReturns(
            start.game, tuple(seats), _random_returns(rules[start.game], rng)
        )
        for start, seats in zip(starts, assignments, strict=True)
    ]
    _check_update(matchmaker, results, step)
    return [tuple(seats) for seats in assignments]


def _check_seats(
    matchmaker: Matchmaker,
    starts: Sequence[Start],
    assignments: Sequence[Seats],
    step: int,
) -> None:
    if len(assignments) != len(starts):
        broken("seats", f"want {len(starts)} assignments, got {len(assignments)}")
    snapshots = matchmaker.snapshots(step)
    for start, seats in zip(starts, assignments, strict=True):
        if len(seats) != start.num_seats or not all(
            isinstance(policy, str) for policy in seats
        ):
            broken("seats", f"want {start.num_seats} policy strings, got {seats!r}")
        if SELF not in seats:
            broken(
                "a learner", f"want a seat of {SELF!r}, got {seats!r} at step {step}"
            )
        for player in {*seats} - {SELF, *matchmaker.policies}:
            if snapshot_step(player) not in snapshots:
                broken(
                    "known policies",
                    f"{player!r} at step {step} is neither in policies "
                    f"{list(matchmaker.policies)!r} nor a snapshot of {list(snapshots)!r}",
                )


def _check_update(
    matchmaker: Matchmaker, results: list[EpisodeReturns], step: int
) -> None:
    passed_results = copy.copy(results)
    matchmaker.update(passed_results, step)
    if passed_results != results:
        broken("arguments", "update changes the list of results")


def _random_returns(game: AnyGame, rng: np.random.Generator) -> tuple[float, ...]:
    """Random returns; in a zero-sum game they add up to 0."""
    values = rng.uniform(game.min_return, game.max_return, game.num_players)
    if game.zero_sum:
        values -= values.mean()
    return tuple(values.tolist())
