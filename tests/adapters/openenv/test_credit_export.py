"""`credit.export(..., to="openenv")`, read by OpenEnv's own step and rubric."""

from typing import Any

import pytest

import arena_credit as credit
from arena_wrappers import play

types = pytest.importorskip("openenv.core.client_types")
rubrics: Any = pytest.importorskip("openenv.core.rubrics")


class OurCredit(rubrics.TrajectoryRubric):  # type: ignore[misc]
    """Gives back the credit of an exported trajectory."""

    def __init__(self, exported):
        super().__init__()
        self.exported = exported

    def score_trajectory(self, trajectory):
        return self.exported["reward"]

    def compute_step_rewards(self):
        return self.exported["step_rewards"]


def test_their_steps_and_rubrics_read_rewards_and_advantages():
    episodes = play("kuhn_poker", "random", range(8), num_samples=2)
    exported = credit.export(episodes, "mars", "openenv")
    assert len(exported) == 2 * len(episodes)
    for entry in exported:
        rubric = OurCredit(entry)
        steps = [types.StepResult(**step) for step in entry["steps"]]
        rewards = [rubric(step.observation["reply"], step) for step in steps]
        assert rewards[-1] == sum(step.reward for step in steps) == entry["reward"]
        credited = rubric.compute_step_rewards()
        assert credited == [step.metadata["advantage"] for step in steps]
        assert len(credited) == len(rubric.trajectory)
