"""Arguments that selectors share: the policies that learn, shares, and draws by a seed."""

import hashlib
from collections.abc import Collection, Sequence
from typing import Any

from arena_envs.checks import check_known
from arena_envs.game import check_number
from arena_wrappers import Episode

Policies = Collection[str] | None  # names of those who learn; None for all


def chosen_policies(
    episodes: Sequence[Episode], policies: Collection[str] | None
) -> Collection[str]:
    """The names of the policies that learn; raises ValueError for one that never played."""
    played = {turn.policy for episode in episodes for turn in episode.turns}
    if policies is None or not played:
        return played
    if not isinstance(policies, str | list | tuple | set | frozenset):
        raise ValueError(f"want policies as a list of names, got {policies!r:.60}")
    learners = {policies} if isinstance(policies, str) else set(map(str, policies))
    for name in sorted(learners):
        problem = f"no turn of the episodes is by the policy {name!r}"
        check_known(name, sorted(played), problem)
    return learners


def check_share(name: str, value: object) -> None:
    """Refuses an option that is no number above 0 and at most 1."""
    check_number(name, value, 0)
    if not 0 < value <= 1:  # type: ignore[operator] # a number
        raise ValueError(f"want {name} above 0 and at most 1, got {value!r:.60}")


def seeded_integer(seed: int, *facts: Any) -> int:
    """A random integer of 63 bits, which depends on the arguments alone."""
    text = repr((seed, *facts)).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest()) >> 1
