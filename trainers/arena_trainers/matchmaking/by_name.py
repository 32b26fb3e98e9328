"""Matchmakers by name: the registry, and which one a run's `opponents` names."""

from collections.abc import (
    Mapping,
    Sequence,
)
from typing import Any

from arena_envs.registry import Registry
from arena_trainers.matchmaking.protocol import SELF, Matchmaker, snapshot_step

_HERE = "arena_trainers.matchmaking"

matchmakers: Registry[Matchmaker] = Registry(
    "matchmaker",
    "arena.matchmakers",
    {
        "mixture": f"{_HERE}.mixture:Mixture",
        "past_selves": f"{_HERE}.past_selves:PastSelves",
        "prioritised": f"{_HERE}.prioritised:Prioritised",
        "psro": f"{_HERE}.psro:PSRO",
    },
    kit=f"{_HERE}.testing:check_matchmaker",
)


# the option `opponents`: policies of the seats, in one or several line-ups, or a matchmaker
Opponents = str | Sequence[str | Sequence[str]] | Mapping[str, Any]


def names_matchmaker(opponents: Opponents) -> bool:
    """True if `opponents` names a matchmaker: by the name of one, or by a mapping.

    >>> names_matchmaker("past_selves"), names_matchmaker("random")
    (True, False)
    """
    if isinstance(opponents, str):
        return opponents != SELF and matchmakers.knows(opponents)
    return isinstance(opponents, Mapping)


def assigns_seats(opponents: Opponents) -> bool:
    """True if `opponents` chooses for each start who learns: a matchmaker, or one policy.

    >>> assigns_seats("random"), assigns_seats("self"), assigns_seats(["self", "random"])
    (True, False, False)
    """
    is_policy = isinstance(opponents, str) and opponents != SELF
    return is_policy or names_matchmaker(opponents)


def matchmaker_for(opponents: str | Mapping[str, Any]) -> Matchmaker:
    """The matchmaker of `opponents`; one policy plays all seats but a drawn one that learns.

    Args:
        opponents: for which `assigns_seats` is true.

    Raises:
        ValueError, ImportError: as `make_matchmaker`.
    """
    if names_matchmaker(opponents):
        return make_matchmaker(opponents)
    return make_matchmaker({"mixture": {"weights": {opponents: 1}}})


def make_matchmaker(spec: str | Mapping[str, Any]) -> Matchmaker:
    """The matchmaker of a name with its options, such as `"past_selves(every=20)"`.

    Args:
        spec: an expression of `arena_envs.registry`, or `{NAME: {key: value}}`.

    Raises:
        ValueError: an unknown matchmaker or option, an option out of range, or a matchmaker
            that names itself or another as a policy.
        ImportError: the matchmaker's plug-in cannot be imported.

    >>> make_matchmaker("past_selves(every=10)").snapshots(25)
    [0, 10, 20]
    """
    matchmaker = matchmakers.make(spec)
    for policy in matchmaker.policies:
        if (
            policy == SELF
            or matchmakers.knows(policy)
            or snapshot_step(policy) is not None
        ):
            name = matchmakers.read(spec).name
            itself = "itself" if policy == name else repr(policy)
            raise ValueError(
                f"matchmaker {name!r} names {itself} among its policies; want policy "
                "strings such as 'random' there"
            )
    return matchmaker
