"""What was computed of the last few games."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from arena_envs.game import AnyGame

T = TypeVar("T")


class Memory(Generic[T]):
    """Things made of games, the last few of which are kept.

    Args:
        max_things: that are kept; the one that was used last is forgotten last.
    """

    def __init__(self, max_things: int) -> None:
        self.max_things = max_things
        self._things: OrderedDict[Any, T] = OrderedDict()

    def recall(self, game: AnyGame, make: Callable[[], T], *more: Hashable) -> T:
        """What was made of an equal game with equal `more`, or what `make` makes now."""
        # games that are equal may still differ (1 and True): repr tells
        key: Any = (type(game), game, repr(game), *more)
        try:
            hash(key)
        except TypeError:  # a parameter is not hashable
            return make()
        if key not in self._things:
            self._things[key] = make()
        self._things.move_to_end(key)
        while len(self._things) > self.max_things:
            self._things.popitem(last=False)
        return self._things[key]
