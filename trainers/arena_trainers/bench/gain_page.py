"""Parts of the page of a comparison over several games, and its picture."""

from collections.abc import Sequence
from pathlib import Path

from arena_trainers.bench.gains import Bench, Comparison, best_and_worst
from arena_trainers.bench.picture import draw_band
from arena_trainers.bench.run_file import missing_line
from arena_trainers.bench.statistics import ALPHA, holm, smallest_effect
from arena_trainers.bench.tables import gain, p_value, table
from arena_trainers.extras import import_extra

PAGE, PICTURE = "README.md", "learning.png"


def how_to_read(bench: Bench, shared: str) -> str:
    """How gains and p-values are to be read.

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
    """How large a difference must be to be significant."""
    effect = smallest_effect(num_seeds, bench.num_compared)
    return (
        f"- **{num_seeds} seeds show only large differences.** The smallest p of a table is "
        "significant if the mean\n  gain is at least "
        f"{effect:.1f} times the standard deviation of the gain between seeds. With 10 seeds\n"
        f"  it is {smallest_effect(10, bench.num_compared):.1f} times; `{bench.command} "
        "--seeds 10` adds the missing ones.\n"
    )


def missing_text(compared: Sequence[Comparison]) -> str:
    """Which runs are missing, or that none is."""
    lines = [
        missing_line(one.setting.title, one.missing, len(one.runs))
        for one in compared
        if one.missing
    ]
    if not lines:
        return (
            f"All runs are complete: {compared[0].num_seeds} seeds of each variant.\n"
        )
    head = "**Runs are missing. Games with missing runs have no gains.**"
    command = compared[0].bench.command
    return "\n".join([f"{head} To do them, run `{command}`.\n", *lines, ""])


def summary(shown: Sequence[Comparison]) -> list[str]:
    """What is significant in each game, and over all."""
    lines = [
        f"- {one.setting.title}, {one.title(measure)}: {_verdict(one, measure)}"
        for one in shown
        for measure in one.setting.measures
        if not one.missing
    ]
    if not lines:
        return []
    return ["## What is significant\n", "\n".join([*lines, _together(shown), ""])]


def _together(shown: Sequence[Comparison]) -> str:
    """What is significant after correction for the comparisons of all tables."""
    found = {
        f"`{name}` ({one.setting.title}, {one.title(measure)})": difference
        for one in shown
        for measure in one.setting.measures
        for name, difference in one.differences(measure).items()
    }
    better, worse = best_and_worst(holm(found))
    return (
        f"- After correction for all {len(found)} comparisons together: significantly better "
        f"than `{shown[0].bench.reference}`: {', '.join(better) or 'none'}; significantly "
        f"worse: {', '.join(worse) or 'none'}."
    )


def _verdict(compared: Comparison, measure: str) -> str:
    gains = compared.gains(measure)
    better, worse = best_and_worst(gains)
    rest = len(gains) - len(better) - len(worse)
    return (
        f"significantly better than `{compared.bench.reference}`: {_names(better)}; "
        f"significantly worse: {_names(worse)}; no significant difference: {rest} of "
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
        found = gains.get(name)
        rows.append(
            [
                f"`{name}`",
                f"{mean.mean:z.3f}",
                f"{mean.low:z.3f} to {mean.high:z.3f}" if mean.num > 1 else "-",
                str(mean.num),
                "" if name == reference else gain(found),
                ", ".join(f"{gap:+z.3f}" for gap in gaps.get(name, [])),
                "" if found is None else p_value(found.p),
            ]
        )
    return table(head, rows)


def draw(compared: Sequence[Comparison], path: Path) -> None:
    """Curves of all measures with 95 % intervals over seeds: a row for each game."""
    width = max(len(one.setting.measures) for one in compared)
    figure = import_extra("matplotlib.figure", "eval").Figure(
        figsize=(4.2 * width, 3.6 * len(compared)), layout="constrained"
    )
    panels = figure.subplots(len(compared), width, squeeze=False)
    for row, one in zip(panels, compared, strict=True):
        for panel in row[len(one.setting.measures) :]:
            panel.axis("off")
        for panel, measure in zip(row, one.setting.measures, strict=False):
            for name, curves in one.curves(measure).items():
                x = [one.setting.every * i for i in range(len(curves[0]))]
                color = f"C{one.bench.variants.index(name)}"
                draw_band(panel, x, curves, name, color)
            measured = one.title(measure).replace("`", "")
            panel.set_title(f"{one.setting.title}\n{measured}")
            panel.set_xlabel(one.bench.axis)
        if one.runs:
            row[0].legend(fontsize="small")
    figure.savefig(path, dpi=110, metadata={"Software": None})
