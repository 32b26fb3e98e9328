"""Where an environment's chance comes from."""

import random
from bisect import bisect
from typing import Any

from arena_envs.checks import short
from arena_envs.nodes import Node


class Chance:
    """Draws outcomes of chance nodes: the given ones first, then random ones.

    Attributes:
        given: the outcomes that come next, in order.
    """

    __slots__ = ("_rng", "_shared", "given")

    def __init__(self) -> None:
        self.given: tuple[Any, ...] = ()
        self._rng = random.Random()
        self._shared = False

    def seed(self, seed: int) -> None:
        """Starts the generator anew."""
        self._rng = random.Random(seed)
        self._shared = False

    def draw(self, node: Node) -> Any:
        """The next outcome.

        Raises:
            ValueError: the given outcome cannot happen at this node.
        """
        if self.given:
            if self.given[0] not in node.outcomes:
                raise ValueError(
                    f"want a chance outcome among {node.outcomes}, "
                    f"got {short(self.given[0])}"
                )
            outcome = node.outcomes[node.outcomes.index(self.given[0])]
            self.given = self.given[1:]
            return outcome
        if self._shared:
            state = self._rng.getstate()
            self._rng = random.Random(0)  # any seed is quicker than asking the system
            self._rng.setstate(state)
            self._shared = False
        index = bisect(node.cumulative, self._rng.random())
        return node.outcomes[min(index, len(node.outcomes) - 1)]  # rounding: sum < 1

    def copy(self) -> "Chance":
        """One that draws the same; the generator is copied by whoever draws first."""
        other = Chance.__new__(Chance)
        other.given, other._rng = self.given, self._rng
        other._shared = self._shared = True
        return other
