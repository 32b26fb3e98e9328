"""Code of the user is tried before the start: a fault is one sentence, and costs no training."""

import re

import numpy as np
import pytest

from arena_trainers import TurnGRPOConfig
from arena_trainers.runs.checks import preflight
from arena_trainers.runs.rounds import try_selectors
from arena_trainers.runs.settings import PlayStage, RoundStages
from arena_trainers.train.games import GamePlan
from arena_trainers.train.matching import prepare_games

CODE = """
def one_arg(turn): return 1.0
def no_key(episode, turn, state): return {}["x"]
def tokens(episode, turn, state): return len(turn.token_ids)
def term(logps): return logps
def rows(episodes, seed=0):
    for episode in episodes: yield "a row"
class Lessons:
    reads_success = False
    def prepare(self, games): pass
    def propose(self, step): return None
class Seats:
    policies, max_live = (), 0
    def prepare(self, games): pass
    def snapshots(self, step): return ()
    def matches(self, step): return ()
    def assign(self, starts, step, rng): return [("self",)] * len(starts)
    def update(self, results, step): pass
"""
PAID = {"credit": "mars", "part_weights": {"x": 1.0}}


@pytest.fixture(autouse=True)
def users_code(tmp_path, monkeypatch):
    (tmp_path / "users_code.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (
            {"columns": {"rewards.x": "users_code:one_arg"}, **PAID},
            "columns['rewards.x'], 'one_arg', was tried before the run, and raised "
            "TypeError: one_arg() takes 1 positional argument but 3 were given",
        ),
        (
            {"columns": {"rewards.x": "users_code:no_key"}, **PAID},
            "raised KeyError: 'x' (users_code.py:3)",
        ),
        (
            {"rewards": {"users_code:one_arg": {}}},
            "want a function of episode, turn, state and game",
        ),
        ({"curriculum": "users_code:Lessons"}, "raised TypeError: Lessons.propose()"),
        (
            {"opponents": {"users_code:Seats": {}}},
            "want 2 policy strings, got ('self',)",
        ),
        ({"credit": "users_code:one_arg"}, "raised TypeError: want a Credit"),
    ],
)
def test_code_of_the_user_is_tried_before_the_run(options, problem, tmp_path):
    with pytest.raises(ValueError, match=re.escape(problem)):
        preflight.check(options, tmp_path / "run", resume=False)


def test_functions_may_read_the_tokens_of_turns(tmp_path):
    options = {"columns": {"rewards.x": "users_code:tokens"}, **PAID}
    preflight.check(options, tmp_path / "run", resume=False)


def test_a_term_of_the_loss_is_tried_before_the_trainer_is_made(settings):
    args = TurnGRPOConfig(**settings, losses={"users_code:term": {"weight": 1.0}})
    with pytest.raises(ValueError, match=r"losses.'users_code:term'.: broken promise"):
        prepare_games(args)


def test_a_selector_is_tried_before_the_rounds(settings):
    plans = [GamePlan("kuhn_poker", TurnGRPOConfig(**settings))]
    stages = RoundStages(PlayStage(), {"users_code:rows": {}}, {"trainer": "sft"})
    with pytest.raises(ValueError, match="want rows and Dropped, got 'a row'"):
        try_selectors([stages], plans)


def test_a_game_that_is_listed_twice_has_two_names_in_a_curriculum(settings):
    games = [
        {"id": "kuhn_poker", "opponents": ["self", "random"]},
        {"id": "kuhn_poker", "opponents": ["self", "cfr"]},
    ]
    weights = {"start": {"kuhn_poker": 1}, "end": {"kuhn_poker #2": 1}, "steps": 4}
    given = {**settings, "games": games, "curriculum": {"weights": weights}}
    curriculum = prepare_games(TurnGRPOConfig(**given)).curriculum
    rng = np.random.default_rng(0)
    names = [curriculum.propose(step, rng).game for step in (0, 4)]
    assert names == ["kuhn_poker", "kuhn_poker #2"]
