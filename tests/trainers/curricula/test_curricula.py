"""Curricula by hand, their options, and the kit that finds broken ones."""

import numpy as np
import pytest

from arena_envs import make_game
from arena_envs.registry import expression
from arena_trainers.curricula import (
    BaseCurriculum,
    Outcome,
    Task,
    curricula,
)
from arena_trainers.curricula.band import Band
from arena_trainers.curricula.stages import Stages
from arena_trainers.curricula.testing import BrokenPromise, check_curriculum
from arena_trainers.curricula.weights import Weights

KUHN, HANABI = "kuhn_poker", "tiny_hanabi"
GAMES = {name: make_game(name) for name in (KUHN, HANABI)}
BY_STEPS = [{"games": [KUHN], "steps": 20}, {"games": [KUHN, HANABI]}]
BY_SUCCESS = [{"games": [HANABI], "success": 0.5}, {"games": [KUHN]}]
MIXTURES = {"start": {KUHN: 1}, "end": {HANABI: 2}, "steps": 40}
SPECS = [  # a curriculum without options that must be given needs no entry
    {"horizon": {"horizons": [2, 4, None], "steps": 20}},
    {"stages": {"stages": BY_STEPS}},
    {"stages": {"stages": BY_SUCCESS, "window": 200}},
    {"weights": MIXTURES},
]


def proposed(curriculum, step, num=2000):
    """The share of each game among the tasks of a step."""
    rng = np.random.default_rng(0)
    found = [curriculum.propose(step, rng).game for _ in range(num)]
    return {game: found.count(game) / num for game in set(found)}


NAMED = {expression(spec).name for spec in SPECS}


@pytest.mark.parametrize(
    "spec", [*SPECS, *sorted({*curricula.built_in} - NAMED)], ids=str
)
def test_built_in_curricula_keep_their_promises(spec):
    check_curriculum(lambda: curricula.make(spec))


class Chosen(BaseCurriculum):
    """Proposes what a function of itself and the step says."""

    def __init__(self, task, state=lambda self: {}, change=lambda outcomes: None):
        self.task, self.state, self.change, self.calls = task, state, change, 0

    def propose(self, step, rng):
        self.calls += 1
        return self.task(self, step)

    def update(self, outcomes, step):
        self.change(outcomes)

    def state_dict(self):
        return self.state(self)


calls = iter(range(1000))
BROKEN = {
    "tasks": lambda: Chosen(lambda c, step: Task("chess")),
    "same for all processes": lambda: Chosen(
        lambda c, step: Task(max_turns=next(calls) + 1)
    ),
    "state": lambda: Chosen(lambda c, step: Task(max_turns=c.calls)),
    "arguments": lambda: Chosen(lambda c, step: Task(), change=lambda o: o.clear()),
}


@pytest.mark.parametrize("promise", BROKEN)
def test_the_kit_names_the_promise_that_is_broken(promise):
    with pytest.raises(BrokenPromise, match=f"promise '{promise}'"):
        check_curriculum(BROKEN[promise])


@pytest.mark.parametrize("task", [KUHN, Task(max_turns=0)])
def test_tasks_that_cannot_be_played_are_found(task):
    with pytest.raises(BrokenPromise, match="promise 'tasks'"):
        check_curriculum(lambda: Chosen(lambda c, step: task))


def test_a_state_that_json_cannot_hold_is_found():
    with pytest.raises(BrokenPromise, match=r"promise 'state': JSON cannot hold"):
        check_curriculum(lambda: Chosen(lambda c, s: Task(), state=lambda c: {1j}))


def test_weights_move_linearly():
    """From 1 : 0 to 1 : 3 in 40 steps: at step 10 hanabi has a quarter of 3/4."""
    curriculum = Weights(start={KUHN: 5}, end={KUHN: 1, HANABI: 3}, steps=40)
    assert proposed(curriculum, 0) == {KUHN: 1.0}
    for step, share in [(10, 3 / 16), (40, 3 / 4), (400, 3 / 4)]:
        assert proposed(curriculum, step)[HANABI] == pytest.approx(share, abs=0.03)


def test_a_stage_ends_after_its_steps():
    curriculum = Stages(stages=[{"games": [KUHN], "steps": 3}, *BY_STEPS])
    found, rng = [], np.random.default_rng(0)
    for step in (
        0,
        2,
        2,
        3,
        22,
        23,
        25,
    ):  # several batches a step, several steps a batch
        curriculum.propose(step, rng)
        curriculum.update([], step)
        found.append(curriculum.stage)
    assert found == [0, 0, 0, 1, 1, 2, 2]
    assert proposed(curriculum, 26)[KUHN] == pytest.approx(0.5, abs=0.04)


