"""Claims of each estimator: the project's in a table, others by the decorator `claims`.

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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar, get_args

from arena_trainers.credit.by_name import Estimator, find_estimator, name_of
from arena_trainers.credit.pools import check_choice, column_names

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
UNBIASED: Mapping[str, Any] = dict.fromkeys(BIASES, "exact")
UNBIASED_IF_LARGE: Mapping[str, Any] = dict.fromkeys(BIASES[1:], "exact")
APART: Mapping[str, Any] = {
    "games_apart": True,
    "groups_apart": True,
    "seats_apart": True,
}
TOGETHER: Mapping[str, Any] = dict.fromkeys(APART, False)
OUTCOME = Claims(
    bias_infinite="scaled", shift=True, **APART, tokens=True, singleton_pool="zero"
)  # z-scores of trajectories, in pools of (group, seat)
CRITIC = Claims(
    **UNBIASED, bootstraps=True, **APART, tokens=True
)  # no pools; the critic gives the policy's exact values
BY_TOKENS = replace(
    OUTCOME,
    bias_infinite="direction",
    groups_apart=False,
    seats_apart=False,
    tokens=False,
)
BY_STATE = replace(OUTCOME, bias_infinite="direction", shift=False)

CLAIMS: Mapping[str, Claims] = {
    "adca": replace(OUTCOME, bias_infinite="direction"),
    "advevo_public_baseline": replace(
        OUTCOME,
        **UNBIASED_IF_LARGE,
        bias_two="scaled",
        zero_sum=("group", "team"),
        shift=False,
        seats_apart=False,
    ),
    "aepo": BY_TOKENS,
    "agentprm": replace(
        OUTCOME,
        **UNBIASED_IF_LARGE,
        bias_two="direction",
        zero_mean=("game", "seat", "state_key"),
        groups_apart=False,
    ),
    "archer": CRITIC,
    "at_grpo": replace(BY_STATE, zero_mean=("group", "seat", "state_key")),
    "bi_level_gae": replace(CRITIC, tokens=False),
    "bnpo": replace(
        OUTCOME,
        zero_sum=("group", "seat"),
        shift=False,
        groups_apart=False,
        seats_apart=False,
    ),
    "canon": replace(
        OUTCOME,
        bias_two="exact",
        bias_infinite="direction",
        bias_shared_chance="direction",
        tokens=False,
    ),
    "counterfactual": replace(CRITIC, shift=True),
    "dr_grpo": replace(
        OUTCOME,
        **UNBIASED_IF_LARGE,
        bias_two="scaled",
        zero_sum=("group", "seat"),
        noise=1.0,
    ),
    "episode": replace(OUTCOME, zero_sum=("group", "seat")),
    "flow_grpo": replace(OUTCOME, zero_sum=("group", "seat")),
    "gae": replace(CRITIC, noise=1.2),
    "gigpo": BY_STATE,
    "grpo_passk": replace(OUTCOME, bias_infinite="zero", bias_shared_chance="zero"),
    "hapo": BY_TOKENS,
    "mars": replace(
        OUTCOME, **UNBIASED_IF_LARGE, zero_mean=("game", "seat"), groups_apart=False
    ),
    "mars_loo": replace(
        OUTCOME, **UNBIASED, groups_apart=False, singleton_pool="return"
    ),
    "mars_released": Claims(labels=False),
    "matpo": replace(OUTCOME, zero_sum=("group",), shift=False, seats_apart=False),
    "mt_grpo": replace(OUTCOME, bias_infinite="reversed", zero_sum=("group", "seat")),
    "normalise_then_sum": Claims(
        zero_sum=("game",), games_apart=True, tokens=True, singleton_pool="zero"
    ),
    "poad": replace(CRITIC, tokens=False),
    "rae": replace(
        CRITIC, bootstraps=False, groups_apart=False, singleton_pool="return"
    ),
    "random_effects": replace(
        OUTCOME, **UNBIASED, groups_apart=False, singleton_pool="return", noise=1.2
    ),
    "reinforce_plus_plus_baseline": replace(
        OUTCOME,
        bias_shared_chance="scaled",
        **TOGETHER,
        tokens=False,
        singleton_pool="other",
    ),
    "rloo": replace(OUTCOME, **UNBIASED, singleton_pool="return", noise=1.0),
    "salt": OUTCOME,
    "stratified_grpo": replace(
        OUTCOME, zero_sum=("group", "seat"), bias_infinite="direction"
    ),
    "turn_ppo": CRITIC,
}


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
    made = Claims(**claimed)

    def declare(estimator: F) -> F:
        estimator.__dict__["claims"] = made
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
    found: Claims = getattr(find_estimator(name), "claims", Claims())
    return found
