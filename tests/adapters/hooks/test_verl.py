"""verl: installing arena-envs is enough for `algorithm.adv_estimator=arena_NAME`."""

import numpy as np
import pytest

pytest.importorskip("verl", reason="verl is not installed: make adapters")
pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.slow]


def test_their_trainer_computes_our_advantages() -> None:
    import torch
    from verl import DataProto
    from verl.trainer.config import AlgoConfig
    from verl.trainer.ppo.ray_trainer import compute_advantage

    tensors = {
        "token_level_rewards": torch.tensor([[0, 1.0, 0, 0, 2], [0, 0, 3, 1, 0]]),
        "response_mask": torch.tensor([[1, 1, 0, 1, 1], [1, 0, 1, 0, 0]]),
    }
    uid = np.array(["a", "a"], dtype=object)
    batch = DataProto.from_dict(tensors=tensors, non_tensors={"uid": uid})
    data = compute_advantage(batch, adv_estimator="arena_mars_loo", config=AlgoConfig())
    assert data.batch["advantages"].tolist() == [
        [-1, -1, 0, -2, -2],
        [1.5, 0, 1.5, 0, 0],
    ]
    assert data.batch["returns"].tolist() == [[3, 3, 0, 2, 2], [4, 0, 4, 0, 0]]


def test_a_kl_penalty_in_the_reward_is_refused() -> None:
    import torch
    from verl.trainer.config import AlgoConfig
    from verl.trainer.ppo.core_algos import get_adv_estimator_fn

    ones = torch.ones(2, 2)
    estimator = get_adv_estimator_fn("arena_rloo")
    with pytest.raises(ValueError, match="use_kl_in_reward=False"):
        estimator(ones, ones, ["a", "a"], config=AlgoConfig(use_kl_in_reward=True))
