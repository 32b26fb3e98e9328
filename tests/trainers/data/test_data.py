"""Rows for the supervised start."""

from collections import Counter

import pytest

import arena_envs
from arena_trainers.data import examples_of, legal_play, solver_examples
from arena_wrappers import PromptWrapper, Reply, ScriptedPolicy, make_policy, play


def env():
    return PromptWrapper(arena_envs.make("kuhn_poker"), "bare", rules=False)


def shares_of_bets(examples):
    found = Counter((messages[-1]["content"], reply) for messages, reply in examples)
    prompts = {prompt for prompt, _ in found}
    assert len(prompts) == 12
    return [found[p, "bet"] / (found[p, "bet"] + found[p, "pass"]) for p in prompts]


def test_random_replies_are_uniform_and_legal_play_is_not():
    uniform = solver_examples([env], make_policy("random"), 600, seed=0)
    assert all(0.3 < share < 0.7 for share in shares_of_bets(uniform))
    fixed = shares_of_bets(legal_play([env], 600, seed=0))
    assert max(fixed) - min(fixed) > 0.4


def test_invalid_replies_are_no_examples():
    seats = [ScriptedPolicy(["bet"]), ScriptedPolicy(["nonsense"])]
    (episode,) = play(env, seats, [0])
    assert [reply for _, reply in examples_of([episode])] == ["bet"]


def test_a_solver_replies_in_states_that_it_would_avoid():
    """Perfect play passes a queen that was bet into sometimes, and never calls with a jack."""
    examples = solver_examples([env], make_policy("cfr"), 300, seed=0)
    found = Counter((m[-1]["content"].splitlines()[0], reply) for m, reply in examples)
    facing = [key for key in found if "hold J" in key[0] and key[0].count("bet") == 1]
    assert facing
    assert {reply for _, reply in facing} == {"pass"}
    assert len({prompt for prompt, _ in found}) == 12
    assert examples == solver_examples([env], make_policy("cfr"), 300, seed=0)


def test_a_teacher_that_fails_is_named():
    class Broken:
        name = "broken"

        def act(self, requests):
            return [Reply("", error="timeout") for _ in requests]

    with pytest.raises(ValueError, match="broken gave no reply: timeout"):
        solver_examples([env], Broken(), 1, seed=0)
