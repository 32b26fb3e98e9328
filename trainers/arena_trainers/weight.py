"""The weight of a part of the reward or of a term of the loss, by optimizer step."""

import math
from dataclasses import dataclass
from typing import Any

from arena_envs.checks import is_number

OF_WEIGHT = ("weight", "over", "until")  # its options


@dataclass(frozen=True)
class Weight:
    """A weight by optimizer step: linear from `start` to `end` at step `over`, and 0 from `until` on."""

    start: float
    end: float
    over: int = 1
    until: float = math.inf

    @classmethod
    def of(cls, owner: str, options: dict[str, Any]) -> "Weight":
        """Takes `weight` (a number, or [from, to] with `over`) and `until` out of the options of `owner`."""
        value, over = options.pop("weight", 1.0), options.pop("over", None)
        until = options.pop("until", None)
        pair = value if isinstance(value, list | tuple) else (value, value)
        if len(pair) != 2 or not all(map(is_number, pair)):
            raise ValueError(
                f"want a number or [from, to] as weight of {owner}, got {value!r}"
            )
        if (over is None) == (pair is value):
            raise ValueError(
                f"want over, a number of steps, with a weight [from, to] of {owner} and only "
                f"there, got weight {value!r} and over {over!r}"
            )
        for name, steps in (("over", over), ("until", until)):
            if steps is not None and (type(steps) is not int or steps < 1):
                raise ValueError(f"want {name} of {owner} of at least 1, got {steps!r}")
        return cls(float(pair[0]), float(pair[1]), over or 1, until or math.inf)

    def is_over(self, step: int) -> bool:
        """Whether it is 0 from this step on."""
        return step >= self.until or (
            self.end == 0 and (self.start == 0 or step >= self.over)
        )

    def at(self, step: int) -> float:
        """The weight at a step.

        >>> [Weight(1.0, 0.0, over=4, until=3).at(step) for step in range(4)]
        [1.0, 0.75, 0.5, 0.0]
        """
        share = min(step / self.over, 1.0)
        weight = self.start + (self.end - self.start) * share
        return 0.0 if self.is_over(step) else weight
