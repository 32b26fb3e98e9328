"""The comparison as a page and a picture, made from the results file."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from arena_trainers.bench.experiment import (
    NUM_SAMPLES,
    NUM_STARTS,
    SETTINGS,
    TINY,
    Curve,
    Runs,
)
from arena_trainers.bench.statistics import Mean, final, interval, p_values
from arena_trainers.extras import import_extra

REFERENCE = "mars"  # the trainer's default
SHOWN = ("mars", "episode", "mars_loo", "mars_released", "counterfactual")  # in colour
ALPHA = 0.05
PICTURE = "learning.png"

HEAD = f"""\
# Which estimator learns best

Written by `arena credit bench` from [bench.json](bench.json). [estimators.md](estimators.md)
describes each estimator, [report.md](report.md) has its exact bias on small games.

![Learning curves]({PICTURE})

**What was run.** All seats learn by playing against themselves. A policy is a softmax over one
row of logits for each information state.

- Every estimator gets the same number of episodes: batches of {NUM_STARTS} starts, each played
  {NUM_SAMPLES} times with the same draws of chance.
- Advantages are divided by their root mean square, so all estimators take steps of the same
  size. The step size falls linearly to 0. There is a small entropy bonus.
- The first step size was chosen once for each game, on a few runs of `episode`, `mars_loo` and
  `mars_released`. All estimators use it.
- Options are the defaults, except γ = 1.
- A critic is the running mean of the returns-to-go at each information state.
- `counterfactual` and `adca` get exact values of the policy. The judge of `adca` says whether an
  action is worth at least the policy's value. Both are left out in Mini Hanabi, whose tree is
  too large for exact values.

**What is measured.** In poker, the exact NashConv of the policy: 0 at an equilibrium, lower is
better. In Mini Hanabi, the mean score of the training episodes: higher is better. Both are means
over the last quarter of the run. In Mini Hanabi a row of logits covers several information
states: it sees own hints, fireworks, and which of the partner's cards can be played.

**How to read it.**

- Intervals are 95 %, over seeds. *p* is from Welch's t-test against `{REFERENCE}`, with Holm's
  correction for the number of estimators. "Significant" means p < {ALPHA}. "Not significant"
  does not mean equal.
- Estimators that differ by a constant factor, such as `dr_grpo` and `rloo`, give the same result,
  because advantages are rescaled.
- The rescaling hurts `counterfactual`: its advantages vanish at an equilibrium, the rescaled ones
  do not, so the policy circles around the equilibrium.
- Estimators that divide by the spread of a group do badly in poker. A group shares a deal that its
  players do not see ([report.md](report.md)).
- Tabular self-play shows variance, bias and cycles. It says nothing about tokens, clipping or
  language.
