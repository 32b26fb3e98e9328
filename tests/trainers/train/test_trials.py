"""Code of the user is tried before the start: a fault is one sentence, and costs no training."""

import json

import numpy as np
import pytest

CODE = """
def one_arg(turn): return 1.0
def no_key(episode, turn, state): return {}["x"]
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
def test_code_of_the_user_is_tried_before_the_run(
    options, problem, arena_here, tmp_path
):
    given = [
        x for name, value in options.items() for x in (f"--{name}", json.dumps(value))
    ]
    done = arena_here("train", *given, "--output-dir", "run", cwd=tmp_path)
    assert done.returncode == 2
    assert problem in done.stderr
    assert not (tmp_path / "run").exists()


def test_functions_may_read_the_tokens_of_turns(make_trainer):
    columns = {"rewards.x": lambda episode, turn, state: len(turn.token_ids)}
    make_trainer(columns, **PAID)


def test_a_term_of_the_loss_is_tried_before_the_trainer_is_made(make_trainer):
    with pytest.raises(ValueError, match=r"losses.'users_code:term'.: broken promise"):
        make_trainer(losses={"users_code:term": {"weight": 1.0}})


def test_a_selector_is_tried_before_the_rounds(arena_here, tmp_path):
    rounds = {"num": 1, "select": "users_code:rows", "train": {"trainer": "sft"}}
    (tmp_path / "loop.yaml").write_text(
        json.dumps({"games": ["nim"], "rounds": rounds})
    )
    done = arena_here("train", "loop.yaml", "--output-dir", "run", cwd=tmp_path)
    assert "want rows and Dropped, got 'a row'" in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_game_that_is_listed_twice_has_two_names_in_a_curriculum(make_trainer):
    games = [
        {"id": "kuhn_poker", "opponents": ["self", "random"]},
        {"id": "kuhn_poker", "opponents": ["self", "cfr"]},
    ]
    weights = {"start": {"kuhn_poker": 1}, "end": {"kuhn_poker #2": 1}, "steps": 4}
    trainer = make_trainer(games=games, curriculum={"weights": weights})
    rng, curriculum = np.random.default_rng(0), trainer.games.curriculum
    names = [curriculum.propose(step, rng).game for step in (0, 4)]
    assert names == ["kuhn_poker", "kuhn_poker #2"]
