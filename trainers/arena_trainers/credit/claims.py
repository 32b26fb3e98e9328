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
from dataclasses import dataclass

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
    shift: bool = False
    games_apart: bool = False
    groups_apart: bool = False
    seats_apart: bool = False
    labels: bool = True
    tokens: bool = False
    continuous: bool = True
    lone: str = "other"


CLAIMS: Mapping[str, Claims] = {
    "episode": Claims(
        large="scaled",
        shift=True,
        games_apart=True,
        groups_apart=True,
        seats_apart=True,
        tokens=True,
        lone="zero",
    ),
    "mars": Claims(
        large="exact",
        zero_mean=("game", "seat"),
        shift=True,
        games_apart=True,
        seats_apart=True,
        tokens=True,
        lone="zero",
    ),
    "mars_loo": Claims(
        two="exact",
        large="exact",
        shift=True,
        games_apart=True,
        seats_apart=True,
        tokens=True,
        lone="return",
    ),
    "mars_released": Claims(labels=False, continuous=False, lone="zero"),
    "normalise_then_sum": Claims(games_apart=True, tokens=True, lone="zero"),
    "rae": Claims(
        two="exact",
        large="exact",
        games_apart=True,
        seats_apart=True,
        tokens=True,
    ),
}


def claims(name: str) -> Claims:
    """What an estimator promises; a plug-in that is not in the table, as little as it may."""
    return CLAIMS.get(name, Claims())