"""


def write(directory: Path, runs: Runs) -> list[Path]:
    """Writes the page and the picture; returns their paths."""
    page, picture = directory / "README.md", directory / PICTURE
    draw(runs, picture)
    page.write_text(text(runs))
    return [page, picture]


def text(runs: Runs) -> str:
    """The page, in Markdown."""
    parts = [HEAD]
    parts += [_section(name, runs[name]) for name in (*SETTINGS, TINY) if name in runs]
    return "\n".join(parts)


def _section(setting: str, runs: Mapping[str, Mapping[str, Curve]]) -> str:
    finals = {
        name: [final(curve) for curve in seeds.values()] for name, seeds in runs.items()
    }
    higher = setting in SETTINGS and SETTINGS[setting].measure == "score"
    means = {name: interval(values) for name, values in finals.items()}
    ordered = sorted(means, key=lambda name: means[name].mean, reverse=higher)
    p = p_values(finals, REFERENCE) if REFERENCE in finals else {}
    measure = "Score" if higher else "NashConv"
    lines = [
        f"## {_title(setting)}",
        "",
        _sentences(setting, means, p, higher),
        "",
        f"| Estimator | {measure} | 95 % | seeds | p | against `{REFERENCE}` |",
        "|---|---|---|---|---|---|",
        *(_row(name, means[name], p.get(name), means, higher) for name in ordered),
    ]
    return "\n".join(lines) + "\n"


def _title(setting: str) -> str:
    if setting == TINY:
        return "Kuhn poker, tiny language model"
    return SETTINGS[setting].title


def _sentences(
    setting: str, means: Mapping[str, Mean], p: Mapping[str, float], higher: bool
) -> str:
    """The setting, and the significant differences."""
    if setting == TINY:
        what = (
            "The default recipe of `arena train`, with each estimator at its default "
            "options. The recipe itself pools `mars` by group and seat."
        )
    else:
        chosen = SETTINGS[setting]
        what = (
            f"{chosen.num_episodes:,} episodes a run, first step {chosen.step:g}, "
            f"entropy bonus {chosen.bonus:g}."
        )
    verdicts: dict[str, list[str]] = {"better": [], "worse": []}
    for name, value in sorted(p.items()):
        if value < ALPHA:
            verdicts[_side(means, name, higher)].append(f"`{name}`")
    found = [
        f"Significantly {side} than `{REFERENCE}`: {', '.join(names) or 'none'}."
        for side, names in verdicts.items()
    ]
    rest = len(p) - sum(len(names) for names in verdicts.values())
    return " ".join([what, *found, f"No significant difference: {rest} of {len(p)}."])


def _side(means: Mapping[str, Mean], name: str, higher: bool) -> str:
    more = means[name].mean > means[REFERENCE].mean
    return "better" if more == higher else "worse"


def _row(
    name: str,
    mean: Mean,
    p: float | None,
    means: Mapping[str, Mean],
    higher: bool,
) -> str:
    verdict = "" if name == REFERENCE else "too few seeds"
    if p is not None:
        verdict = _side(means, name, higher) if p < ALPHA else "not significant"
    cells = [
        f"`{name}`",
        f"{mean.mean:.3f}",
        f"{mean.low:.3f} to {mean.high:.3f}" if mean.num > 1 else "-",
        str(mean.num),
        "" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}",
        verdict,
    ]
    return f"| {' | '.join(cells)} |"


def draw(runs: Runs, path: Path) -> None:
    """Curves of all settings: some estimators in colour with intervals, the others grey."""
    names = [name for name in (*SETTINGS, TINY) if name in runs]
    figure = import_extra("matplotlib.figure", "eval").Figure(
        figsize=(11, 3.6 * -(-len(names) // 2)), layout="constrained"
    )
    panels = figure.subplots(-(-len(names) // 2), 2, squeeze=False).ravel()
    for panel, name in zip(panels, names, strict=False):
        num = SETTINGS[name].num_episodes if name in SETTINGS else None
        for estimator, seeds in runs[name].items():
            if estimator not in SHOWN:
                x, mean, _, _ = _band(list(seeds.values()), num)
                panel.plot(x, mean, color="0.8", linewidth=0.8, zorder=1)
        for estimator in SHOWN:
            if estimator in runs[name]:
                curves = list(runs[name][estimator].values())
                x, mean, low, high = _band(curves, num)
                (line,) = panel.plot(x, mean, label=estimator, zorder=3)
                panel.fill_between(
                    x, low, high, color=line.get_color(), alpha=0.2, zorder=2
                )
        higher = name in SETTINGS and SETTINGS[name].measure == "score"
        panel.set_title(_title(name))
        panel.set_ylabel("mean score" if higher else "exact NashConv")
        panel.set_xlabel("episodes" if num else "evaluations, 10 steps apart")
        if panel.get_legend_handles_labels()[0]:
            panel.legend()
    for panel in panels[len(names) :]:
        panel.axis("off")
    figure.savefig(path, dpi=110, metadata={"Software": None})


def _band(
    curves: Sequence[Curve], num_episodes: int | None
) -> tuple[Sequence[float], Sequence[float], Sequence[float], Sequence[float]]:
    """Places, means and 95 % intervals of the points of curves."""
    size = min(len(curve) for curve in curves)
    points = [interval([curve[i] for curve in curves]) for i in range(size)]
    step = (num_episodes or size) / size
    x = np.arange(1, size + 1) * step
    return (
        x.tolist(),
        [point.mean for point in points],
        [point.low for point in points],
        [point.high for point in points],
    )
