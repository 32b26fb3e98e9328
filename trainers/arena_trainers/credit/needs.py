"""Which optional columns of a `TurnBatch` an estimator reads, and whether it keeps a state."""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def needs(*columns: str, fair_only: bool = False) -> Callable[[F], F]:
    """Declares the columns without which an estimator cannot be computed.

    Args:
        *columns: names of columns of `TurnBatch`; `"tokens.entropy"` is a token column and
            `"rewards.judge"` a named part of the reward.
        fair_only: whether it leaves turns that are not `fair` out of what it compares. If
            not, it is not given a batch that holds such turns.

    >>> @needs("value", "tokens.entropy")
    ... def my_estimator(turns): ...
    >>> columns_needed_by(my_estimator)
    ('value', 'tokens.entropy')
    """

    def declare(estimator: F) -> F:
        estimator.__dict__["needs"] = columns
        estimator.__dict__["fair_only"] = fair_only
        return estimator

    return declare


def compares_fair_only(estimator: Callable[..., Any]) -> bool:
    """Whether an estimator declares that it leaves out turns that are not fair."""
    return bool(getattr(estimator, "fair_only", False))


def keeps_state(estimator: Callable[..., Any]) -> bool:
    """Whether an estimator's next batch follows from a state that it returned."""
    return "state" in inspect.signature(estimator).parameters


def columns_needed_by(estimator: Callable[..., Any]) -> tuple[str, ...]:
    """The columns that an estimator declares with `needs`; none if it does not."""
    return tuple(getattr(estimator, "needs", ()))
