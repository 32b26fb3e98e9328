"""What an estimator declares: what it reads, what it credits, whether it keeps a state."""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def needs(
    *columns: str, unselected_only: bool = False, per_token: bool = False
) -> Callable[[F], F]:
    """Declares the columns without which an estimator cannot be computed.

    Args:
        *columns: names of columns of `TurnBatch`; `"tokens.entropy"` is a token column and
            `"rewards.judge"` a named part of the reward.
        unselected_only: whether it leaves turns that are not `unselected` out of what it compares, and
            gives them 0. If not, it is not given a batch that holds such turns.
        per_token: whether it credits tokens, and not turns.

    >>> @needs("value", "tokens.entropy")
    ... def my_estimator(turns): ...
    >>> columns_needed_by(my_estimator)
    ('value', 'tokens.entropy')
    """

    def declare(estimator: F) -> F:
        estimator.__dict__["needs"] = columns
        estimator.__dict__["unselected_only"] = unselected_only
        estimator.__dict__["per_token"] = per_token
        return estimator

    return declare


def compares_unselected_only(estimator: Callable[..., Any]) -> bool:
    """Whether an estimator declares that it leaves out turns that were selected by their return."""
    return bool(getattr(estimator, "unselected_only", False))


def credits_tokens(estimator: Callable[..., Any]) -> bool:
    """Whether an estimator declares that it credits tokens."""
    return bool(getattr(estimator, "per_token", False))


def keeps_state(estimator: Callable[..., Any]) -> bool:
    """Whether an estimator's next batch follows from a state that it returned."""
    return "state" in inspect.signature(estimator).parameters


def columns_needed_by(estimator: Callable[..., Any]) -> tuple[str, ...]:
    """The columns that an estimator declares with `needs`; none if it does not."""
    return tuple(getattr(estimator, "needs", ()))
