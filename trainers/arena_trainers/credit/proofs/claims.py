"""What each estimator promises: ours in one table, those of others by the decorator `claims`.

The tests, the report and `testing.check_estimator` hold them to it.

`bias_two`, `bias_infinite` and `bias_shared_chance` are the worst kind over the diagnostic games (`diagnostics`) of the
expected gradient of batches of two independent episodes, of an infinite batch of one group of
these, and of an infinite batch of large groups whose episodes share the draws of chance, as
they do in training; default options:

| Kind | The expected gradient of a seat is |
|---|---|
| `exact` | the true one |
| `scaled` | a positive multiple of the true one |
| `direction` | not a multiple, but at an acute angle |
| `zero` | nothing |
| `reversed` | at no acute angle: following it may make the seat worse |
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar, get_args

from arena_trainers.credit.pools import check_choice, column_names
from arena_trainers.credit.registry import Estimator, find_estimator, name_of

Kind = Literal["exact", "scaled", "direction", "zero", "reversed"]
KINDS: tuple[Kind, ...] = get_args(Kind)  # from good to bad
LONE = ("zero", "return", "other")
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Claims:
    """Promises of an estimator; the defaults promise what every estimator must keep.

    Args:
        bias_two: worst kind in batches of two episodes.
        bias_infinite: worst kind in an infinite batch of one group.
        bias_shared_chance: worst kind in an infinite batch of groups that share the draws of chance.
        bootstraps: whether it is right, in an infinite batch, about what a limit of turns
            cuts off (diagnostic game `patience`); if not, the kinds leave that game out.
        zero_mean: columns over whose pools the advantages of all turns sum to 0.
        zero_sum: columns over whose pools those of the trajectories (of their first turns)
            sum to 0.
        shift: whether a constant added to what a seat is paid at the end of each episode
            of a game changes nothing.
        games_apart: whether the other games of a batch change nothing.
        groups_apart: whether the other groups of starts change nothing.
        seats_apart: whether the other seats of a game change nothing.
        labels: whether seats are only names.
        tokens: whether the number of a turn's tokens changes nothing.
        continuous: whether numbers rounded to float32 give the same advantages, to 1e-6 of
            the largest sum of absolute rewards of a trajectory, over the least difference
            of returns that differ.
        singleton_pool: what a pool of one trajectory is given, beside whatever else is in the batch:
            "zero" (with a warning), "return", or "other".

    Raises:
        ValueError: no such kind or `singleton_pool`, or columns that are no sequence of names.
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

    def __post_init__(self) -> None:
        for size in ("bias_two", "bias_infinite", "bias_shared_chance"):
            check_choice(size, getattr(self, size), KINDS)
        check_choice("singleton_pool", self.singleton_pool, LONE)
        for name in ("zero_mean", "zero_sum"):
            columns = getattr(self, name)
            try:
                column_names(() if columns is None else columns)
            except ValueError as error:
                raise ValueError(f"claim {name}: {error}") from error


OUTCOME = Claims(
    bias_two="reversed",
    bias_infinite="scaled",
    bias_shared_chance="reversed",
    shift=True,
    games_apart=True,
    groups_apart=True,
    seats_apart=True,
    tokens=True,
    singleton_pool="zero",
)  # a z-score among the trajectories of a group and seat
CRITIC = Claims(
    bias_two="exact",
    bias_infinite="exact",
    bias_shared_chance="exact",
    bootstraps=True,
    games_apart=True,
    groups_apart=True,
    seats_apart=True,
    tokens=True,
)  # nothing is compared; with the values of the policy itself

CLAIMS: Mapping[str, Claims] = {
    "adca": replace(OUTCOME, bias_infinite="direction"),
    "advevo_public_baseline": replace(
        OUTCOME,
        zero_sum=("group", "team"),
        bias_two="scaled",
        bias_infinite="exact",
        bias_shared_chance="exact",
        shift=False,
        seats_apart=False,
    ),
    "aepo": replace(
        OUTCOME,
        bias_infinite="direction",
        groups_apart=False,
        seats_apart=False,
        tokens=False,
    ),
    "agentprm": replace(
        OUTCOME,
        bias_two="direction",
        bias_infinite="exact",
        bias_shared_chance="exact",
        zero_mean=("game", "seat", "state_key"),
        groups_apart=False,
    ),
    "archer": CRITIC,
    "at_grpo": replace(
        OUTCOME,
        bias_infinite="direction",
        zero_mean=("group", "seat", "state_key"),
        shift=False,
    ),
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
        zero_sum=("group", "seat"),
        bias_two="scaled",
        bias_infinite="exact",
        bias_shared_chance="exact",
    ),
    "episode": replace(OUTCOME, zero_sum=("group", "seat")),
    "flow_grpo": replace(OUTCOME, zero_sum=("group", "seat")),
    "gae": CRITIC,
    "gigpo": replace(OUTCOME, bias_infinite="direction", shift=False),
    "grpo_passk": replace(OUTCOME, bias_infinite="zero", bias_shared_chance="zero"),
    "hapo": replace(
        OUTCOME,
        bias_infinite="direction",
        groups_apart=False,
        seats_apart=False,
        tokens=False,
    ),
    "mars": replace(
        OUTCOME,
        bias_infinite="exact",
        bias_shared_chance="exact",
        zero_mean=("game", "seat"),
        groups_apart=False,
    ),
    "mars_loo": replace(
        OUTCOME,
        bias_two="exact",
        bias_infinite="exact",
        bias_shared_chance="exact",
        groups_apart=False,
        singleton_pool="return",
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
    "reinforce_plus_plus_baseline": replace(
        OUTCOME,
        bias_shared_chance="scaled",
        games_apart=False,
        groups_apart=False,
        seats_apart=False,
        tokens=False,
        singleton_pool="other",
    ),
    "rloo": replace(
        OUTCOME,
        bias_two="exact",
        bias_infinite="exact",
        bias_shared_chance="exact",
        singleton_pool="return",
    ),
    "salt": OUTCOME,
    "stratified_grpo": replace(
        OUTCOME, zero_sum=("group", "seat"), bias_infinite="direction"
    ),
    "turn_ppo": CRITIC,
}


def claims(**promised: Any) -> Callable[[F], F]:
    """Declares what an estimator promises, as `Claims` has it.

    `testing.check_estimator` holds it to that, and its page tells it.

    Args:
        **promised: fields of `Claims`.

    >>> @claims(bias_infinite="exact", games_apart=True)
    ... def my_estimator(turns): ...
    >>> claims_of(my_estimator).bias_infinite
    'exact'
    """
    made = Claims(**promised)

    def declare(estimator: F) -> F:
        estimator.__dict__["claims"] = made
        return estimator

    return declare


def claims_of(name: str | Estimator) -> Claims:
    """What an estimator promises; one that declares nothing, as little as it may.

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
