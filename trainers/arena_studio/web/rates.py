"""What a visitor may ask, and how often."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from arena_studio.web.refusal import Refused


@dataclass(frozen=True)
class Limits:
    """What a visitor may ask.

    Attributes:
        max_body: bytes of a request.
        max_body_seconds: until all of a request has come.
        rate: cost units per second that come back.
        burst: cost units at once. A request costs 1, one that computes 5, a new table 10.
        max_visitors: visitors and addresses whose rates are remembered.
    """

    max_body: int = 65_536
    max_body_seconds: float = 10.0
    rate: float = 20.0
    burst: float = 200.0
    max_visitors: int = 10_000


DEFAULT_LIMITS = Limits()


class Rates:
    """A bucket of cost units for each visitor and address."""

    def __init__(self, limits: Limits, clock: Callable[[], float]) -> None:
        self._limits, self._clock = limits, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def pay(self, payer: str, cost: float) -> None:
        """Takes the cost; raises Refused if the bucket has less."""
        now, limits = self._clock(), self._limits
        left, last = self._left.pop(payer, (limits.burst, now))
        left = min(limits.burst, left + (now - last) * limits.rate)
        enough = left >= cost
        self._left[payer] = (left - cost if enough else left), now
        if len(self._left) > limits.max_visitors:
            self._left.popitem(last=False)
        if not enough:
            raise Refused(429, "Too many requests; wait a few seconds.")
