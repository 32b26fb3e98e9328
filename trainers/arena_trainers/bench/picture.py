"""The learning curves of the comparison."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from arena_trainers.bench.comparison import Comparison
from arena_trainers.bench.graph import Floats
from arena_trainers.bench.statistics import interval
from arena_trainers.extras import import_extra

SHOWN = (
    "mars",
    "mars (game, seat, turn)",
    "mars (group, seat)",
    "mars (group, seat, turn)",
    "dr_grpo",
    "episode",
    "gae",
)  # in colour


def draw(compared: Sequence[Comparison], path: Path) -> None:
    """Curves of all settings: some variants in colour with intervals, the others grey."""
    drawn = [one for one in compared if one.finals]
    height = max(-(-len(drawn) // 2), 1)
    figure = import_extra("matplotlib.figure", "eval").Figure(
        figsize=(11, 3.6 * height), layout="constrained"
    )
    panels = figure.subplots(height, 2, squeeze=False).ravel()
    for panel, one in zip(panels, drawn, strict=False):
        for name in one.finals:
            curves = [run.curve for run in one.runs[name].values()]
            _draw_curves(panel, name, curves, one.setting.num_episodes)
        panel.set_title(one.title)
        panel.set_ylabel("score" if one.higher else "exact NashConv")
        panel.set_xlabel("episodes")
        if panel.get_legend_handles_labels()[0]:
            panel.legend(fontsize="small")
    for panel in panels[len(drawn) :]:
        panel.axis("off")
    figure.savefig(path, dpi=110, metadata={"Software": None})


def _draw_curves(
    panel: Any, name: str, curves: Sequence[Sequence[float]], num_episodes: int
) -> None:
    x = np.arange(1, len(curves[0]) + 1) * num_episodes / len(curves[0])
    if name not in SHOWN:
        mean = [interval(values).mean for values in zip(*curves, strict=True)]
        panel.plot(x, mean, color="0.8", linewidth=0.8, zorder=1)
        return
    draw_band(panel, x, curves, name, f"C{SHOWN.index(name)}")


def draw_band(
    panel: Any,
    x: Sequence[float] | Floats,
    curves: Sequence[Sequence[float]],
    label: str,
    color: str,
) -> None:
    """The mean of curves with its 95 % interval.

    Args:
        panel: matplotlib's axes.
        x: of the points.
        curves: one for each seed.
        label: in the legend.
        color: of line and band.
    """
    points = [interval(values) for values in zip(*curves, strict=True)]
    panel.plot(x, [point.mean for point in points], label=label, color=color, zorder=3)
    low, high = [p.low for p in points], [p.high for p in points]
    panel.fill_between(x, low, high, color=color, alpha=0.2, zorder=2)
