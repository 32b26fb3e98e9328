"""The runs of one game compared: what is missing, and what differs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from arena_trainers.bench.learning import REFERENCE, Run
from arena_trainers.bench.models import COMPARED, MODELS
from arena_trainers.bench.models import NUM_SEEDS as NUM_MODEL_SEEDS
from arena_trainers.bench.run_file import missing_seeds
from arena_trainers.bench.runs import NUM_SEEDS, Found
from arena_trainers.bench.settings import SETTINGS, Setting
from arena_trainers.bench.statistics import (
    Difference,
    Mean,
    difference,
    final,
    holm,
    interval,
)
from arena_trainers.bench.variants import runnable


@dataclass(frozen=True)
class Choice:
    """Two variants that differ in one choice.

    Args:
        title: the choice.
        before, after: names of variants.
    """

    title: str
    before: str
    after: str


CHOICES = (
    Choice("pool (game, seat) → (game, seat, turn)", "mars", "mars (game, seat, turn)"),
    Choice(
        "pool (group, seat) → (group, seat, turn)",
        "mars (group, seat)",
        "mars (group, seat, turn)",
    ),
    Choice("pool (game, seat) → (group, seat)", "mars", "mars (group, seat)"),
    Choice("turn → episode level, pool (game, seat)", "mars", "dr_grpo (game, seat)"),
    Choice("turn → episode level, pool (group, seat)", "mars (group, seat)", "dr_grpo"),
    Choice("no scale → std, pool (game, seat)", "mars", "mars scale=std"),
    Choice("no scale → std, pool (group, seat)", "dr_grpo", "episode"),
    Choice("mean → leave-one-out mean, pool (game, seat)", "mars", "mars_loo"),
    Choice("mean of the pool (game, seat) → critic", "mars", "gae"),
)


@dataclass(frozen=True)
class Comparison:
    """All variants of a setting.

    A difference is a gain: positive where the first variant is better. While a run is
    missing, there are no differences.

    Args:
        name: key of `SETTINGS` or `MODELS`.
        runs: by variant and seed.
        num_seeds: number of seeds that each variant should have.
    """

    name: str
    runs: Mapping[str, Mapping[int, Run]]
    num_seeds: int

    @property
    def setting(self) -> Setting:
        """The game and its training; not for language models."""
        return SETTINGS[self.name]

    @property
    def title(self) -> str:
        """The title of the game."""
        return (SETTINGS.get(self.name) or MODELS[self.name]).title

    @property
    def higher(self) -> bool:
        """Whether more is better."""
        return (SETTINGS.get(self.name) or MODELS[self.name]).higher

    @property
    def names(self) -> Sequence[str]:
        """The variants that are compared."""
        return runnable(self.name) if self.name in SETTINGS else COMPARED

    @cached_property
    def missing(self) -> dict[str, list[int]]:
        """The missing seeds of each variant that lacks any."""
        return missing_seeds(self.names, self.runs, self.num_seeds)

    @cached_property
    def finals(self) -> dict[str, list[float]]:
        """The mean of the last quarter of each run, by variant."""
        return {
            name: [final(run.curve) for run in self.runs[name].values()]
            for name in self.names
            if self.runs.get(name)
        }

    @cached_property
    def means(self) -> dict[str, Mean]:
        """Means over seeds, the best first."""
        found = {name: interval(values) for name, values in self.finals.items()}
        sign = -1 if self.higher else 1
        return dict(sorted(found.items(), key=lambda item: sign * item[1].mean))

    @cached_property
    def gains(self) -> dict[str, Difference]:
        """Gain of each other variant over the reference, p corrected for their number."""
        return self.gains_over(REFERENCE)

    @cached_property
    def choices(self) -> dict[str, Difference]:
        """Gain by each of `CHOICES`, p corrected for their number."""
        return self._compared({c.title: (c.after, c.before) for c in CHOICES})

    @cached_property
    def unchanged(self) -> list[str]:
        """The titles of the choices that change no run: all curves are equal."""
        if self.missing:
            return []

        def curves(name: str) -> list[list[float]]:
            return [run.curve for _, run in sorted(self.runs[name].items())]

        return [c.title for c in CHOICES if curves(c.before) == curves(c.after)]

    def gains_over(self, reference: str) -> dict[str, Difference]:
        """Gain of each other variant over this one, p corrected for their number."""
        others = [name for name in self.means if name != reference]
        return self._compared({name: (name, reference) for name in others})

    def gradient(self, name: str) -> tuple[float | None, float | None, float | None]:
        """Variance (geometric mean over seeds), cosine and direction (means) of a variant.

        The variance is None if it is None in any run.
        """
        runs = list(self.runs.get(name, {}).values())
        logs = _mean([r.variance and float(np.log(r.variance)) for r in runs])
        return (
            None if logs is None else float(np.exp(logs)),
            _mean([r.cosine for r in runs]),
            _mean([r.direction for r in runs]),
        )

    def _compared(self, pairs: Mapping[str, tuple[str, str]]) -> dict[str, Difference]:
        if self.missing:
            return {}
        sign = 1 if self.higher else -1
        found = {}
        for title, (one, other) in pairs.items():
            gain = difference(self.finals[one], self.finals[other])
            found[title] = gain._replace(value=sign * gain.value)
        return holm(found)


def comparisons(runs: Found) -> list[Comparison]:
    """One for each game of tabular policies.

    Each variant should have as many seeds as the variant with most, and at least `NUM_SEEDS`.
    """
    tabular = [found for name, found in runs.items() if name in SETTINGS]
    seeds = [
        seed for found in tabular for by_seed in found.values() for seed in by_seed
    ]
    num = max([NUM_SEEDS, *(seed + 1 for seed in seeds)])
    return [Comparison(name, runs.get(name, {}), num) for name in SETTINGS]


def model_comparisons(runs: Found) -> list[Comparison]:
    """One for each game that was run with a language model."""
    return [
        Comparison(name, runs[name], NUM_MODEL_SEEDS) for name in MODELS if name in runs
    ]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known and len(known) == len(values) else None
