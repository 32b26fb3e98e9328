"""RLlib plays every game, and learns tic-tac-toe in self-play."""

import os
import runpy
from pathlib import Path

import numpy as np
import pytest

import arena_envs

pytest.importorskip("ray", reason="ray is not installed: make adapters")
pytestmark = pytest.mark.filterwarnings("default")
os.environ.setdefault("RAY_raylet_start_wait_time_s", "120")  # a busy machine
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

from arena_wrappers import play
from arena_wrappers.adapters.rllib import RLlibEnv, seat_policies

all_games = pytest.mark.parametrize("id", [i.id for i in arena_envs.game_infos()])


@all_games
def test_an_episode_of_every_game_pays_its_returns(id: str) -> None:
    if arena_envs.make_game(id).num_actions is None:
        with pytest.raises(ValueError, match="numbered actions"):
            RLlibEnv({"game": id})
        return
    env, rng = RLlibEnv({"game": id}), np.random.default_rng(0)
    seen, _ = env.reset(seed=0)
    paid, over = dict.fromkeys(env.possible_agents, 0.0), False
    while not over:
        ((agent, view),) = seen.items()
        assert env.observation_spaces[agent].contains(view)
        action = rng.choice(np.flatnonzero(view["action_mask"]))
        seen, rewards, ended, cut, _ = env.step({agent: action})
        paid = {agent: paid[agent] + rewards[agent] for agent in paid}
        over = ended["__all__"] or cut["__all__"]
    assert list(paid.values()) == pytest.approx(env.env.returns)
    assert set(seen) == set(env.possible_agents)


def test_an_illegal_action_raises_and_changes_nothing() -> None:
    env = RLlibEnv({"game": "tic_tac_toe"})
    env.reset(seed=0)
    env.step({"player_0": 4})
    before = env.env.game_state
    with pytest.raises(ValueError, match="player_1 played 4"):
        env.step({"player_1": 4})
    assert env.env.game_state == before


def test_policies_are_mapped_to_seats() -> None:
    found = seat_policies("past", "main", frozen=["past"])
    of_agent = found["policy_mapping_fn"]
    assert [of_agent(f"player_{i}", None) for i in (0, 1)] == ["past", "main"]
    assert found["policies_to_train"] == ["main"]


def mean_returns(module, num_games: int = 200) -> list[float]:
    """Greedy play against random play, by seat."""
    import torch

    rng, means = np.random.default_rng(0), []
    for agent in ("player_0", "player_1"):
        returns = []
        for seed in range(num_games):
            env = RLlibEnv({"game": "tic_tac_toe"})
            seen, _ = env.reset(seed=seed)
            while len(seen) == 1:
                ((mover, view),) = seen.items()
                action = rng.choice(np.flatnonzero(view["action_mask"]))
                if mover == agent:
                    batch = {k: torch.as_tensor(v)[None] for k, v in view.items()}
                    scores = module.forward_inference({"obs": batch})
                    action = int(scores["action_dist_inputs"].argmax())
                seen, *_ = env.step({mover: action})
            returns.append(env.env.returns[env.possible_agents.index(agent)])
        means.append(float(np.mean(returns)))
    return means


def test_self_play_learns_tic_tac_toe(record_property, tmp_path) -> None:
    import ray

    ray.init(num_cpus=1, include_dashboard=False, object_store_memory=100 * 2**20)
    try:
        config = runpy.run_path(str(Path(__file__).with_name("example.py")))["CONFIG"]
        algorithm = config.build_algo()
        before = mean_returns(algorithm.get_module("main"))
        for _ in range(10):
            algorithm.train()
        after = mean_returns(algorithm.get_module("main"))
        algorithm.get_module("main").save_to_path(tmp_path)
        algorithm.stop()
    finally:
        ray.shutdown()
    text = "mean return by seat {:.2f}, {:.2f} -> {:.2f}, {:.2f}"
    record_property("learned", text.format(*before, *after))
    assert after[0] > 0.8
    assert after[1] > 0.4
    players = [f"array:rllib:{tmp_path}", "random"]
    episodes = play("tic_tac_toe", players, range(200))
    assert sum(episode.returns[0] for episode in episodes) / 200 > 0.7
