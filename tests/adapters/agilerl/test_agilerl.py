"""AgileRL takes the Gymnasium ids, with masks in `info`."""

import runpy
import warnings
from pathlib import Path

import pytest

pytest.importorskip("agilerl", reason="agilerl is not installed: make adapters")
pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.slow]

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from agilerl.algorithms import DQN, PPO
    from agilerl.utils.utils import make_vect_envs

import arena_envs


def test_dqn_learns_by_their_loop(record_property) -> None:
    main = runpy.run_path(str(Path(__file__).with_name("example.py")))["main"]
    (before, _), (after, nash_conv) = main(0), main(8000)
    told = f"mean return against random {before:.2f} -> {after:.2f}"
    record_property("learned", f"{told}; NashConv of Kuhn poker {nash_conv:.2f}")
    assert after > max(before, 0.125) + 0.1
    assert 0 < nash_conv <= 4


@pytest.mark.parametrize("algorithm", [DQN, PPO])
@pytest.mark.parametrize("part", [None, "array"])
def test_their_agents_play_legally_by_the_masks_in_info(algorithm, part) -> None:
    options = {} if part is None else {"observation": part}
    id = "arena_envs:arena/TicTacToe-v0"
    envs = make_vect_envs(id, 3, should_async_vector=False, seat="random", **options)
    agent = algorithm(envs.single_observation_space, envs.single_action_space)
    seen, info = envs.reset(seed=0)
    num_ended = 0
    for _ in range(40):
        action = agent.get_action(seen, action_mask=info["action_mask"])
        action = action[0] if isinstance(action, tuple) else action
        seen, _, ended, _, info = envs.step(action)
        assert "illegal_action" not in info
        num_ended += int(ended.sum())
    assert num_ended > 5
    assert arena_envs.make_game("tic_tac_toe").num_actions == envs.single_action_space.n
