"""verl: each estimator that reads only rewards, as `algorithm.adv_estimator=arena_NAME`.

verl imports `verl_plugin` by the entry point `verl.plugins`, so it is enough to install arena-envs. Register
an estimator with options in a module that `VERL_USE_EXTERNAL_MODULES` names:

    from verl.trainer.ppo.core_algos import register_adv_est
    from arena_credit.hooks.verl import AdvantageEstimator
    register_adv_est("late")(AdvantageEstimator("mars_loo", discount=0.9))

A turn ends where a run of ones in `response_mask` ends, or at a token with a reward. verl's own reward
loop puts the return of a row on its last token; then all turns of the row have this return-to-go.
"""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from arena_credit.by_name import BUILT_IN, Estimator, needed_columns, per_token
from arena_credit.hooks.rows import PROVIDED, StatefulEstimator, token_advantages


class AdvantageEstimator:
    """An advantage function for verl and SkyRL: each token gets the advantage of its turn.

    Args:
        estimator: name of the estimator, or the function.
        **options: of the estimator.
    """

    def __init__(self, estimator: str | Estimator, **options: Any) -> None:
        self.credit = StatefulEstimator(estimator, **options)

    def __call__(
        self,
        token_level_rewards: Any,
        response_mask: Any,
        index: Sequence[Hashable],
        config: Any = None,
        **_: Any,
    ) -> tuple[Any, Any]:
        """The advantages and the returns-to-go, tensors[B, L] each.

        Raises:
            ValueError: the rewards of tokens include the KL penalty; or as `estimate`.
        """
        if getattr(config, "use_kl_in_reward", False):
            raise ValueError(
                "want rewards of turns, got a KL penalty on every token; set "
                "algorithm.use_kl_in_reward=False and actor.use_kl_loss=True"
            )
        rewards = np.asarray(token_level_rewards.detach().cpu(), np.float64)
        mask = np.asarray(response_mask.detach().cpu(), np.bool_)
        advantages = token_advantages(self.credit, rewards, mask, index)
        to_go = rewards[:, ::-1].cumsum(axis=1)[:, ::-1] * mask
        as_tensor = token_level_rewards.new_tensor
        return as_tensor(advantages), as_tensor(to_go)


def reads_rewards_alone() -> list[str]:
    """The built-in estimators whose columns verl provides."""
    return [
        function.__name__
        for function in BUILT_IN.values()
        if not per_token(function) and PROVIDED.issuperset(needed_columns(function))
    ]


def register() -> None:
    """Registers `arena_NAME` with verl for each of `reads_rewards_alone()`."""
    from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY, register_adv_est

    for name in reads_rewards_alone():
        if f"arena_{name}" not in ADV_ESTIMATOR_REGISTRY:
            register_adv_est(f"arena_{name}")(AdvantageEstimator(name))
