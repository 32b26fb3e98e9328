"""Parts that comparisons with the tiny model share: measured runs, gains over a reference, pages."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import PrinterCallback, TrainerCallback
from transformers.utils.logging import disable_progress_bar

import comparing
from arena_envs.extras import import_extra
from arena_trainers.cli.suggest import ALPHA, MeanDifference, p_value
from arena_trainers.lm import LMPolicy
from arena_trainers.lm.models import model_folder
from arena_trainers.runs.settings import JobConfig, build_configs
from arena_trainers.runs.start import load_tokenizer, make_start
from arena_trainers.terminal import Console
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.prepared import PreparedGames, prepare_games
from arena_trainers.train.trainer import TurnGRPOTrainer
from comparing import (
    Mean,
    Runs,
    draw_band,
    final,
    gain,
    holm,
    interval,
    paired_difference,
    smallest_effect,
    table,
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
    """A comparison of variants.

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
        return comparing.missing_seeds(self.bench.variants, self.runs, self.num_seeds)

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
        mean_by_variant = {
            name: interval(runs) for name, runs in self.finals(measure).items()
        }
        sign = -1 if self.bench.measures[measure].higher else 1
        return dict(
            sorted(mean_by_variant.items(), key=lambda item: sign * item[1].mean)
        )

    def gaps(self, measure: str) -> dict[str, list[float]]:
        """Gain of each other variant over the reference, by seed."""
        if self.missing:
            return {}
        finals = self.finals(measure)
        sign = 1 if self.bench.measures[measure].higher else -1
        base = finals.pop(self.bench.reference)
        return {
            name: [sign * (a - b) for a, b in zip(variant_finals, base, strict=True)]
            for name, variant_finals in finals.items()
        }

    def differences(self, measure: str) -> dict[str, MeanDifference]:
        """Mean gain over the reference, paired by seed, p not corrected."""
        return {
            name: paired_difference(gaps, [0.0] * len(gaps))
            for name, gaps in self.gaps(measure).items()
        }

    def gains(self, measure: str) -> dict[str, MeanDifference]:
        """Mean gain over the reference, paired by seed, p corrected for their number."""
        return holm(self.differences(measure))


def comparisons(bench: Bench, runs: Runs) -> list[Comparison]:
    """One for each game.

    Each variant should have as many seeds as the variant with most, and at least `NUM_SEEDS`.
    """
    runs_by_seed = [by_seed for of in runs.values() for by_seed in of.values()]
    num = max([NUM_SEEDS, *(seed + 1 for by_seed in runs_by_seed for seed in by_seed)])
    return [Comparison(bench, name, runs.get(name, {}), num) for name in bench.settings]


def best_and_worst(gains: Mapping[str, MeanDifference]) -> tuple[Sequence[str], ...]:
    """The variants that are significantly better, and those that are worse."""
    significant = {n: g.value for n, g in gains.items() if g.is_significant}
    return (
        [name for name, value in significant.items() if value > 0],
        [name for name, value in significant.items() if value < 0],
    )


PAGE, PICTURE = "README.md", "learning.png"


def how_to_read(bench: Bench, shared: str) -> str:
    """Notes on reading gains and p-values.

    Args:
        bench: what is compared.
        shared: what runs of a seed share.
    """
    reference, num = bench.reference, bench.num_compared
    return f"""\
## How to read it

- A gain is positive where the variant is better than `{reference}`. Gains are paired by seed: runs of
  a seed share {shared}. ± is the 95 % interval of the mean gain, without correction.
- *p* is from a paired t-test with Holm's correction for the {num} comparisons of a table.
  A bold gain is significant: p < {ALPHA}. "Not significant" does not mean equal.
- The last line of *What is significant* corrects for the comparisons of all tables together.
"""


