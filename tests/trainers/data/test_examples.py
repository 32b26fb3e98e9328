"""Examples for supervised training: whose replies they hold, in which states."""

import arena_envs
from arena_trainers.data import legal_play, solver_examples
from arena_wrappers import PromptWrapper, ScriptedPolicy, make_policy


def env():
    return PromptWrapper(arena_envs.make("kuhn_poker"), "bare", rules=False)


def test_random_play_replies_legally_and_differs_by_seed():
    examples = legal_play([env], 50, seed=0)
    assert {example.reply for example in examples} == {"bet", "pass"}
    assert legal_play([env], 50, seed=0) == examples
    assert legal_play([env], 50, seed=1) != examples


def prompts(examples):
    return sorted(example.messages[-1]["content"] for example in examples)


def test_a_solver_is_asked_in_the_states_of_random_play():
    """Two actions of a king are known: it calls a bet, and bets after a pass."""
    played = legal_play([env], 100, seed=0)
    examples = solver_examples([env], make_policy("cfr"), 100, seed=0)
    assert prompts(examples) == prompts(played)
    second = [
        example.reply
        for example in examples
        if "player_1 and hold K" in example.messages[-1]["content"]
    ]
    assert len(second) > 10
    assert set(second) == {"bet"}


def test_the_teacher_does_not_play():
    stubborn = ScriptedPolicy(lambda request: request.wrap(request.legal[0]))
    examples = solver_examples([env], stubborn, 50, seed=0)
    assert len({example.reply for example in examples}) == 1
    assert len({example.messages[-1]["content"] for example in examples}) == 12