def test_a_stage_ends_at_its_success_over_the_window():
    """Window 4, threshold 0.5: 0 0 1 1 reaches it; outcomes of other games do not count."""
    curriculum = Stages(stages=BY_SUCCESS, window=4)
    curriculum.update([Outcome(KUHN, 1.0)] * 4, 0)
    curriculum.update([Outcome(HANABI, 1.0)] * 3, 1)
    assert curriculum.stage == 0
    curriculum.update([Outcome(HANABI, 0.0)] * 3, 2)
    assert curriculum.stage == 0
    curriculum.update([Outcome(HANABI, 1.0)] * 2, 3)
    assert curriculum.stage == 1
    curriculum.update([Outcome(KUHN, 1.0)] * 9, 4)
    assert curriculum.stage == 1


def test_games_outside_of_the_band_come_seldom_and_return():
    """Kuhn at 0.95 weighs 0.25 of hanabi; then (0.95 · 2 · 0.5 + 0 + 0) / 3 is within."""
    curriculum = Band(outside=0.25, decay=0.5)
    curriculum.prepare(GAMES)
    assert proposed(curriculum, 0)[KUHN] == pytest.approx(0.5, abs=0.04)
    curriculum.update([Outcome(KUHN, 0.95)] * 2, 0)
    assert proposed(curriculum, 1)[KUHN] == pytest.approx(0.2, abs=0.03)
    curriculum.update([Outcome(KUHN, 0.0)] * 2, 1)
    assert curriculum.success(KUHN) == pytest.approx(0.95 / 3)
    assert proposed(curriculum, 2)[KUHN] == pytest.approx(0.5, abs=0.04)
    assert curriculum.success(HANABI) is None


LAST = {"games": [KUHN]}
BOTH = {**LAST, "steps": 1, "success": 0.5}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("bnad", "did you mean 'band'"),
        (3, "want a name, got 3"),
        ({"low": 0.2}, "want one name with its options"),
        ({"band": {"hgih": 0.5}}, "no option 'hgih'; did you mean 'high'"),
        ({"band": {"low": 0.9, "high": 0.5}}, "want low of at most high"),
        ({"band": {"low": -1}}, "want a number low from 0 to 1, got -1"),
        ({"band": {"outside": 0}}, "want outside above 0"),
        ({"horizon": {"horizons": 4}}, "want horizons as a list, got 4"),
        ({"horizon": {"horizons": [8, 4]}}, "in ascending order"),
        ({"horizon": {"horizons": [None]}}, "in ascending order"),
        ({"horizon": {"horizons": [0, 4]}}, "integer of at least 1, got 0"),
        ({"stages": {"stages": "easy"}}, "want stages as a list"),
        ({"stages": {"stages": [LAST, LAST]}}, "steps: N} or"),
        ({"stages": {"stages": [BOTH, LAST]}}, "steps: N} or"),
        ({"stages": {"stages": BY_STEPS[:1]}}, "because it never ends"),
        (
            {"weights": {**MIXTURES, "start": {KUHN: 0}}},
            "want start as weights of games of at least 0, one of them above 0",
        ),
        (
            {"weights": {**MIXTURES, "end": {KUHN: -1, HANABI: 2}}},
            "want end as weights of games",
        ),
        (
            {"weights": {**MIXTURES, "steps": 0}},
            "want steps as an integer of at least 1, got 0",
        ),
    ],
    ids=str,
)
def test_options_that_do_not_fit_are_refused(spec, message):
    with pytest.raises(ValueError, match=message):
        curricula.make(spec)


@pytest.mark.parametrize(
    ("spec", "games", "message"),
    [
        ("band", [KUHN], "want at least two games for the curriculum 'band'"),
        (
            {"stages": {"stages": BY_STEPS}},
            [KUHN],
            "names 'tiny_hanabi', which is no game of the run",
        ),
        (
            {"weights": MIXTURES},
            [KUHN],
            "names 'tiny_hanabi', which is no game of the run",
        ),
    ],
)
def test_games_that_do_not_fit_are_refused(spec, games, message):
    curriculum = curricula.make(spec)
    with pytest.raises(ValueError, match=message):
        curriculum.prepare({name: GAMES[name] for name in games})
