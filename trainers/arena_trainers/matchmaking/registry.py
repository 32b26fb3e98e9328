"""Matchmakers by name: those of this package, and those of other distributions."""

from collections.abc import Mapping
from typing import Any

from arena_trainers.extras import PlugIns
from arena_trainers.matchmaking.mixture import Mixture
from arena_trainers.matchmaking.past_selves import PastSelves
from arena_trainers.matchmaking.prioritised import Prioritised
from arena_trainers.matchmaking.protocol import SELF, Matchmaker, snapshot_step
from arena_trainers.matchmaking.psro import PSRO

KEY = "matchmaker"  # of a mapping: the name; the other keys are its options
_KNOWN: PlugIns[Matchmaker] = PlugIns(
    "matchmaker",
    "arena.matchmakers",
    {
        "mixture": Mixture,
        "past_selves": PastSelves,
        "prioritised": Prioritised,
        "psro": PSRO,
    },
)


def names() -> list[str]:
    """Names of all matchmakers; a built-in hides a plug-in of its name."""
    return _KNOWN.names()


def names_matchmaker(opponents: Any) -> bool:
    """Whether `opponents` names a matchmaker: by its name, or by a mapping.

    >>> names_matchmaker("past_selves"), names_matchmaker("random")
    (True, False)
    """
    if isinstance(opponents, str):
        return opponents in _KNOWN.built_in or (
            opponents != SELF and opponents in names()
        )
    return isinstance(opponents, Mapping)


def assigns_seats(opponents: Any) -> bool:
    """Whether `opponents` chooses for each start who learns: a matchmaker, or one policy.

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
    return make_matchmaker({KEY: "mixture", "weights": {opponents: 1}})


def make_matchmaker(spec: str | Mapping[str, Any]) -> Matchmaker:
    """The matchmaker of a name, or of a mapping with its name and options.

    Args:
        spec: a name, or `{"matchmaker": NAME, ...}` with options.

    Raises:
        ValueError: an unknown matchmaker or option, an option out of range, or a matchmaker
            that names itself or another as a policy.
        ImportError: the matchmaker's plug-in cannot be imported.

    >>> make_matchmaker({"matchmaker": "past_selves", "every": 10}).snapshots(25)
    [0, 10, 20]
    """
    options = {KEY: spec} if isinstance(spec, str) else dict(spec)
    name = options.pop(KEY, None)
    if not isinstance(name, str):
        raise ValueError(
            f"want opponents as a mapping with the key {KEY!r}, got {spec!r}; write "
            "{matchmaker: past_selves, every: 20}"
        )
    made = _KNOWN.make(name, options)
    known = names() if made.policies else []
    for policy in made.policies:
        if policy in known or policy == SELF or snapshot_step(policy) is not None:
            itself = "itself" if policy == name else repr(policy)
            raise ValueError(
                f"matchmaker {name!r} names {itself} among its policies; want policy "
                "strings such as 'random' there"
            )
    return made
