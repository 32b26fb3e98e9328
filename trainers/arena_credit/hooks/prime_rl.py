"""prime-rl: an estimator as one of its algorithms.

    if "prime_rl" in sys.modules:
        from arena_credit.hooks.prime_rl import use
        use("mars_loo")

Put these lines into the module of your environment: prime-rl imports it when it reads its
configuration, before it builds its algorithms. The lines replace the algorithm of
`[orchestrator.algo] type = "grpo"`. Turns and their rewards are those of `arena_credit.hooks.verifiers`.
"""

from collections.abc import Sequence
from typing import Any

from arena_credit.by_name import Estimator
from arena_credit.hooks.rows import StatefulEstimator
from arena_credit.hooks.verifiers import write


def use(estimator: str | Estimator, *, type: str = "grpo", **options: Any) -> None:
    """Replaces an algorithm of prime-rl by the credit of an estimator.

    Args:
        estimator: as for `StatefulEstimator`.
        type: of `[orchestrator.algo]`; an algorithm whose loss is "rl".
        **options: of the estimator.
    """
    from prime_rl.orchestrator.algo import ALGORITHM_CLASSES, Algorithm

    StatefulEstimator(estimator, **options)  # a wrong name or option raises now

    class TurnCreditAlgorithm(Algorithm):  # type: ignore[misc]  # not annotated
        def __init__(self, config: Any, policy_pool: Any) -> None:
            super().__init__(config, policy_pool)
            # an environment's own state
            self.credit = StatefulEstimator(estimator, **options)

        async def score_group(self, episodes: Sequence[Any]) -> None:
            write(self.credit, episodes, group="cohort")

    ALGORITHM_CLASSES[type] = TurnCreditAlgorithm
