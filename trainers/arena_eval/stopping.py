"""When an evaluation stops: its interval is narrow, its difference has a sign, or a budget is spent.

Seeds are played in parts that grow, in their order, so that a result depends neither on the order
in which episodes end nor on the number that is played at a time. Intervals are those of
`confidence_sequences.ANY_TIME`, which hold whenever play stops.
"""

import math
from dataclasses import dataclass, field

from arena_eval.spending import Budget, Spending

FIRST = 8  # seeds before the first look
GROWTH = 8  # a part is an eighth of the seeds so far
MAX_STOPPED = 10_000  # seeds at most, unless another number is given
WIDTHS = (
    3.3  # half width of an any-time interval / standard error, at some hundred values
)


@dataclass(frozen=True)
class StopRule:
    """When an evaluation stops before all of its seeds are played.

    Attributes:
        half_width: it stops when half the interval is at most as wide: of the mean over seats
            or, with a base, of the difference; with the luck taken out where that helps.
        is_until_decided: it stops when the interval of the difference from the base is on one
            side of 0.
        budget: it stops when the next part of the seeds may cost more than is left.
    """

    half_width: float | None = None
    is_until_decided: bool = False
    budget: Budget = field(default_factory=Budget)

    def __post_init__(self) -> None:
        if self.half_width is not None and not 0 < self.half_width < math.inf:
            raise ValueError(
                f"want a half width above 0 with --until, got {self.half_width}"
            )

    def is_clear(self, low: float, high: float) -> bool:
        """Whether an interval is narrow enough, or has a sign."""
        is_narrow = self.half_width is not None and (high - low) / 2 <= self.half_width
        return is_narrow or (self.is_until_decided and (low > 0 or high < 0))

    def num_expected(self, spread: float, most: int) -> int:
        """About how many seeds the rule needs, at most so many.

        Args:
            spread: standard deviation of a seed's mean return.
            most: number of seeds without the rule.
        """
        if self.half_width is None:
            return most
        return max(1, min(most, math.ceil((WIDTHS * spread / self.half_width) ** 2)))


class SeedParts:
    """How many seeds are played next, by a rule.

    Args:
        rule: of the evaluation.
        num_seeds: at most.
        expected: what a seed costs by an estimate; what seeds did cost replaces it.
    """

    def __init__(self, rule: StopRule, num_seeds: int, expected: Spending) -> None:
        self._budget, self._num_seeds = rule.budget, num_seeds
        self._num_done, self._dearest = 0, expected
        self._is_estimate = True
        self._spent = self._budget.spent()

    def next_size(self) -> int:
        """The number of seeds of the next part; 0 if all are played, or too dear."""
        size = max(FIRST, self._num_done // GROWTH)
        if self._is_estimate and self._budget.is_limited:
            size = 1  # tells what a seed costs
        size = min(size, self._num_seeds - self._num_done)
        return int(min(size, self._budget.affordable(self._dearest)))

    def add(self, num_seeds: int) -> None:
        """Notes that a part was played, and what its seeds cost; the dearest part counts."""
        self._num_done += num_seeds
        spent = self._budget.spent()
        used = spent.minus(self._spent).times(1 / num_seeds)
        self._spent = spent
        if used.tokens == 0:  # episodes of a file, which cost nothing now
            return
        if self._is_estimate or used.tokens > self._dearest.tokens:
            self._dearest, self._is_estimate = used, False
