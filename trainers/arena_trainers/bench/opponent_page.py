"""The comparison of opponents as a page and a picture, made from the results file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from arena_trainers.bench.opponent_comparison import (
    Comparison,
    best_and_worst,
    comparisons,
    title,
)
from arena_trainers.bench.opponents import REFERENCE, SETTINGS, VARIANTS
from arena_trainers.bench.picture import draw_band
from arena_trainers.bench.run_file import Runs, missing_line
from arena_trainers.bench.statistics import ALPHA, holm, smallest_effect
from arena_trainers.bench.tables import gain, p_value, table
from arena_trainers.extras import import_extra

PAGE, PICTURE = "README.md", "learning.png"
COMMAND = "arena bench opponents"
NUM_COMPARED = len(VARIANTS) - 1

HEAD = f"""\
# Which opponents teach best

Written by `{COMMAND}` from [bench.json](bench.json).
[Training](../training.md#opponents) describes the matchmakers.

"""

METHOD = """\
## What was run

The tiny model of `arena train` learns from the same start by six choices of `--opponents`:

| Variant | Opponents |
|---|---|
| `self-play` | itself, every seat learns; the default of `arena train` |
| `mixture` | itself in 80 % of the starts, a past self in 20 % |
| `past_selves` | one of its snapshots, each equally often |
| `psro` | its snapshots, by an equilibrium of the matches between them |
| `optimal` | a fixed optimal policy |
| `random` | uniform random play |

- Every variant gets the same number of episodes and of optimizer steps. In self-play every seat
  learns, against any other opponent one seat does. So self-play has about twice as many turns to
  learn from, and takes longer.
- `psro` plays further episodes between snapshots. The model does not learn from them.
- A snapshot is taken every 10 steps. Each batch plays one snapshot (`max_live: 1`).
- All else is as in the recipe. No option was tuned for a variant.

"""

MEASURED = f"""\
## What is measured

All figures are exact, by enumeration of the game. They are of the policy among its legal replies:
the probability of illegal replies is left out.

- **NashConv**: 0 at an equilibrium, lower is better. It is left out in tic-tac-toe, where a policy
  with one losing line in each seat is close to 2, the maximum. Two trial runs had 1.999.
- **Return** against a fixed policy: mean over both seats, higher is better. `minimax` draws among
  its best actions, more often those that punish errors. So no single line can be memorised. `cfr` is
  an equilibrium. Against both no policy has more than 0.
- Figures of a run are means over the last quarter of its points.

## How to read it

- A gain is positive where the variant is better than `{REFERENCE}`. Gains are paired by seed: runs of
  a seed share the start and the deals. ± is the 95 % interval of the mean gain, without correction.
- *p* is from a paired t-test with Holm's correction for the {NUM_COMPARED} comparisons of a table.
  A bold gain is significant: p < {ALPHA}. "Not significant" does not mean equal.
- The last line of *What is significant* corrects for the comparisons of all tables together.
- The variants `optimal` and `random` are trained on the opponent that one table measures.
"""


def write(directory: Path, runs: Runs) -> list[Path]:
    """Writes the page and the picture; returns their paths."""
    page, picture = directory / PAGE, directory / PICTURE
    draw(comparisons(runs), picture)
    page.write_text(text(runs))
    return [page, picture]


def text(runs: Runs) -> str:
    """The page, in Markdown."""
    compared = comparisons(runs)
    shown = [one for one in compared if one.runs]
    parts = [HEAD + _missing(compared), *_summary(shown), METHOD + _settings()]
    parts.append(MEASURED + _power(compared[0].num_seeds))
    if shown:
        parts.append(f"![Learning curves]({PICTURE})\n")
    parts += [_tables(one) for one in shown]
    return "\n".join(parts)


def _settings() -> str:
    head = ["Game", "Recipe", "Steps", "Other options", "Optimal opponent"]
    rows = [
        [s.title, f"`{s.recipe}`", str(s.num_steps), _said(s.options), f"`{s.optimal}`"]
        for s in SETTINGS.values()
    ]
    return table(head, rows)


def _said(options: Mapping[str, Any]) -> str:
    return ", ".join(f"`{name}: {value}`" for name, value in options.items())


def _power(num_seeds: int) -> str:
    effect = smallest_effect(num_seeds, NUM_COMPARED)
    return (
        f"- **{num_seeds} seeds show only large differences.** The smallest p of a table is "
        "significant if the mean\n  gain is at least "
        f"{effect:.1f} times the standard deviation of the gain between seeds. With 10 seeds\n"
        f"  it is {smallest_effect(10, NUM_COMPARED):.1f} times; `{COMMAND} --seeds 10` adds "
        "the missing ones.\n"
    )


def _missing(compared: Sequence[Comparison]) -> str:
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
    return "\n".join([f"{head} To do them, run `{COMMAND}`.\n", *lines, ""])


def _summary(shown: Sequence[Comparison]) -> list[str]:
    lines = [
        f"- {one.setting.title}, {title(measure, one.setting)}: {_verdict(one, measure)}"
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
        f"`{name}` ({one.setting.title}, {title(measure, one.setting)})": difference
        for one in shown
        for measure in one.setting.measures
        for name, difference in one.differences(measure).items()
    }
    better, worse = best_and_worst(holm(found))
    return (
        f"- After correction for all {len(found)} comparisons together: significantly better "
        f"than `{REFERENCE}`: {', '.join(better) or 'none'}; significantly worse: "
        f"{', '.join(worse) or 'none'}."
    )


def _verdict(compared: Comparison, measure: str) -> str:
    gains = compared.gains(measure)
    better, worse = best_and_worst(gains)
    rest = len(gains) - len(better) - len(worse)
    return (
        f"significantly better than `{REFERENCE}`: {_names(better)}; significantly worse: "
        f"{_names(worse)}; no significant difference: {rest} of {len(gains)}."
    )


def _names(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"


def _tables(compared: Comparison) -> str:
    parts = [f"## {compared.setting.title}"]
    for measure in compared.setting.measures:
        named = title(measure, compared.setting)
        parts += [f"### {compared.setting.title}: {named}", _table(compared, measure)]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def _table(compared: Comparison, measure: str) -> str:
    """All variants, the best first, after the start of training."""
    head = ["Variant", title(measure, compared.setting), "95 %", "seeds"]
    head += [f"Gain over `{REFERENCE}`", "by seed", "p"]
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
                "" if name == REFERENCE else gain(found),
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
                steps = [one.setting.every * i for i in range(len(curves[0]))]
                color = f"C{VARIANTS.index(name)}"
                draw_band(panel, steps, curves, name, color)
            measured = title(measure, one.setting).replace("`", "")
            panel.set_title(f"{one.setting.title}\n{measured}")
            panel.set_xlabel("optimizer step")
        if one.runs:
            row[0].legend(fontsize="small")
    figure.savefig(path, dpi=110, metadata={"Software": None})
