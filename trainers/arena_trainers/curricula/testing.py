"""Tests of a curriculum: the promises that training relies on.

from arena_trainers.curricula.testing import check_curriculum

def test_my_curriculum_keeps_its_promises():
    check_curriculum(lambda: MyCurriculum(steps=10))
"""

import copy
import json
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from arena_envs import make_game
from arena_envs.registry import BrokenPromise, broken
from arena_trainers.curricula.protocol import Curriculum, Outcome, Stateful, Task

__all__ = ["BrokenPromise", "check_curriculum"]
STEPS = range(61)  # at which batches are played
NUM_STARTS = 6  # of a batch
_Stateful = TypeVar("_Stateful", bound=Stateful)


def check_curriculum(
    make: Callable[[], Curriculum],
    games: Sequence[str] = ("kuhn_poker", "tiny_hanabi"),
) -> None:
    """Plays 61 steps with a curriculum, by random outcomes.

    | promise | what is checked |
    |---|---|
    | tasks | each is a `Task` of a game of the run, or None, with a limit above 0, or None |
    | same for all processes | equal calls give equal tasks |
    | state | `state_dict` is JSON, and a curriculum that loads it goes on alike |
    | arguments | outcomes are left as they are |

    Args:
        make: makes the curriculum; each call makes a new one with the same options.
        games: ids of the games, for which `prepare` is called.

    Raises:
        BrokenPromise: names the first promise that is broken.
    """
    curricula = [make() for _ in range(3)]
    for curriculum in curricula:
        curriculum.prepare({game: make_game(game) for game in games})
    check_alike(
        curricula,
        lambda curriculum, step: try_step(curriculum, games, step),
        "proposes",
    )


def check_alike(
    instances: Sequence[_Stateful],
    run_step: Callable[[_Stateful, int], object],
    verb: str,
) -> None:
    """Checks that equal objects go on alike, also the third one, which takes a state midway.

    Args:
        instances: three equal objects with a state.
        run_step: what one of them gives at a step.
        verb: the verb for that.
    """
    first, second, resumed = instances
    for number in STEPS:
        expected = run_step(first, number)
        if run_step(second, number) != expected:
            broken("same for all processes", f"one {verb} differently at step {number}")
        if number == STEPS[-1] // 2:
            try:
                state = json.loads(json.dumps(first.state_dict()))
            except (TypeError, ValueError) as error:
                broken("state", f"JSON cannot hold it: {error}")
            resumed.load_state_dict(state)
        if number > STEPS[-1] // 2 and run_step(resumed, number) != expected:
            broken("state", f"one that loaded it {verb} differently at step {number}")


def try_step(curriculum: Curriculum, games: Sequence[str], step: int) -> list[Task]:
    """The proposals at a step; random outcomes are told after that.

    Raises:
        BrokenPromise: a task is none, or of no game of the run, or the outcomes are changed.
    """
    rng, outcome_rng = np.random.default_rng(step), np.random.default_rng([0, step])
    tasks = [curriculum.propose(step, rng) for _ in range(NUM_STARTS)]
    for task in tasks:
        if not isinstance(task, Task):
            broken("tasks", f"want a Task, got {task!r} at step {step}")
        if task.game is not None and task.game not in games:
            broken(
                "tasks", f"want a game of {list(games)}, got {task!r} at step {step}"
            )
        if task.max_turns is not None and task.max_turns < 1:
            broken("tasks", f"want a limit above 0, got {task!r} at step {step}")
    outcomes = [Outcome(task.game or games[0], outcome_rng.random()) for task in tasks]
    passed_outcomes = copy.copy(outcomes)
    curriculum.update(passed_outcomes, step)
    if passed_outcomes != outcomes:
        broken("arguments", "update changes the list of outcomes")
    return tasks
