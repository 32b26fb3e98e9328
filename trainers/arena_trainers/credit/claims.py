"""What each estimator promises: one table, to which the tests and the report hold it.

`two` and `large` are the worst kind over the diagnostic games (`diagnostics`) of the expected
gradient of batches of two episodes and of an infinite batch, default options:

| Kind | The expected gradient of a seat is |
|---|---|
| `exact` | the true one |
| `scaled` | a positive multiple of the true one |
| `direction` | not a multiple, but at an acute angle |
| `zero` | nothing |
| `reversed` | at no acute angle: following it may make the seat worse |
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from arena_trainers.credit.expectation import Kind


@dataclass(frozen=True)
class Claims:
    """Promises of an estimator; the defaults promise what every estimator must keep.

    Args:
        two: worst kind in batches of two episodes.
        large: worst kind in an infinite batch.
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
        continuous: whether rewards that differ by rounding give what differs by rounding.
        lone: what a pool of one trajectory is given: "zero" (with a warning), "return", or
            "other".
    """

    two: Kind = "reversed"
    large: Kind = "reversed"
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
    lone: str = "other"


OUTCOME = Claims(
    two="reversed",
    large="scaled",
    shift=True,
    games_apart=True,
    groups_apart=True,
    seats_apart=True,
    tokens=True,
    lone="zero",
)  # a z-score among the trajectories of a group and seat
CRITIC = Claims(
    two="exact",
    large="exact",
    bootstraps=True,
    games_apart=True,
    groups_apart=True,
    seats_apart=True,
    tokens=True,
)  # nothing is compared; with the values of the policy itself

CLAIMS: Mapping[str, Claims] = {
    "adca": replace(OUTCOME, large="direction"),
    "advevo_public_baseline": replace(
        OUTCOME,
        zero_sum=("group", "team"),
        two="scaled",
        large="exact",
        shift=False,
        seats_apart=False,
    ),
    "aepo": replace(
        OUTCOME, large="direction", groups_apart=False, seats_apart=False, tokens=False
    ),
    "agentprm": replace(
        OUTCOME,
        two="direction",
        large="exact",
        zero_mean=("game", "seat", "state_key"),
        groups_apart=False,
    ),
    "archer": CRITIC,
    "at_grpo": replace(
        OUTCOME,
        large="direction",
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
    "canon": replace(OUTCOME, two="exact", large="direction", tokens=False),
    "counterfactual": CRITIC,
    "dr_grpo": replace(
        OUTCOME, zero_sum=("group", "seat"), two="scaled", large="exact"
    ),
    "episode": replace(OUTCOME, zero_sum=("group", "seat")),
    "flow_grpo": replace(OUTCOME, zero_sum=("group", "seat")),
    "gae": CRITIC,
    "gigpo": replace(OUTCOME, large="direction", shift=False),
    "grpo_passk": replace(OUTCOME, two="direction", large="zero"),
    "hapo": replace(
        OUTCOME, large="direction", groups_apart=False, seats_apart=False, tokens=False
    ),
    "mars": replace(
        OUTCOME, large="exact", zero_mean=("game", "seat"), groups_apart=False
    ),
    "mars_loo": replace(
        OUTCOME, two="exact", large="exact", groups_apart=False, lone="return"
    ),
    "mars_released": Claims(labels=False, lone="zero"),
    "matpo": replace(OUTCOME, zero_sum=("group",), shift=False, seats_apart=False),
    "mt_grpo": replace(OUTCOME, zero_sum=("group", "seat")),
    "normalise_then_sum": Claims(games_apart=True, tokens=True, lone="zero"),
    "poad": replace(CRITIC, tokens=False),
    "rae": replace(CRITIC, bootstraps=False, groups_apart=False),
    "reinforce_plus_plus_baseline": replace(
        OUTCOME, games_apart=False, groups_apart=False, seats_apart=False, tokens=False
    ),
    "rloo": replace(OUTCOME, two="exact", large="exact", lone="return"),
    "salt": OUTCOME,
    "stratified_grpo": replace(OUTCOME, zero_sum=("group", "seat"), large="direction"),
    "turn_ppo": CRITIC,
}


def claims(name: str) -> Claims:
    """What an estimator promises; a plug-in that is not in the table, as little as it may."""
    return CLAIMS.get(name, Claims())
