"""Declarations of an estimator: what it reads, what it credits, which settings it refuses."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Needs:
    """A declaration; the default is that of an estimator that declares nothing.

    Args:
        columns: columns of `TurnBatch` that the estimator always reads. `"tokens.entropy"`
            is a token column, and `"rewards.judge"` a named part of the reward.
        unselected_only: whether it ignores turns with `unselected` = false in comparisons
            and gives them 0. If not, a batch with such turns is refused.
        per_token: whether it credits tokens instead of turns.
        compares_trajectories: whether it compares whole trajectories, in addition to turns
            of the same state. It then cannot train on turn trees (`branch`).
        paid_part: the option that names a part of the reward that must be paid. The trainer
            refuses a weight of 0 for this part.
        return_bounds: the options for the lowest and the highest return, as numbers or as
            mappings from reward parts to numbers. The trainer refuses bounds that a return
            can lie outside of.
        with_option: columns that are read, where the batch has them, while an option is
            true: by option. The trainer collects them.
    """

    columns: tuple[str, ...] = ()
    unselected_only: bool = False
    per_token: bool = False
    compares_trajectories: bool = False
    paid_part: str | None = None
    return_bounds: tuple[str, str] | None = None
    with_option: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def needs(*columns: str, **more: Any) -> Callable[[F], F]:
    """Declares what `estimate` and the trainer must know of an estimator.

    Nothing else about an estimator is known to them; its name plays no role.

    The declaration belongs to the function. It holds under every name, for a
    `functools.partial` of the function, and for a wrapper made with `functools.wraps`.
    A wrapper without `functools.wraps`, or with other needs, must be declared again.

    Args:
        *columns: see `Needs`.
        **more: further fields of `Needs`.

    Raises:
        ValueError: `paid_part`, `return_bounds` or `with_option` names an option that the estimator does
            not have.

    >>> @needs("value", "tokens.entropy")
    ... def my_estimator(turns, *, discount=1.0): ...
    >>> needs_of(my_estimator).columns
    ('value', 'tokens.entropy')
    >>> needs_of(partial(my_estimator, discount=0.9)).columns
    ('value', 'tokens.entropy')
    """
    declared = Needs(columns, **more)

    def declare(estimator: F) -> F:
        parameters = inspect.signature(estimator).parameters
        named = (declared.paid_part, *(declared.return_bounds or ()))
        for option in (*named, *declared.with_option):
            if option is not None and option not in parameters:
                raise ValueError(
                    f"want an option of the estimator, got {option!r}; "
                    f"it has {', '.join(list(parameters)[1:]) or 'none'}"
                )
        estimator.__dict__["needs"] = declared
        return estimator

    return declare


def needs_of(estimator: Callable[..., Any]) -> Needs:
    """The declaration of an estimator, or of the function that it wraps, by `needs`."""
    declared = getattr(estimator, "needs", None)
    if isinstance(declared, Needs):
        return declared
    wrapped = getattr(estimator, "__wrapped__", None)
    if isinstance(estimator, partial):
        wrapped = estimator.func
    return Needs() if wrapped is None else needs_of(wrapped)


def keeps_state(estimator: Callable[..., Any]) -> bool:
    """True if an estimator takes the state that it returned for the batch before."""
    from arena_envs.registry import signature_of

    return "state" in signature_of(estimator).parameters
