"""OpenRLHF: each token gets the advantage of its turn, in place of OpenRLHF's estimators.

OpenRLHF computes advantages in a worker of Ray, so the hook runs there:

    ray job submit --runtime-env-json='{
        "worker_process_setup_hook": "arena_credit.hooks.openrlhf.install",
        "env_vars": {"ARENA_CREDIT": "mars_loo"}}' -- python3 -m openrlhf.cli.train_ppo_ray ...

`use("mars_loo")` does the same in this process. Turns are the runs of ones in `action_mask`. OpenRLHF
adds up the rewards of an episode before its trainer sees them, so the last turn is paid the return.
OpenRLHF's KL penalty and length penalties stay.
"""

import os
from typing import Any

import numpy as np

from arena_credit.by_name import Estimator, with_options
from arena_credit.hooks.rows import (
    StatefulEstimator,
    Trajectory,
    paid_by_turn,
    turn_of_tokens,
)


def install() -> None:
    """Uses the estimator that the environment variable `ARENA_CREDIT` names.

    Raises:
        ValueError: the variable is missing, or as `StatefulEstimator`.
    """
    text = os.environ.get("ARENA_CREDIT")
    if not text:
        raise ValueError(
            "want the name of an estimator in the environment variable ARENA_CREDIT, got "
            "none; set ARENA_CREDIT=mars_loo in env_vars of the runtime environment"
        )
    name, options = with_options(text, {})
    use(name, **options)


def use(estimator: str | Estimator, **options: Any) -> None:
    """Gives the estimator to every `RemoteExperienceMaker` of this process.

    Arguments are those of `StatefulEstimator`.
    """
    from openrlhf.models.utils import compute_reward
    from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker

    credit = StatefulEstimator(estimator, **options)
    original = getattr(
        RemoteExperienceMaker.compute_advantages_and_returns, "original", None
    )
    original = original or RemoteExperienceMaker.compute_advantages_and_returns

    def compute_advantages_and_returns(self: Any, experiences: list[Any]) -> list[Any]:
        if self.advantage_estimator == "gae":
            raise ValueError(
                "want an estimator without a critic, got gae; set "
                "--algo.advantage.estimator reinforce"
            )
        divergences = [experience.kl for experience in experiences]
        experiences = original(self, experiences)  # penalties, returns and metrics
        size = self.strategy.args.rollout.n_samples_per_prompt
        for experience, kl, advantages in zip(
            experiences,
            divergences,
            _advantages(credit, experiences, size),
            strict=True,
        ):
            penalty = compute_reward(
                experience.rewards * 0,
                self.kl_ctl.value,
                kl,
                action_mask=experience.action_mask,
                reward_clip_range=None,
            )
            to_go = self.get_cumulative_returns(penalty, experience.action_mask, 1.0)
            experience.advantages = advantages + to_go
        return experiences

    compute_advantages_and_returns.original = original  # type: ignore[attr-defined]
    RemoteExperienceMaker.compute_advantages_and_returns = (
        compute_advantages_and_returns
    )


def _advantages(
    credit: StatefulEstimator, experiences: list[Any], size: int
) -> list[Any]:
    """Tensor[B, A] of each experience; `size` rows that follow each other are a group."""
    trajectories, numbers = [], []
    for experience in experiences:
        mask = np.asarray(experience.action_mask.cpu(), np.bool_)
        numbers.append(turn_of_tokens(mask).clip(0))
        for place, total, number in zip(
            experience.index, experience.rewards.tolist(), numbers[-1], strict=True
        ):
            paid = paid_by_turn(total, int(number.max(initial=0)) + 1)
            trajectories.append(Trajectory(paid, group=place // size))
    advantages = iter(credit(trajectories))
    return [
        experience.returns.new_tensor(
            np.stack([np.array(next(advantages))[turns] for turns in number])
        )
        * experience.action_mask
        for experience, number in zip(experiences, numbers, strict=True)
    ]
