"""The comparison of methods as a page and a picture, made from the results file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from arena_trainers.bench.gain_page import (
    PAGE,
    PICTURE,
    draw,
    how_to_read,
    missing_text,
    power,
    summary,
    tables,
)
from arena_trainers.bench.gains import Comparison, comparisons
from arena_trainers.bench.methods import BENCH, METHODS, NUM_DEALS, SETTINGS, Method
from arena_trainers.bench.run_file import Runs
from arena_trainers.bench.tables import table

HEAD = f"""\
# Which method learns most from equally many episodes

Written by `{BENCH.command}` from [bench.json](bench.json).
[Training](../training.md#rounds-play-select-train-evaluate) describes rounds,
[data](../data.md#rows-to-train-on) the selectors.

"""

METHOD = """\
## What was run

The tiny model of `arena train` plays itself and learns by one of five methods:

| Variant | Learns from | Knows besides its own play |
|---|---|---|
| `wins` | imitation of the turns of good episodes (SFT; SiriuS) | |
| `eto` | DPO on the best and each worse episode of one deal: the first replies of a seat that differ | that several episodes have the same deal |
| `agent_q` | DPO on every two replies of a turn tree whose values differ | the simulator: trees start again from a state within an episode |
| `grpo` | `turn_grpo` in self-play, with the credit that `arena credit suggest` recommends | that the episodes of a group have the same deal |
| `kickstart` | imitation of a teacher in the states that the model visits, then as `grpo` | **a teacher's reply in every turn of its first rounds** |

- **Start**: runs of a seed have the same start: the supervised start of the recipe on random legal
  play. No method sees expert games first. The published ETO does.
- **Episodes**: every method plays as many. Each episode counts as one, however many seats learn from it.
  A candidate of a turn tree counts as one, although its turns before the branch are not played
  again. A tree is played only if it fits. So `agent_q` plays at most one tree fewer than the others.
- **Teacher**: it plays no episode. It replies in the states of the model's own episodes, which count.
  In Kuhn poker it is an equilibrium (`cfr`), in Mini Hanabi a script (`hanabi_convention`). So `kickstart`
  answers another question than the rest: what a teacher is worth.
- **Rounds**: the methods on rows play, select and train in rounds. A round trains the model of the
  round before with a new optimizer. For DPO, this model is also the reference. `grpo` learns
  after every 128 episodes in Kuhn poker, and after every 64 in Mini Hanabi.
- **Options**: those of `grpo` are the recipe's, which was tuned earlier, with the recommended credit. Those of
  the other methods come from at most three short trials each with seed 0. So the methods were not
  tuned equally, and seed 0 is part of the results. Optimizer steps and computing time differ.

"""

MEASURED = f"""\
## What is measured

- **NashConv** is exact, by enumeration of Kuhn poker: 0 at an equilibrium, lower is better. It is
  of the policy among its legal replies.
- **Score** is the mean of {NUM_DEALS} episodes of self-play in Mini Hanabi. The seeds are the same in all
  runs. At most 4, higher is better. It is not exact: the game has more than three million
  states. With a standard deviation of 1 between episodes, its standard error is {1 / NUM_DEALS**0.5:.2f}.
- Figures of a run are means over the last quarter of its points, in Mini Hanabi the last point.

"""


def write(directory: Path, runs: Runs) -> list[Path]:
    """Writes the page and the picture; returns their paths."""
    page, picture = directory / PAGE, directory / PICTURE
    draw(comparisons(BENCH, runs), picture)
    page.write_text(text(runs))
    return [page, picture]


def text(runs: Runs) -> str:
    """The page, in Markdown."""
    compared = comparisons(BENCH, runs)
    shown = [one for one in compared if one.runs]
    parts = [HEAD + missing_text(compared), *summary(shown), *_levels(shown)]
    parts += [METHOD + _amounts(), *map(_options, SETTINGS)]
    read = how_to_read(BENCH, "the start")
    parts.append(MEASURED + read + power(BENCH, compared[0].num_seeds))
    if shown:
        parts.append(f"![Learning curves]({PICTURE})\n")
    parts += [tables(one) for one in shown]
    return "\n".join(parts)


def _levels(shown: Sequence[Comparison]) -> list[str]:
    """What the starts and the methods reach, and `kickstart` while it has its teacher."""
    lines = []
    for one in shown:
        for measure in one.setting.measures:
            curves = one.curves(measure)
            starts = np.mean([run[0] for runs in curves.values() for run in runs])
            ends = ", ".join(
                f"`{name}` {mean.mean:z.2f}"
                for name, mean in one.means(measure).items()
            )
            line = (
                f"- {one.setting.title}, {one.title(measure)}: {starts:.2f} at the start; at "
                f"the end, best first: {ends}."
            )
            if "kickstart" in curves:
                taught = METHODS[one.name]["kickstart"].num_rounds
                level = np.mean([run[taught] for run in curves["kickstart"]])
                line += f" When its teacher leaves, `kickstart` has {level:.2f}."
            lines.append(line)
    return ["## What each reaches\n", "\n".join([*lines, ""])] if lines else []


def _amounts() -> str:
    head = ["Game", "Recipe", "Episodes of a run", "Points", "Episodes between points"]
    rows = [
        [
            s.title,
            f"`{s.recipe}`",
            f"{s.num_rounds * s.every:,}",
            str(s.num_rounds + 1),
            f"{s.every:,}",
        ]
        for s in SETTINGS.values()
    ]
    return table(head, rows)


def _options(setting: str) -> str:
    head = ["Variant", "Rounds on rows", "Play", "Select", "Train", "`turn_grpo`"]
    rows = [
        [
            f"`{name}`",
            f"{method.num_rounds} of {SETTINGS[setting].num_rounds}",
            _played(method),
            _said(method.select),
            _said(method.train),
            _said(method.grpo),
        ]
        for name, method in METHODS[setting].items()
    ]
    return f"Options in {SETTINGS[setting].title}:\n\n" + table(head, rows)


def _played(method: Method) -> str:
    shown: dict[str, Any] = {}
    if method.samples > 1:
        shown["samples"] = method.samples
    if method.branch is not None:
        shown["branch"] = dict(method.branch)
    return _said(shown)


def _said(options: Mapping[str, Any]) -> str:
    return ", ".join(f"`{name}: {_flow(value)}`" for name, value in options.items())


def _flow(value: Any) -> str:
    """A value as in a recipe.

    >>> _flow({"num_candidates": 4, "turns": [0, 1]})
    '{num_candidates: 4, turns: [0, 1]}'
    """
    if isinstance(value, Mapping):
        parts = [f"{name}: {_flow(part)}" for name, part in value.items()]
        return f"{{{', '.join(parts)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_flow, value))}]"
    return str(value)
