"""SkyRL: a registered estimator, and its trainer's step-wise advantages."""

import sys
import typing
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("skyrl", reason="skyrl is not installed: make adapters")
pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.slow]


@pytest.fixture(scope="module")
def ppo_utils() -> Any:
    if sys.version_info < (3, 12):  # SkyRL's types want it of pydantic there
        typing.TypedDict = __import__("typing_extensions").TypedDict
    import skyrl.backends.skyrl_train.utils.ppo_utils as module

    return module


def test_a_registered_estimator_is_called_by_name(ppo_utils) -> None:
    import torch

    from arena_credit.hooks.skyrl import register

    name = register("mars_loo")
    assert name in ppo_utils.AdvantageEstimatorRegistry.list_available()
    advantages, returns = ppo_utils.compute_advantages_and_returns(
        token_level_rewards=torch.tensor([[0, 1.0, 0, 2], [0, 0, 0, 4.0]]),
        response_mask=torch.ones(2, 4),
        index=["a", "a"],
        adv_estimator=name,
        config=SimpleNamespace(use_kl_in_reward=False),
    )
    # turns of the first row return 3 and 2, the only turn of the second one 4
    assert advantages.tolist() == [[-1, -1, -2, -2], [1.5] * 4]
    assert returns.tolist() == [[3, 3, 2, 2], [4, 4, 4, 4]]


def test_their_step_wise_trainer_credits_turns(ppo_utils) -> None:
    """Step rewards 3 and 0 against 1: SkyRL's own `rloo` compares last steps, 0 and 1."""
    import torch
    from skyrl.backends.skyrl_train.training_batch import (
        TrainingInputBatch,
        pad_training_input_batch,
    )
    from skyrl.train.trainer import RayPPOTrainer

    from arena_credit.hooks.skyrl import stepwise

    algorithm = SimpleNamespace(
        advantage_estimator="rloo", gamma=1.0, lambd=1.0, grpo_norm_by_std=False
    )
    cfg = SimpleNamespace(
        generator=SimpleNamespace(step_wise_trajectories=True),
        trainer=SimpleNamespace(algorithm=algorithm),
    )

    def batch() -> Any:
        data = TrainingInputBatch(
            {
                "rewards": torch.tensor([[0, 3.0], [0, 0], [0, 1.0]]),
                "response_mask": torch.tensor([[1, 1], [1, 0], [1, 1]]),
                "loss_mask": torch.ones(3, 2),
            }
        )
        data["values"] = None
        data.metadata = {
            "is_last_step": [False, True, True],
            "uids": ["a", "a", "a"],
            "avg_response_length": 2.0,
        }
        return pad_training_input_batch(data, 1)

    def advantages(trainer_class: Any) -> list[list[float]]:
        trainer = object.__new__(trainer_class)
        trainer.cfg, trainer.all_metrics = cfg, {}
        data = trainer_class.compute_advantages_and_returns(trainer, batch())
        return data["advantages"][:3].tolist()

    assert advantages(RayPPOTrainer) == [[-1, -1], [-1, 0], [1, 1]]
    ours = advantages(stepwise(RayPPOTrainer, "mars_loo"))
    assert ours == [[2, 2], [-1, 0], [-0.5, -0.5]]