def power(bench: Bench, num_seeds: int) -> str:
    """The least difference that is significant."""
    effect = smallest_effect(num_seeds, bench.num_compared)
    return (
        f"- **{num_seeds} seeds show only large differences.** The smallest p of a table is "
        "significant if the mean\n  gain is at least "
        f"{effect:.1f} times the standard deviation of the gain between seeds. With 10 seeds\n"
        f"  it is {smallest_effect(10, bench.num_compared):.1f} times; `{bench.command} "
        "--seeds 10` adds the missing ones.\n"
    )


def missing_text(compared: Sequence[Comparison]) -> str:
    """The missing runs, or that none is missing."""
    lines = [
        comparing.missing_line(
            comparison.setting.title, comparison.missing, len(comparison.runs)
        )
        for comparison in compared
        if comparison.missing
    ]
    if not lines:
        return (
            f"All runs are complete: {compared[0].num_seeds} seeds of each variant.\n"
        )
    head = "**Runs are missing. Games with missing runs have no gains.**"
    command = compared[0].bench.command
    return "\n".join([f"{head} To do them, run `{command}`.\n", *lines, ""])


def summary(compared: Sequence[Comparison]) -> list[str]:
    """The significant gains in each game, and over all."""
    lines = [
        f"- {comparison.setting.title}, {comparison.title(measure)}: {_verdict(comparison, measure)}"
        for comparison in compared
        for measure in comparison.setting.measures
        if not comparison.missing
    ]
    if not lines:
        return []
    return ["## What is significant\n", "\n".join([*lines, _together(compared), ""])]


def _together(compared: Sequence[Comparison]) -> str:
    """The gains that stay significant after correction for the comparisons of all tables."""
    differences = {
        f"`{name}` ({comparison.setting.title}, {comparison.title(measure)})": difference
        for comparison in compared
        for measure in comparison.setting.measures
        for name, difference in comparison.differences(measure).items()
    }
    better, worse = best_and_worst(holm(differences))
    return (
        f"- After correction for all {len(differences)} comparisons together: significantly better "
        f"than `{compared[0].bench.reference}`: {', '.join(better) or 'none'}; significantly "
        f"worse: {', '.join(worse) or 'none'}."
    )


def _verdict(compared: Comparison, measure: str) -> str:
    gains = compared.gains(measure)
    better, worse = best_and_worst(gains)
    num_others = len(gains) - len(better) - len(worse)
    return (
        f"significantly better than `{compared.bench.reference}`: {_names(better)}; "
        f"significantly worse: {_names(worse)}; no significant difference: {num_others} of "
        f"{len(gains)}."
    )


