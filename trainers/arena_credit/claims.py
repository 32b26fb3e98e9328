"""What an estimator claims of its bias, noise and cost: `Claims`, and the decorator `claims`.

The tests, the report and `testing.check_estimator` verify the claims; `by_name.claims_of` reads them.

`bias_two`, `bias_infinite` and `bias_shared_chance` compare the expected gradient to the
true one on the diagnostic games (`diagnostics`), with default options:

| Claim | A batch is |
|---|---|
| `bias_two` | one group of two independent episodes |
| `bias_infinite` | one infinite group of independent episodes |
| `bias_shared_chance` | large groups that share the draws of chance, as in training |

The value is the worst kind over the games and seats:

| Kind | The expected gradient of a seat is |
|---|---|
| `exact` | the true one |
| `scaled` | a positive multiple of the true one |
| `direction` | not a multiple, but at an angle below 90° |
| `zero` | 0 |
| `reversed` | at an angle of 90° or more: a step along it may lower the seat's return |
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar, get_args

from arena_credit.pools import check_choice, column_names

BiasKind = Literal["exact", "scaled", "direction", "zero", "reversed"]
BIAS_KINDS: tuple[BiasKind, ...] = get_args(BiasKind)  # from good to bad
SINGLETON_POOL = ("zero", "return", "other")
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Claims:
    """Claims of an estimator. The defaults claim the least.

    Args:
        bias_two: worst kind in batches of two episodes.
        bias_infinite: worst kind in an infinite batch of one group.
        bias_shared_chance: worst kind in an infinite batch of groups that share the draws
            of chance.
        bootstraps: whether the estimator counts the return after a limit of turns: its kind
            in an infinite batch of the diagnostic game `patience` is `direction` or better.
            If false, the three kinds leave that game out.
        zero_mean: columns that form pools; in each, the advantages of all turns sum to 0.
        zero_sum: columns that form pools; in each, the advantages of all trajectories (of
            their first turns) sum to 0.
        shift: whether a constant, added to a seat's last reward in every episode of a game,
            changes no advantage.
        games_apart: whether a game's advantages depend on that game alone.
        groups_apart: whether a group's advantages depend on that group alone.
        seats_apart: whether a seat's advantages depend on that seat alone.
        labels: whether a permutation of the seat numbers changes no advantage.
        tokens: whether the number of tokens of a turn changes no advantage.
        continuous: whether inputs rounded to float32 give the same advantages, up to
            1e-6 · (1 + 1 / d) · max(1, r): d is the smallest difference of two
            returns-to-go, r the largest sum of absolute rewards of a trajectory.
        singleton_pool: the advantage in a pool of one trajectory: "zero" (with a warning),
            "return", or "other".
        noise: the largest variance in a diagnostic game, relative to `rloo` (`findings.noises`).
        max_ms: the longest time for 100,000 turns on one core, in milliseconds of CPU time
            (`benchmarks/credit_speed.py`).

    Raises:
        ValueError: unknown kind or `singleton_pool`, columns that are no sequence of
            names, or a noise or time that is not positive.
    """

    bias_two: BiasKind = "reversed"
    bias_infinite: BiasKind = "reversed"
    bias_shared_chance: BiasKind = "reversed"
    bootstraps: bool = False
    zero_mean: tuple[str, ...] | None = None
    zero_sum: tuple[str, ...] | None = None
    shift: bool = False
    games_apart: bool = False
    groups_apart: bool = False
    seats_apart: bool = False
    labels: bool = True
    tokens: bool = False
    continuous: bool = True
    singleton_pool: str = "other"
    noise: float = math.inf
    max_ms: float = 100.0

    def __post_init__(self) -> None:
        for size in BIASES:
            check_choice(size, getattr(self, size), BIAS_KINDS)
        check_choice("singleton_pool", self.singleton_pool, SINGLETON_POOL)
        for name in ("noise", "max_ms"):
            if not getattr(self, name) > 0:
                raise ValueError(f"want a positive {name}, got {getattr(self, name)!r}")
        for name in ("zero_mean", "zero_sum"):
            columns = getattr(self, name)
            try:
                column_names(() if columns is None else columns)
            except ValueError as error:
                raise ValueError(f"claim {name}: {error}") from error


BIASES = ("bias_two", "bias_infinite", "bias_shared_chance")


# of z-scores of trajectories, in pools of (group, seat)
Z_SCORED = Claims(
    bias_infinite="scaled",
    shift=True,
    games_apart=True,
    groups_apart=True,
    seats_apart=True,
    tokens=True,
    singleton_pool="zero",
)

# without pools, with the policy's exact values where values are read
UNBIASED = Claims(
    bias_two="exact",
    bias_infinite="exact",
    bias_shared_chance="exact",
    bootstraps=True,
    games_apart=True,
    groups_apart=True,
    seats_apart=True,
    tokens=True,
)


def claims(like: Claims = Claims(), **claimed: Any) -> Callable[[F], F]:
    """Declares the claims of an estimator.

    `testing.check_estimator` verifies them, and the page of the estimators lists them. A
    function in a module of `arena_credit.estimators` that declares claims is an estimator of
    this project.

    Args:
        like: the claims that hold unless `claimed` says otherwise.
        **claimed: fields of `Claims`.

    Raises:
        ValueError: see `Claims`.

    >>> @claims(bias_infinite="exact", games_apart=True)
    ... def my_estimator(turns): ...
    >>> my_estimator.claims.bias_infinite
    'exact'
    """
    declaration = replace(like, **claimed)

    def declare(estimator: F) -> F:
        estimator.__dict__["claims"] = declaration
        return estimator

    return declare
