"""`Clock`, `Meter` and `TimedBackend`: where the time goes, and how fast play and training are."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from arena_trainers.lm.backends import (
    Backend,
    Generated,
    GenerateOne,
    Prompts,
    Sampling,
    generates_one,
)
from arena_wrappers.policies import forget_episodes

TIMES = ("generation", "environment", "credit", "training", "rest")


class Seconds(NamedTuple):
    """Seconds of a part: by the clock on the wall, and of all cores of this process."""

    wall: float
    cpu: float


class Clock:
    """Counts the seconds of each part, and what was done in them.

    Each moment belongs to one part: the innermost one. Outside all parts it is `"rest"`.

    Attributes:
        counts: `"episodes"` and `"turns"` that were played, tokens that were `"generated"`,
            and tokens of rows that were `"trained"`; of this process. Milliseconds of
            generation in a player `"beside"` it.
    """

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Forgets everything; to be called outside all parts."""
        self.counts: Counter[str] = Counter()
        self._spent = dict.fromkeys(TIMES, Seconds(0.0, 0.0))
        self._parts = ["rest"]
        self._last = _now()

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Within this context, time counts for the part, a key of `TIMES`."""
        self._charge()
        self._parts.append(name)
        try:
            yield
        finally:
            self._charge()
            self._parts.pop()

    @property
    def spent(self) -> dict[str, Seconds]:
        """The seconds of each part up to now."""
        self._charge()
        return dict(self._spent)

    def _charge(self) -> None:
        now, before = _now(), self._spent[self._parts[-1]]
        self._spent[self._parts[-1]] = Seconds(
            before.wall + now.wall - self._last.wall,
            before.cpu + now.cpu - self._last.cpu,
        )
        self._last = now


def _now() -> Seconds:
    return Seconds(time.perf_counter(), time.process_time())


class Meter:
    """The speed and the split of time since the last reading of a clock.

    Args:
        clock: the clock.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._before = clock.spent, clock.counts.copy()

    def read(self) -> dict[str, float]:
        """The metrics `arena/time/*`, `arena/*_per_second` since the last call."""
        spent, counts = self.clock.spent, self.clock.counts.copy()
        earlier_spent, earlier_counts = self._before
        self._before = spent, counts
        wall = {name: spent[name].wall - earlier_spent[name].wall for name in TIMES}
        total = sum(wall.values())
        values = {
            "arena/episodes_per_second": _rate(
                counts, earlier_counts, "episodes", total
            )
        }
        beside = {"generation": (counts["beside"] - earlier_counts["beside"]) / 1000}
        for part, tokens in (("generation", "generated"), ("training", "trained")):
            seconds = wall[part] + beside.get(part, 0.0)
            speed = _rate(counts, earlier_counts, tokens, seconds)
            values[f"arena/tokens_per_second/{part}"] = speed
        for name, seconds in wall.items():
            values[f"arena/time/{name}"] = seconds / total if total > 0 else 0.0
        return values


def _rate(
    counts: Counter[str], before: Counter[str], name: str, seconds: float
) -> float:
    return (counts[name] - before[name]) / seconds if seconds > 0 else 0.0


class TimedBackend:
    """A backend whose time counts as `"generation"`, and whose tokens are counted.

    Args:
        inner: the backend.
        clock: counts.
    """

    def __init__(self, inner: Backend, clock: Clock) -> None:
        # a policy that another trainer has timed is timed anew
        self.inner: Backend = inner.inner if isinstance(inner, TimedBackend) else inner
        self.runs_model = self.inner.runs_model
        self.clock = clock
        self.before: Callable[[], None] = lambda: None  # it generates
        self._num_asked = 0  # of `generate_one`, without a reply

    def generate(
        self, prompt_ids: Prompts, seeds: Sequence[int], sampling: Sampling
    ) -> Generated:
        self.before()
        with self.clock.part("generation"):
            generated = self.inner.generate(prompt_ids, seeds, sampling)
            self.clock.counts["generated"] += sum(map(len, generated.token_ids))
        return generated

    @property
    def generate_one(self) -> GenerateOne | None:
        """As that of the inner backend, if it has one.

        The time in which a reply is awaited counts as `"generation"`, also where episodes go on
        meanwhile.
        """
        generate_one = generates_one(self.inner)
        return generate_one and partial(self._generate_one, generate_one)

    async def _generate_one(
        self,
        generate_one: GenerateOne,
        prompt_ids: Sequence[int],
        seed: int,
        sampling: Sampling,
    ) -> Generated:
        if self._num_asked == 0:
            self.before()
        self._num_asked += 1
        # parts of several requests overlap; they have one name, so any of them may end first
        with self.clock.part("generation"):
            try:
                generated = await generate_one(prompt_ids, seed, sampling)
            finally:
                self._num_asked -= 1
        self.clock.counts["generated"] += len(generated.token_ids[0])
        return generated

    def forget_episodes(self) -> None:
        """As that of the inner backend, if it has one."""
        forget_episodes(self.inner)