def _names(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"


def tables(compared: Comparison) -> str:
    """The tables of a game, one for each measure."""
    title = compared.setting.title
    parts = [f"## {title}"]
    for measure in compared.setting.measures:
        parts += [f"### {title}: {compared.title(measure)}", _table(compared, measure)]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def _table(compared: Comparison, measure: str) -> str:
    """All variants, the best first."""
    reference = compared.bench.reference
    head = ["Variant", compared.title(measure), "95 %", "seeds"]
    head += [f"Gain over `{reference}`", "by seed", "p"]
    gains, gaps = compared.gains(measure), compared.gaps(measure)
    rows = []
    for name, mean in compared.means(measure).items():
        difference = gains.get(name)
        rows.append(
            [
                f"`{name}`",
                f"{mean.mean:z.3f}",
                f"{mean.low:z.3f} to {mean.high:z.3f}" if mean.num > 1 else "-",
                str(mean.num),
                "" if name == reference else gain(difference),
                ", ".join(f"{gap:+z.3f}" for gap in gaps.get(name, [])),
                "" if difference is None else p_value(difference.p),
            ]
        )
    return table(head, rows)


def draw(compared: Sequence[Comparison], path: Path) -> None:
    """Curves of all measures with 95 % intervals over seeds: a row for each game."""
    width = max(len(comparison.setting.measures) for comparison in compared)
    figure = import_extra("matplotlib.figure", "eval").Figure(
        figsize=(4.2 * width, 3.6 * len(compared)), layout="constrained"
    )
    panels = figure.subplots(len(compared), width, squeeze=False)
    for row, comparison in zip(panels, compared, strict=True):
        for panel in row[len(comparison.setting.measures) :]:
            panel.axis("off")
        for panel, measure in zip(row, comparison.setting.measures, strict=False):
            for name, curves in comparison.curves(measure).items():
                x = [comparison.setting.every * i for i in range(len(curves[0]))]
                color = f"C{comparison.bench.variants.index(name)}"
                draw_band(panel, x, curves, name, color)
            measured = comparison.title(measure).replace("`", "")
            panel.set_title(f"{comparison.setting.title}\n{measured}")
            panel.set_xlabel(comparison.bench.axis)
        if comparison.runs:
            row[0].legend(fontsize="small")
    figure.savefig(path, dpi=110, metadata={"Software": None})


SCORED_AT_ONCE = 64  # rows; larger passes of a tiny model take longer

Point = dict[str, float]  # by measure
Measured = Callable[[LMPolicy], Point]


class Start(NamedTuple):
    """The model before training, the same for all variants.

    Attributes:
        folder: of the model; it is deleted when the process ends.
        tokenizer: of the model.
        point: its measures.
        kept: keeps the folder.
    """

    folder: Path
    tokenizer: Any
    point: Point
    kept: Any


def make_saved_start(options: Mapping[str, Any], measured: Measured) -> Start:
    """Makes the model that a run starts from, and measures it.

    Args:
        options: of `arena train`.
        measured: the measures of a policy.
    """
    be_quiet()
    temporary = tempfile.TemporaryDirectory()
    folder = Path(temporary.name) / "start"
    job, args, games = _prepared(options, temporary.name)
    base_folder = None if job.model == "tiny" else model_folder(job.model)
    tokenizer = load_tokenizer(job, base_folder, games.plans, args.prompt)
    quiet = Console(quiet=True)
    model = make_start(job, args, base_folder, tokenizer, games.plans, quiet)
    policy = _policy(model, tokenizer, args)
    policy.save_pretrained(folder)
    return Start(folder, tokenizer, measured(policy), temporary)


def learn_by_grpo(
    options: Mapping[str, Any],
    model: Path,
    tokenizer: Any,
    every: int,
    measured: Measured,
) -> list[Point]:
    """Trains by `TurnGRPOTrainer`; the measures every so many steps.

    Args:
        options: of `arena train`.
        model: folder of the model that training starts from.
        tokenizer: of the model.
        every: optimizer steps between measurements.
        measured: the measures of a policy.
    """
    be_quiet()
    points: list[Point] = []
    with tempfile.TemporaryDirectory() as folder:
        _, args, games = _prepared(options, folder)
        trainer = TurnGRPOTrainer(
            str(model), args, processing_class=tokenizer, games=games
        )
        trainer.remove_callback(PrinterCallback)

        def measure() -> None:
            points.append(measured(_policy(trainer.model, tokenizer, args)))

        trainer.add_callback(_Every(every, measure))
        trainer.train()
    return points


def be_quiet() -> None:
    """Hides progress bars, and runs one thread."""
    disable_progress_bar()  # of transformers
    torch.set_num_threads(1)  # more make a model this small many times slower


def _prepared(
    options: Mapping[str, Any], folder: str
) -> tuple[JobConfig, TurnGRPOConfig, PreparedGames]:
    job, args = build_configs(dict(options), folder)
    return job, args, prepare_games(args)


def _policy(model: Any, tokenizer: Any, args: TurnGRPOConfig) -> LMPolicy:
    sampling = {**args.sampling_options, "batch_size": SCORED_AT_ONCE}
    return LMPolicy(model, tokenizer, prompt=args.prompt, **sampling)


class _Every(TrainerCallback):
    """Calls a function every so many optimizer steps."""

    def __init__(self, num_steps: int, call: Callable[[], None]) -> None:
        self._num_steps, self._call = num_steps, call

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step % self._num_steps == 0:
            self._call()
