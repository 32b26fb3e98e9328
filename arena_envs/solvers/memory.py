"""A memory of what was computed for the last few games."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from arena_envs.game import AnyGame

T = TypeVar("T")


class Memory(Generic[T]):
    """Things computed from games; the most recently used ones are kept.

    Args:
        max_things: number of things that are kept.
    """

    def __init__(self, max_things: int) -> None:
        self.max_things = max_things
        self._things: OrderedDict[Any, T] = OrderedDict()

    def recall(self, game: AnyGame, make: Callable[[], T], *more: Hashable) -> T:
        """The thing of an equal game and equal `more`; `make()` if it is not kept."""
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
