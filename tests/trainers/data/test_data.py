"""Rows for the supervised start."""

from collections import Counter

import pytest

import arena_envs
from arena_trainers.data import (
    Example,
    examples_of,
    legal_play,
    solver_replies,
    supervised_rows,
)
from arena_wrappers import PromptWrapper, ScriptedPolicy, make_policy, play


def env():
    return PromptWrapper(arena_envs.make("kuhn_poker"), "bare", rules=False)


def test_uniform_play_is_uniform_and_the_fixed_bot_is_not():
    def bets(**options):
        found = Counter()
        for messages, reply in examples_of(legal_play([env], 600, 0, **options)):
            found[messages[-1]["content"], reply] += 1
        prompts = {prompt for prompt, _ in found}
        assert len(prompts) == 12
        return [found[p, "bet"] / (found[p, "bet"] + found[p, "pass"]) for p in prompts]

    assert all(0.3 < share < 0.7 for share in bets(uniform=True))
    assert max(bets()) - min(bets()) > 0.4


def test_invalid_replies_are_no_examples():
    seats = [ScriptedPolicy(["bet"]), ScriptedPolicy(["nonsense"])]
    (episode,) = play(env, seats, [0])
    assert [reply for _, reply in examples_of([episode])] == ["bet"]


def test_a_solver_replies_in_states_that_it_would_avoid():
    """Perfect play passes a queen that was bet into sometimes, and never calls with a jack."""
    examples = solver_replies([env], make_policy("cfr"), 300, seed=0)
    found = Counter((m[-1]["content"].splitlines()[0], reply) for m, reply in examples)
    facing = [key for key in found if "hold J" in key[0] and key[0].count("bet") == 1]
    assert facing
    assert {reply for _, reply in facing} == {"pass"}
    assert len({prompt for prompt, _ in found}) == 12
    assert examples == solver_replies([env], make_policy("cfr"), 300, seed=0)


def test_a_teacher_that_fails_is_named():
    class Broken:
        name = "broken"

        def act(self, requests):
            from arena_wrappers import Reply

            return [Reply("", error="timeout") for _ in requests]

    with pytest.raises(ValueError, match="broken gave no reply: timeout"):
        solver_replies([env], Broken(), 1, seed=0)


def test_the_loss_covers_the_reply_and_its_end_alone(policy):
    (episode,) = play(env, policy, [0])
    turn = episode.turns[0]
    (row,) = supervised_rows(policy, [Example(turn.messages, "bet")])
    prompt = policy.encode(turn.messages)
    answer = [*policy.chat.ids("bet"), policy.eos_ids[0]]
    assert row["input_ids"] == prompt + answer
    assert row["labels"] == [-100] * len(prompt) + answer
