"""Prompts of play, and the forward passes that a policy makes."""

import pytest

from arena_wrappers import RandomPolicy, play


@pytest.fixture
def prompts(policy, kuhn_env):
    """Of lockstep play: uneven lengths, most of them several times."""
    episodes = play(kuhn_env, RandomPolicy(), range(20))
    return [policy.encode(turn.messages) for e in episodes for turn in e.turns]


@pytest.fixture
def passes(policy, monkeypatch):
    """The shape of the tokens of each forward pass: rows, and tokens of a row."""
    shapes = []
    forward = policy.model.forward

    def counted(*args, **kwargs):
        shapes.append(tuple(kwargs["input_ids"].shape))
        return forward(*args, **kwargs)

    monkeypatch.setattr(policy.model, "forward", counted)
    return shapes
