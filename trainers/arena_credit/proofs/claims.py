"""Claims of each estimator: the project's in `claims.toml`, others by the decorator `claims`.

The tests, the report and `testing.check_estimator` verify the claims.

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
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from arena_credit.by_name import Estimator, find_estimator, name_of
from arena_credit.pools import check_choice, column_names

Kind = Literal["exact", "scaled", "direction", "zero", "reversed"]
KINDS: tuple[Kind, ...] = get_args(Kind)  # from good to bad
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

    Raises:
        ValueError: unknown kind or `singleton_pool`, columns that are no sequence of
            names, or a noise that is not positive.
    """

    bias_two: Kind = "reversed"
    bias_infinite: Kind = "reversed"
    bias_shared_chance: Kind = "reversed"
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

    def __post_init__(self) -> None:
        for size in BIASES:
            check_choice(size, getattr(self, size), KINDS)
        check_choice("singleton_pool", self.singleton_pool, SINGLETON_POOL)
        if not self.noise > 0:
            raise ValueError(f"want a positive noise, got {self.noise!r}")
        for name in ("zero_mean", "zero_sum"):
            columns = getattr(self, name)
            try:
                column_names(() if columns is None else columns)
            except ValueError as error:
                raise ValueError(f"claim {name}: {error}") from error


BIASES = ("bias_two", "bias_infinite", "bias_shared_chance")


def _read() -> dict[str, Claims]:
    """The claims in `claims.toml`, by estimator."""
    document = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    claims = {}
    for name, entry in document["claims"].items():
        fields = {**document["defaults"].get(entry.pop("like", ""), {}), **entry}
        tuples = {k: tuple(v) for k, v in fields.items() if isinstance(v, list)}
        claims[name] = Claims(**fields | tuples)
    return claims


CLAIMS: Mapping[str, Claims] = _read()


def claims(**claimed: Any) -> Callable[[F], F]:
    """Declares the claims of an estimator.

    `testing.check_estimator` verifies them, and the page of the estimators lists them.

    Args:
        **claimed: fields of `Claims`.

    Raises:
        ValueError: see `Claims`.

    >>> @claims(bias_infinite="exact", games_apart=True)
    ... def my_estimator(turns): ...
    >>> claims_of(my_estimator).bias_infinite
    'exact'
    """
    declaration = Claims(**claimed)

    def declare(estimator: F) -> F:
        estimator.__dict__["claims"] = declaration
        return estimator

    return declare


def claims_of(name: str | Estimator) -> Claims:
    """The claims of an estimator; `Claims()` if it declares none.

    Args:
        name: of the estimator, or the function itself.

    Raises:
        ValueError: unknown estimator.
        ImportError: the estimator's plug-in cannot be imported.
    """
    if isinstance(name, str) and name_of(name) in CLAIMS:
        return CLAIMS[name_of(name)]
    declared: Claims = getattr(find_estimator(name), "claims", Claims())
    return declared
