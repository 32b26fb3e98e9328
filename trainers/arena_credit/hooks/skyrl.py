"""SkyRL: advantage estimators for rows of conversations, and for step-wise rows.

    from arena_credit.hooks.skyrl import register, stepwise
    register("mars_loo")       # trainer.algorithm.advantage_estimator=arena_mars_loo
    Trainer = stepwise(RayPPOTrainer, "mars_loo")  # generator.step_wise_trajectories=true

SkyRL's generator puts the reward of each step on one token. In a row of a conversation a turn ends at
each such token; a step-wise row is one turn. SkyRL's own step-wise advantages read only the rewards of
last steps.
"""

import re
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from arena_credit.by_name import Estimator, name_of
from arena_credit.hooks.rows import StatefulEstimator, Trajectory
from arena_credit.hooks.verl import AdvantageEstimator

PADDING = re.compile(r"pad\d+")  # uid of a padding row of SkyRL


class WithoutPadding(AdvantageEstimator):
    """`AdvantageEstimator` without the padding rows of SkyRL, which are copies of the first row."""

    def __call__(
        self,
        token_level_rewards: Any,
        response_mask: Any,
        index: Sequence[Hashable],
        config: Any = None,
        old_log_probs: Any = None,
        entropys: Any = None,
        **_: Any,
    ) -> tuple[Any, Any]:
        """The advantages and the returns-to-go, tensors[B, L] each; 0 for padding.

        SkyRL passes neither log-probabilities nor entropies.
        """
        rows = [i for i, uid in enumerate(index) if not PADDING.fullmatch(str(uid))]
        advantages, returns = super().__call__(
            token_level_rewards[rows],
            response_mask[rows],
            [index[i] for i in rows],
            config,
        )
        of_all = token_level_rewards.new_zeros((2, *token_level_rewards.shape))
        of_all[0, rows], of_all[1, rows] = advantages, returns
        return of_all[0], of_all[1]


def register(estimator: str | Estimator, **options: Any) -> str:
    """Registers an estimator with SkyRL, and returns its name there, `arena_NAME`.

    Arguments are those of `StatefulEstimator`.
    """
    from skyrl.backends.skyrl_train.utils.ppo_utils import AdvantageEstimatorRegistry

    name = f"arena_{name_of(estimator)}"
    AdvantageEstimatorRegistry.register(name, WithoutPadding(estimator, **options))
    return name


def stepwise(trainer: type, estimator: str | Estimator, **options: Any) -> type:
    """A trainer of SkyRL with the estimator's advantages for step-wise rows.

    Args:
        trainer: `RayPPOTrainer`, or a class derived from it.
        estimator: as for `StatefulEstimator`.
        **options: of the estimator.
    """
    credit = StatefulEstimator(estimator, **options)

    class StepwiseCredit(trainer):  # type: ignore[misc]  # a class of the user's
        def compute_advantages_and_returns(self, data: Any) -> Any:
            data = super().compute_advantages_and_returns(data)
            if self.cfg.generator.step_wise_trajectories:
                num_rows = len(data["rewards"]) - data.metadata.get("pad_size", 0)
                advantages = step_advantages(
                    credit,
                    rewards=data["rewards"].sum(-1).tolist(),
                    is_last_step=data.metadata["is_last_step"][:num_rows],
                    uids=data.metadata["uids"][:num_rows],
                )
                scores = data["advantages"].new_zeros(len(data["rewards"]))
                scores[:num_rows] = scores.new_tensor(advantages)
                data["advantages"] = scores[:, None] * data["response_mask"]
            return data

    return StepwiseCredit


def step_advantages(
    credit: StatefulEstimator,
    rewards: Sequence[float],
    is_last_step: Sequence[bool],
    uids: Sequence[Hashable],
) -> list[float]:
    """The advantage of each row, where rows are turns and trajectories follow each other.

    Raises:
        ValueError: the last row does not end its trajectory; or as `estimate`.

    >>> credit = StatefulEstimator("mars_loo")
    >>> step_advantages(credit, [0.0, 1.0, 3.0], [False, True, True], ["a", "a", "a"])
    [-2.0, -2.0, 2.0]
    """
    ends = np.flatnonzero(is_last_step) + 1
    if not len(ends) or ends[-1] != len(is_last_step):
        raise ValueError(
            f"want the last of {len(is_last_step)} rows to end its trajectory, got "
            f"is_last_step at {(ends - 1).tolist()}; pass rows trajectory by trajectory"
        )
    starts = [0, *ends[:-1].tolist()]
    trajectories = [
        Trajectory([float(r) for r in rewards[start:end]], uids[start])
        for start, end in zip(starts, ends.tolist(), strict=True)
    ]
    return [a for advantages in credit(trajectories) for a in advantages]
