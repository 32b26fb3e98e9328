"""The comparison of opponents as a page and a picture, made from the results file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
from arena_trainers.bench.gains import comparisons
from arena_trainers.bench.opponents import BENCH, SETTINGS
from arena_trainers.bench.run_file import Runs
from arena_trainers.bench.tables import table

HEAD = f"""\
# Which opponents teach best

Written by `{BENCH.command}` from [bench.json](bench.json).
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

MEASURED = """\
## What is measured

All figures are exact, by enumeration of the game. They are of the policy among its legal replies:
the probability of illegal replies is left out.

- **NashConv**: 0 at an equilibrium, lower is better. It is left out in tic-tac-toe, where a policy
  with one losing line in each seat is close to 2, the maximum. Two trial runs had 1.999.
- **Return** against a fixed policy: mean over both seats, higher is better. `minimax` draws among
  its best actions, more often those that punish errors. So no single line can be memorised. `cfr` is
  an equilibrium. Against both no policy has more than 0.
- Figures of a run are means over the last quarter of its points.

"""

TRAINED_ON = """\
- The variants `optimal` and `random` are trained on the opponent that one table measures.
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
    parts = [HEAD + missing_text(compared), *summary(shown), METHOD + _settings()]
    read = how_to_read(BENCH, "the start and the deals") + TRAINED_ON
    parts.append(MEASURED + read + power(BENCH, compared[0].num_seeds))
    if shown:
        parts.append(f"![Learning curves]({PICTURE})\n")
    parts += [tables(one) for one in shown]
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
