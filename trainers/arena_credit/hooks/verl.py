"""verl: each estimator that reads only rewards, as `algorithm.adv_estimator=arena_NAME`.

verl imports `verl_plugin` by the entry point `verl.plugins`, so it is enough to install arena-envs. Register
an estimator with options in a module that `VERL_USE_EXTERNAL_MODULES` names:

    from verl.trainer.ppo.core_algos import register_adv_est
    from arena_credit.hooks.verl import AdvantageEstimator
    register_adv_est("late")(AdvantageEstimator("mars_loo", discount=0.9))

`use_surprise()` in such a module also gives `arena_control_variates` its log-probabilities and entropies.

A turn ends where a run of ones in `response_mask` ends, or at a token with a reward. verl's own reward
loop puts the return of a row on its last token; then all turns of the row have this return-to-go.
"""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from arena_credit.by_name import BUILT_IN, Estimator, needed_columns, per_token
from arena_credit.hooks.rows import PROVIDED, StatefulEstimator, token_advantages

ENTROPIES = "arena_entropies"  # column of verl's batch


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
        old_log_probs: Any = None,
        entropys: Any = None,
        **_: Any,
    ) -> tuple[Any, Any]:
        """The advantages and the returns-to-go, tensors[B, L] each.

        verl passes `old_log_probs` and `entropys` after `use_surprise`.

        Raises:
            ValueError: the rewards of tokens include the KL penalty; or as `estimate`.
        """
        if getattr(config, "use_kl_in_reward", False):
            raise ValueError(
                "want rewards of turns, got a KL penalty on every token; set "
                "algorithm.use_kl_in_reward=False and actor.use_kl_loss=True"
            )
        rewards = np.asarray(token_level_rewards.detach().cpu(), np.float64)
        logprobs, entropies = (
            None if column is None else np.asarray(column.detach().cpu(), np.float64)
            for column in (old_log_probs, entropys)
        )
        mask = np.asarray(response_mask.detach().cpu(), np.bool_)
        advantages = token_advantages(
            self.credit, rewards, mask, index, logprobs, entropies
        )
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


def use_surprise() -> None:
    """Gives estimators named `arena_...` the log-probabilities and entropies of the old policy.

    verl computes both before the advantages, and drops the entropies. This keeps them, in
    `RayPPOTrainer` and its subclasses. They have to be of the distribution that sampled: leave
    `rollout.top_k` and `rollout.top_p` at their defaults.
    """
    from verl.trainer.ppo import ray_trainer

    trainer = ray_trainer.RayPPOTrainer
    if getattr(ray_trainer.compute_advantage, "keeps_entropies", False):
        return
    compute_log_prob, compute_advantage = (
        trainer._compute_old_log_prob,
        ray_trainer.compute_advantage,
    )

    def with_entropies(self: Any, batch: Any) -> Any:
        output, speed = compute_log_prob(self, batch)
        output.batch[ENTROPIES] = output.batch["entropys"]  # verl pops its own
        return output, speed

    def with_surprise(data: Any, adv_estimator: Any, *args: Any, **kwargs: Any) -> Any:
        if ENTROPIES not in data.batch or not str(adv_estimator).startswith("arena_"):
            return compute_advantage(data, adv_estimator, *args, **kwargs)
        estimator = ray_trainer.core_algos.get_adv_estimator_fn(adv_estimator)
        advantages, returns = estimator(
            token_level_rewards=data.batch["token_level_rewards"],
            response_mask=data.batch["response_mask"],
            index=data.non_tensor_batch["uid"],
            config=kwargs.get("config"),
            old_log_probs=data.batch["old_log_probs"],
            entropys=data.batch[ENTROPIES],
        )
        data.batch["advantages"], data.batch["returns"] = advantages, returns
        return data

    with_surprise.keeps_entropies = True  # type: ignore[attr-defined]
    trainer._compute_old_log_prob = with_entropies
    ray_trainer.compute_advantage = with_surprise


def register() -> None:
    """Registers `arena_NAME` with verl for each of `reads_rewards_alone()`."""
    from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY, register_adv_est

    for name in reads_rewards_alone():
        if f"arena_{name}" not in ADV_ESTIMATOR_REGISTRY:
            register_adv_est(f"arena_{name}")(AdvantageEstimator(name))
