"""The score against the start has the luck of deals taken out."""

import numpy as np
import pytest

from arena_trainers.runs.callbacks import against_start
from arena_trainers.runs.callbacks.against_start import score_against
from arena_trainers.train.games import GamePlan
from arena_trainers.train.settings import SelfPlay
from arena_wrappers import make_policy


class Unknown:
    """A policy that reports no probabilities."""

    def __init__(self, spec):
        self.policy, self.name = make_policy(spec), spec

    def act(self, requests):
        return self.policy.act(requests)


# in tiny_hanabi both policies play the same deals, which cancels most of the luck already
@pytest.mark.parametrize(("game", "most"), [("kuhn_poker", 0.98), ("tiny_hanabi", 1)])
def test_the_error_is_smaller_and_the_mean_agrees(game, most, monkeypatch):
    plan = GamePlan(game, SelfPlay())
    players = Unknown("noisy:0.5(first)"), Unknown("random")
    mean, error = score_against(plan, *players, 100)
    monkeypatch.setattr(against_start, "helps", lambda *_: False)
    raw_mean, raw_error = score_against(plan, *players, 100)
    assert error <= most * raw_error
    assert abs(mean - raw_mean) < 3 * raw_error


def test_few_episodes_have_the_raw_score():
    plan = GamePlan("kuhn_poker", SelfPlay())
    players = Unknown("first"), Unknown("random")
    mean, _ = score_against(plan, *players, 4)
    assert mean == pytest.approx(np.round(mean * 4) / 4)
