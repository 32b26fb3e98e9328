"""CoMLRL: an estimator in `MAGRPOTrainer` and its subclasses.

    from arena_credit.hooks.comlrl import with_credit
    Trainer = with_credit(MAGRPOTrainer, "rloo")

CoMLRL compares the replies of an agent to one prompt, a node of its turn tree, by their returns-to-go.
Here these replies are a group of episodes of one turn.
"""

from typing import Any

from arena_credit.by_name import Estimator
from arena_credit.hooks.rows import StatefulEstimator, Trajectory


def with_credit(trainer: type, estimator: str | Estimator, **options: Any) -> type:
    """A trainer of CoMLRL with the estimator's advantages, without normalization.

    Args:
        trainer: `MAGRPOTrainer`, or a class derived from it.
        estimator: as for `StatefulEstimator`.
        **options: of the estimator.
    """
    credit = StatefulEstimator(estimator, **options)

    class CreditTrainer(trainer):  # type: ignore[misc]  # a class of the user's
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.args.advantage_normalization = (
                False  # else they are divided by the spread
            )

        def _compute_advantages(self, returns: Any) -> Any:
            trajectories = [Trajectory([value], "node") for value in returns.tolist()]
            advantages = [of_turns[0] for of_turns in credit(trajectories)]
            return returns.new_tensor(advantages)

    return CreditTrainer
