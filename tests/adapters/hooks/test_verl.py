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


def test_use_surprise_keeps_the_entropies_that_verl_drops(monkeypatch) -> None:
    """`_compute_old_log_prob`, what `fit` does with its result, and `compute_advantage`."""
    import torch
    from verl import DataProto
    from verl.trainer.config import AlgoConfig
    from verl.trainer.ppo import ray_trainer

    from arena_credit.hooks.verl import AdvantageEstimator, use_surprise

    rng = np.random.default_rng(0)
    logprobs, entropies = torch.tensor(rng.random((2, 24, 5)))
    logprobs = -logprobs
    computed = {"old_log_probs": logprobs, "entropys": entropies}

    class Trainer:
        def _compute_old_log_prob(self, batch):
            return DataProto.from_dict(tensors=dict(computed)), 0.5

    monkeypatch.setattr(ray_trainer, "RayPPOTrainer", Trainer)
    monkeypatch.setattr(ray_trainer, "compute_advantage", ray_trainer.compute_advantage)
    use_surprise()
    use_surprise()  # once more changes nothing
    mask = torch.tensor([[1, 1, 0, 1, 1]] * 24)
    rewards = torch.zeros(24, 5, dtype=torch.float64)
    rewards[:, 1] = rewards[:, 4] = 5 * (logprobs + entropies)[:, 3:].sum(1)
    uid = np.array([str(row // 6) for row in range(24)], dtype=object)
    tensors = {"token_level_rewards": rewards, "response_mask": mask}
    batch = DataProto.from_dict(tensors=tensors, non_tensors={"uid": uid})
    old, speed = Trainer()._compute_old_log_prob(batch)
    assert speed == 0.5
    old.batch.pop("entropys")
    batch = batch.union(old)
    data = ray_trainer.compute_advantage(
        batch, adv_estimator="arena_control_variates", config=AlgoConfig()
    )
    estimator = AdvantageEstimator("control_variates")
    want, _ = estimator(rewards, mask, uid, None, logprobs, entropies)
    plain, _ = estimator(rewards, mask, uid)
    assert data.batch["advantages"].tolist() == want.tolist()
    assert (want - plain).abs().max() > 1e-3
    own = ray_trainer.compute_advantage(
        batch, adv_estimator="rloo", config=AlgoConfig()
    )
    assert own.batch["advantages"].shape == (24, 5)


def test_a_kl_penalty_in_the_reward_is_refused() -> None:
    import torch
    from verl.trainer.config import AlgoConfig
    from verl.trainer.ppo.core_algos import get_adv_estimator_fn

    ones = torch.ones(2, 2)
    estimator = get_adv_estimator_fn("arena_rloo")
    with pytest.raises(ValueError, match="use_kl_in_reward=False"):
        estimator(ones, ones, ["a", "a"], config=AlgoConfig(use_kl_in_reward=True))
