"""When an evaluation stops: its interval is narrow, its difference has a sign, or a budget is spent.

Seeds are played in their order, in parts of growing size. So the result depends neither on the order
in which episodes end nor on how many run at once. Intervals are those of
`confidence_sequences.any_time`, which hold at all numbers of seeds together.
"""

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from arena_eval.intervals import LEVEL
from arena_eval.spending import Budget, Spending

FIRST = 8  # seeds before the first look
GROWTH = 8  # a part is an eighth of the seeds so far
MAX_STOPPED = 10_000  # seeds at most, unless another number is given
MAX_SILENT = 3  # parts in a row without any reply, after which play ends
OVER_BUDGET = (
    "the next ones may exceed the budget; with --out FILE the same command goes on"
)
# half width of an any-time interval / standard error, at some hundred values
WIDTHS = 3.3


class Ends(NamedTuple):
    """The ends of an interval.

    Attributes:
        low: lower end.
        high: upper end.
        is_exact: whether both are the exact figure, which more seeds do not change.
    """

    low: float
    high: float
    is_exact: bool = False


@dataclass(frozen=True)
class StopRule:
    """When an evaluation stops before all of its seeds are played.

    Attributes:
        half_width: stops when half the width of the interval is at most this. The interval is
            that of the mean over seats or, with a base, of the difference; with the luck taken
            out where that helps. None: never.
        is_until_decided: stops when the interval of the difference from the base excludes 0, or
            the difference is exact.
        budget: stops when the rest of the budget pays no further seed.
        level: confidence level of the intervals.
    """

    half_width: float | None = None
    is_until_decided: bool = False
    budget: Budget = field(default_factory=Budget)
    level: float = LEVEL

    def __post_init__(self) -> None:
        if self.half_width is not None and not 0 < self.half_width < math.inf:
            raise ValueError(
                f"want a half width above 0 with --until, got {self.half_width}"
            )
        if not 0 < self.level < 1:
            raise ValueError(f"want a level between 0 and 1, got {self.level}")

    def is_clear(self, ends: Ends) -> bool:
        """Whether an interval is narrow enough, or decided with `is_until_decided`."""
        low, high, is_exact = ends
        is_narrow = self.half_width is not None and (high - low) / 2 <= self.half_width
        is_decided = is_exact or low > 0 or high < 0
        return is_narrow or (self.is_until_decided and is_decided)

    def outcome(self, ends: Ends | None, are_all_played: bool) -> str:
        """Why play ended, and what is known then.

        Args:
            ends: of the interval; None if there is none, as all episodes are lost.
            are_all_played: whether all seeds were played; else the budget ended play.
        """
        if ends is not None and self.is_clear(ends):
            return "exact" if ends.is_exact else "the interval is as asked for"
        why = "all were played" if are_all_played else OVER_BUDGET
        if ends is None:
            return why
        low, high, _ = ends
        if self.half_width is not None:
            why = f"{why}; half the width of the interval is {(high - low) / 2:.3g}"
        if self.is_until_decided:
            most = max(abs(low), abs(high))
            why = f"{why}; not decided: differences above {most:.3g} are excluded"
        return why

    def num_expected(self, spread: float, most: int) -> int:
        """About how many seeds the rule needs, at most `most`.

        Args:
            spread: standard deviation of a seed's mean return.
            most: number of seeds without the rule.
        """
        if self.half_width is None:
            return most
        return max(1, min(most, math.ceil((WIDTHS * spread / self.half_width) ** 2)))


class SeedParts:
    """The sizes of the parts in which seeds are played.

    Args:
        rule: of the evaluation.
        num_seeds: at most.
        expected: an estimate of the cost of a seed, used until the first part is played.
    """

    def __init__(self, rule: StopRule, num_seeds: int, expected: Spending) -> None:
        self._budget, self._num_seeds = rule.budget, num_seeds
        self._num_done, self._dearest = 0, expected
        self._is_estimate = True
        self._spent = self._budget.spent()

    def next_size(self) -> int:
        """The number of seeds of the next part; 0 if none is left or affordable."""
        size = max(FIRST, self._num_done // GROWTH)
        if self._is_estimate and self._budget.is_limited:
            size = 1  # measures the cost of a seed
        size = min(size, self._num_seeds - self._num_done)
        return int(min(size, self._budget.affordable(self._dearest)))

    def add(self, num_seeds: int) -> None:
        """Records a played part; the highest cost per seed so far limits the next part."""
        self._num_done += num_seeds
        spent = self._budget.spent()
        used = spent.minus(self._spent).times(1 / num_seeds)
        self._spent = spent
        if used.tokens == 0:  # episodes of a file, which cost nothing now
            return
        if self._is_estimate or used.tokens > self._dearest.tokens:
            self._dearest, self._is_estimate = used, False
