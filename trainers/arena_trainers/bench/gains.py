"""Variants of a comparison over several games: what is missing, and what differs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from arena_trainers.bench.run_file import Runs, missing_seeds
from arena_trainers.bench.statistics import (
    Difference,
    Mean,
    final,
    holm,
    interval,
    paired_difference,
)

NUM_SEEDS = 3
Curves = dict[str, list[float]]  # by measure; the first value is that of the start


@dataclass(frozen=True)
class Measure:
    """A measure of a policy.

    Args:
        title: in tables and pictures; names in braces are fields of the setting.
        higher: whether more is better.
    """

    title: str
    higher: bool


@dataclass(frozen=True)
class Bench:
    """What is compared.

    Args:
        command: that does the runs and writes the page.
        settings: the games by name, each with `title`, `measures` (keys of `measures`) and
            `every`, the distance of the points of a curve.
        axis: unit of `every`.
        variants: their names.
        reference: the variant with which the others are compared.
        measures: by name.
    """

    command: str
    settings: Mapping[str, Any]
    axis: str
    variants: Sequence[str]
    reference: str
    measures: Mapping[str, Measure]

    @property
    def num_compared(self) -> int:
        """The comparisons of a table."""
        return len(self.variants) - 1


@dataclass(frozen=True)
class Comparison:
    """All variants of a setting.

    A gain is positive where the variant is better than the reference. While a run is missing,
    there are no gains.

    Args:
        bench: what is compared.
        name: key of `bench.settings`.
        runs: curves by variant and seed.
        num_seeds: number of seeds that each variant should have.
    """

    bench: Bench
    name: str
    runs: Mapping[str, Mapping[int, Curves]]
    num_seeds: int

    @property
    def setting(self) -> Any:
        """The game and its training."""
        return self.bench.settings[self.name]

    @property
    def missing(self) -> dict[str, list[int]]:
        """The missing seeds of each variant that lacks any."""
        return missing_seeds(self.bench.variants, self.runs, self.num_seeds)

    def title(self, measure: str) -> str:
        """The title of a measure."""
        return self.bench.measures[measure].title.format(**vars(self.setting))

    def curves(self, measure: str) -> dict[str, list[list[float]]]:
        """The curves of each variant that was run, by seed."""
        return {
            name: [run[measure] for _, run in sorted(self.runs[name].items())]
            for name in self.bench.variants
            if self.runs.get(name)
        }

    def finals(self, measure: str) -> dict[str, list[float]]:
        """The mean of the last quarter of each run, by variant, then by seed."""
        return {n: [*map(final, curves)] for n, curves in self.curves(measure).items()}

    def means(self, measure: str) -> dict[str, Mean]:
        """Means over seeds, the best first."""
        found = {name: interval(runs) for name, runs in self.finals(measure).items()}
        sign = -1 if self.bench.measures[measure].higher else 1
        return dict(sorted(found.items(), key=lambda item: sign * item[1].mean))

    def gaps(self, measure: str) -> dict[str, list[float]]:
        """Gain of each other variant over the reference, by seed."""
        if self.missing:
            return {}
        found = self.finals(measure)
        sign = 1 if self.bench.measures[measure].higher else -1
        base = found.pop(self.bench.reference)
        return {
            name: [sign * (a - b) for a, b in zip(own, base, strict=True)]
            for name, own in found.items()
        }

    def differences(self, measure: str) -> dict[str, Difference]:
        """Mean gain over the reference, paired by seed, p not corrected."""
        return {
            name: paired_difference(gaps, [0.0] * len(gaps))
            for name, gaps in self.gaps(measure).items()
        }

    def gains(self, measure: str) -> dict[str, Difference]:
        """Mean gain over the reference, paired by seed, p corrected for their number."""
        return holm(self.differences(measure))


def comparisons(bench: Bench, runs: Runs) -> list[Comparison]:
    """One for each game.

    Each variant should have as many seeds as the variant with most, and at least `NUM_SEEDS`.
    """
    found = [by_seed for of in runs.values() for by_seed in of.values()]
    num = max([NUM_SEEDS, *(seed + 1 for by_seed in found for seed in by_seed)])
    return [Comparison(bench, name, runs.get(name, {}), num) for name in bench.settings]


def best_and_worst(gains: Mapping[str, Difference]) -> tuple[Sequence[str], ...]:
    """The variants that are significantly better, and those that are worse."""
    significant = {n: g.value for n, g in gains.items() if g.is_significant}
    return (
        [name for name, value in significant.items() if value > 0],
        [name for name, value in significant.items() if value < 0],
    )
