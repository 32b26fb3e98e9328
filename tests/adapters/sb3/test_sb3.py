"""Stable-Baselines3 and sb3-contrib take the Gymnasium ids as they are."""

import runpy
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest

import arena_envs
from arena_eval.exploit import exploitability
from arena_wrappers import make_policy, play

for name in ("stable_baselines3", "sb3_contrib"):
    pytest.importorskip(name, reason=f"{name} is not installed: make adapters")

from sb3_contrib import MaskablePPO
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import SubprocVecEnv

all_games = pytest.mark.parametrize("id", [i.id for i in arena_envs.game_infos()])


def spellings(id: str) -> tuple[str, str]:
    if arena_envs.make_game(id).num_actions is None:
        pytest.skip("its actions are texts")
    name, version = id.rsplit("-", 1)
    return f"arena/{name.title().replace('_', '')}-{version}", f"arena/{id}"


@all_games
def test_their_check_accepts_every_game(id: str) -> None:
    with warnings.catch_warnings():
        # features have no bounds, and are named so that their check takes some for pictures
        warnings.simplefilter("ignore", UserWarning)
        check_env(gymnasium.make(spellings(id)[0]).unwrapped)


@all_games
def test_the_first_line_works_for_every_game(id: str) -> None:
    for spelling in spellings(id):
        envs = make_vec_env(spelling, 4)
        envs.reset()
        masks = np.array(envs.env_method("action_masks"))
        *_, infos = envs.step(masks.argmax(1))
        assert not any("illegal_action" in info for info in infos)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_make_vec_plays_legally_by_the_masks_alone(mode: str) -> None:
    envs = gymnasium.make_vec(
        "arena/TicTacToe-v0", num_envs=3, vectorization_mode=mode, seat="random"
    )
    try:
        rng = np.random.default_rng(0)
        observation, _ = envs.reset(seed=0)
        num_ended = 0
        for _ in range(30):
            actions = [
                rng.choice(np.flatnonzero(m)) for m in observation["action_mask"]
            ]
            observation, *_, infos = envs.step(np.array(actions))
            assert "illegal_action" not in infos
            num_ended += int(infos.get("_outcome", np.zeros(3)).sum())
        assert num_ended > 3
    finally:
        envs.close()


def test_masks_pass_through_subprocesses() -> None:
    """Their processes import nothing of ours unless the id says so."""
    id = "arena_envs:arena/TicTacToe-v0"
    envs = make_vec_env(id, 2, seed=0, vec_env_cls=SubprocVecEnv)
    try:
        model = MaskablePPO("MultiInputPolicy", envs, n_steps=32, device="cpu")
        model.learn(64)
        assert model.num_timesteps == 64
    finally:
        envs.close()


def test_maskable_ppo_learns_tic_tac_toe(record_property) -> None:
    main = runpy.run_path(str(Path(__file__).with_name("example.py")))["main"]
    before, after, here = main()
    told = f"mean return against random {before:.2f} -> {after:.2f}; {here:.2f} as a policy"
    record_property("learned", told)
    assert after > max(before + 0.2, 0.65)
    assert abs(here - after) < 0.25


def test_the_nash_conv_of_a_saved_agent_falls(drop_in_nash_conv) -> None:
    assert drop_in_nash_conv(10_000) > 0.3


@pytest.mark.parametrize("algorithm", [MaskablePPO, PPO, DQN])
def test_a_saved_agent_is_a_policy_with_its_probabilities(algorithm, tmp_path) -> None:
    env = gymnasium.make("arena/KuhnPoker-v0")
    model = algorithm("MultiInputPolicy", env, seed=1, device="cpu")
    model.save(tmp_path / "agent.zip")
    policy: Any = make_policy(f"array:sb3:{tmp_path / 'agent.zip'}")
    (episode,) = play("kuhn_poker", policy, [0])
    turn, game = episode.turns[0], arena_envs.make_game("kuhn_poker")
    seen = {
        "observation": game.features(turn.state, 0),
        "action_mask": np.ones(2, "i1"),
    }
    asked = SimpleNamespace(game=game, state=turn.state, seat=0)
    ((shares, illegal),) = policy.action_probs([asked])
    drawn = [model.predict(seen, deterministic=algorithm is DQN)[0] for _ in range(400)]
    assert abs(np.mean(drawn) - shares[1]) < 0.1
    assert illegal < 1e-6
    assert 0 <= exploitability(policy, game).nash_conv <= 4
