"""Which optional columns of a `TurnBatch` an estimator reads."""

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def needs(*columns: str) -> Callable[[F], F]:
    """Declares the columns without which an estimator cannot be computed.

    Args:
        *columns: names of columns of `TurnBatch`; `"tokens.entropy"` is a token column and
            `"rewards.judge"` a named part of the reward.

    >>> @needs("value", "tokens.entropy")
    ... def my_estimator(turns): ...
    >>> columns_needed_by(my_estimator)
    ('value', 'tokens.entropy')
    """

    def declare(estimator: F) -> F:
        estimator.__dict__["needs"] = columns
        return estimator

    return declare


def columns_needed_by(estimator: Callable[..., Any]) -> tuple[str, ...]:
    """The columns that an estimator declares with `needs`; none if it does not."""
    return tuple(getattr(estimator, "needs", ()))
