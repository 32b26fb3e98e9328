"""Kaggle environments run games by the messages in their observations."""

import json
import runpy
from pathlib import Path

import pytest

pytest.importorskip("kaggle_environments", reason="not installed: make adapters")
pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.slow]

import kaggle_environments

from arena_wrappers import ScriptedPolicy, play

runpy.run_path(str(Path(__file__).with_name("example.py")))


def bets(observation):
    return "<answer>bet</answer>"


def fails(observation):
    raise ValueError


def last(agents, game="arena_kuhn_poker", **configuration):
    return kaggle_environments.make(game, configuration).run(agents)[-1]


def test_agents_play_all_seats_to_the_returns_of_play() -> None:
    policy = ScriptedPolicy(lambda request: request.wrap("bet"))
    for seed in range(6):
        (episode,) = play("kuhn_poker", policy, [seed])
        ended = last([bets, bets], seed=seed)
        assert [one.reward for one in ended] == episode.returns
        assert {one.status for one in ended} == {"DONE"}


def test_policies_play_the_seats_that_are_left(record_property) -> None:
    """CFR's strategy loses at most 1/18 to a best response, so betting pays at most that."""
    paid = kaggle_environments.evaluate(
        "arena_kuhn_poker_cfr", [bets], num_episodes=400
    )
    mean = sum(reward for (reward,) in paid) / len(paid)
    record_property("learned", f"mean return of always betting against cfr {mean:.2f}")
    assert mean < 0.05 + 5 * 1.5 / len(paid) ** 0.5


def test_an_invalid_reply_forfeits() -> None:
    ended = last([lambda observation: "?", bets], seed=0)
    assert [one.reward for one in ended] == [-2.0, 2.0]


def test_an_agent_that_fails_leaves_no_result() -> None:
    ended = last([bets, fails])
    assert [one.status for one in ended] == ["DONE", "ERROR"]
    assert [one.reward for one in ended] == [None, None]


def test_their_trainer_and_their_renderer_show_the_seat() -> None:
    env = kaggle_environments.make("arena_kuhn_poker", {"seed": 3})
    trainer = env.train([None, bets])
    assert "Kuhn poker" in trainer.reset().messages[0]["content"]
    seen, *_ = trainer.step("<answer>pass</answer>")
    assert env.render(mode="ansi") == seen.messages[-1]["content"]
    assert json.loads(env.render(mode="json"))["name"] == "arena_kuhn_poker"
