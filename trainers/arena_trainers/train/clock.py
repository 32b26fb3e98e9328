"""Where the time of a run goes: wall and CPU seconds by part.

| part | what counts |
|---|---|
| `generation` | language models generate tokens; opponents' too |
| `environment` | the rest of play: rules, prompts, parsing, bots |
| `credit` | records of turns, critic, credit, training rows, metrics of play |
| `training` | forward and backward passes, those of the reference model too |
| `rest` | optimizer, exact evaluation, logs, files, what TRL does besides |
"""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from arena_trainers.lm.backends import Backend, Generated, Sampling

PARTS = ("generation", "environment", "credit", "training", "rest")


class Spent(NamedTuple):
    """Seconds of a part: by the clock on the wall, and of all cores of this process."""

    wall: float
    cpu: float


class Clock:
    """Counts the seconds of each part, and what was done in them.

    Each moment belongs to one part: the innermost one. Outside all parts it is `"rest"`.

    Attributes:
        counts: `"episodes"` and `"turns"` that were played, tokens that were `"generated"`,
            and tokens of rows that were `"trained"`; of this process.
    """

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Forgets everything; to be called outside all parts."""
        self.counts: Counter[str] = Counter()
        self._spent = dict.fromkeys(PARTS, Spent(0.0, 0.0))
        self._parts = ["rest"]
        self._last = _now()

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Within this context, time counts for the part, a key of `PARTS`."""
        self._charge()
        self._parts.append(name)
        try:
            yield
        finally:
            self._charge()
            self._parts.pop()

    @property
    def spent(self) -> dict[str, Spent]:
        """The seconds of each part up to now."""
        self._charge()
        return dict(self._spent)

    def _charge(self) -> None:
        now, before = _now(), self._spent[self._parts[-1]]
        self._spent[self._parts[-1]] = Spent(
            before.wall + now.wall - self._last.wall,
            before.cpu + now.cpu - self._last.cpu,
        )
        self._last = now


def _now() -> Spent:
    return Spent(time.perf_counter(), time.process_time())


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
        last, done = self._before
        self._before = spent, counts
        wall = {name: spent[name].wall - last[name].wall for name in PARTS}
        total = sum(wall.values())
        found = {"arena/episodes_per_second": _rate(counts, done, "episodes", total)}
        for part, tokens in (("generation", "generated"), ("training", "trained")):
            speed = _rate(counts, done, tokens, wall[part])
            found[f"arena/tokens_per_second/{part}"] = speed
        for name, seconds in wall.items():
            found[f"arena/time/{name}"] = seconds / total if total > 0 else 0.0
        return found


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

    def generate(
        self,
        prompt_ids: Sequence[Sequence[int]],
        seeds: Sequence[int],
        sampling: Sampling,
    ) -> Generated:
        with self.clock.part("generation"):
            made = self.inner.generate(prompt_ids, seeds, sampling)
            self.clock.counts["generated"] += sum(map(len, made.token_ids))
        return made
