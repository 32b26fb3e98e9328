"""The opponents of a game compared: what is missing, and what differs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from arena_trainers.bench.opponents import (
    MEASURES,
    NUM_SEEDS,
    REFERENCE,
    SETTINGS,
    VARIANTS,
    Curves,
    Setting,
)
from arena_trainers.bench.run_file import Runs, missing_seeds
from arena_trainers.bench.statistics import (
    Difference,
    Mean,
    final,
    holm,
    interval,
    paired_difference,
)


@dataclass(frozen=True)
class Comparison:
    """All variants of a setting.

    A gain is positive where the variant is better than self-play. While a run is missing,
    there are no gains.

    Args:
        name: key of `SETTINGS`.
        runs: curves by variant and seed.
        num_seeds: number of seeds that each variant should have.
    """

    name: str
    runs: Mapping[str, Mapping[int, Curves]]
    num_seeds: int

    @property
    def setting(self) -> Setting:
        """The game and its training."""
        return SETTINGS[self.name]

    @property
    def missing(self) -> dict[str, list[int]]:
        """The missing seeds of each variant that lacks any."""
        return missing_seeds(VARIANTS, self.runs, self.num_seeds)

    def curves(self, measure: str) -> dict[str, list[list[float]]]:
        """The curves of each variant that was run, by seed."""
        return {
            name: [run[measure] for _, run in sorted(self.runs[name].items())]
            for name in VARIANTS
            if self.runs.get(name)
        }

    def finals(self, measure: str) -> dict[str, list[float]]:
        """The mean of the last quarter of each run, by variant, then by seed."""
        return {n: [*map(final, curves)] for n, curves in self.curves(measure).items()}

    def means(self, measure: str) -> dict[str, Mean]:
        """Means over seeds, the best first."""
        found = {name: interval(runs) for name, runs in self.finals(measure).items()}
        sign = -1 if MEASURES[measure].higher else 1
        return dict(sorted(found.items(), key=lambda item: sign * item[1].mean))

    def gaps(self, measure: str) -> dict[str, list[float]]:
        """Gain of each other variant over self-play, by seed."""
        if self.missing:
            return {}
        found, sign = self.finals(measure), 1 if MEASURES[measure].higher else -1
        return {
            name: [sign * (a - b) for a, b in zip(own, found[REFERENCE], strict=True)]
            for name, own in found.items()
            if name != REFERENCE
        }

    def differences(self, measure: str) -> dict[str, Difference]:
        """Mean gain over self-play, paired by seed, p not corrected."""
        return {
            name: paired_difference(gaps, [0.0] * len(gaps))
            for name, gaps in self.gaps(measure).items()
        }

    def gains(self, measure: str) -> dict[str, Difference]:
        """Mean gain over self-play, paired by seed, p corrected for their number."""
        return holm(self.differences(measure))


def comparisons(runs: Runs) -> list[Comparison]:
    """One for each game.

    Each variant should have as many seeds as the variant with most, and at least `NUM_SEEDS`.
    """
    found = [by_seed for of in runs.values() for by_seed in of.values()]
    num = max([NUM_SEEDS, *(seed + 1 for by_seed in found for seed in by_seed)])
    return [Comparison(name, runs.get(name, {}), num) for name in SETTINGS]


def title(measure: str, setting: Setting) -> str:
    """The title of a measure in a game."""
    return MEASURES[measure].title.format(optimal=setting.optimal)


def best_and_worst(gains: Mapping[str, Difference]) -> tuple[Sequence[str], ...]:
    """The variants that are significantly better, and those that are worse."""
    significant = {n: g.value for n, g in gains.items() if g.is_significant}
    return (
        [name for name, value in significant.items() if value > 0],
        [name for name, value in significant.items() if value < 0],
    )
