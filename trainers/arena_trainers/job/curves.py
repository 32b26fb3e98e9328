"""The curves of a training run: `RUN/curves.png`."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import fill
from typing import Any

Records = Sequence[Mapping[str, Any]]

FEW = 30  # points
LEAST_KL = 0.1  # nats; the axis of the KL goes up to this at least


@dataclass(frozen=True)
class Frame:
    """Title, ranges and reference lines of the curves.

    Attributes:
        title: of the picture.
        first_game: name of the first game, whose NashConv is measured in training.
        return_range: least and largest return of the games.
        uniform: NashConv of uniform random play in the first game, if it was measured.
        values: return of each seat at an equilibrium, by name of the curve.
        moves: optimizer steps after which the reference model was synchronised.
        panels: names of the metrics of further panels, by title.
    """

    title: str
    first_game: str
    return_range: tuple[float, float]
    uniform: float | None = None
    values: Mapping[str, float] = field(default_factory=dict)
    moves: Sequence[int] = ()
    panels: Mapping[str, Sequence[str]] = field(default_factory=dict)


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The records of a metrics file, without an incomplete last line of a killed run.

    Raises:
        ValueError: another line is no record; names the line.
    """
    records: list[dict[str, Any]] = []
    for number, line in enumerate(path.read_bytes().splitlines(keepends=True), 1):
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        if isinstance(record, dict) and isinstance(record.get("step"), int):
            records.append(record)
        elif line.endswith(b"\n"):
            raise ValueError(
                f"{path}, line {number}: want a JSON object with its step, got "
                f"{line[:60]!r}; remove the line"
            )
    return records


def draw_curves(metrics: Records, path: Path, frame: Frame) -> None:
    """Writes the picture of `curves` as PNG."""
    curves(metrics, frame).savefig(path, format="png", dpi=120)


def curves(metrics: Records, frame: Frame) -> Any:
    """A figure of returns per seat, legal rate, NashConv and KL against steps.

    The axes are fixed: returns have the range of the games, rates go from 0 to 1, NashConv
    and KL start at 0. Panels without data are left out.

    Args:
        metrics: records of the metrics file.
        frame: title, ranges and reference lines.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    names = list(dict.fromkeys(key for record in metrics for key in record))
    returns = [
        n
        for n in names
        if n.startswith("arena/") and n.endswith("/return") and "/against/" not in n
    ]
    contents = {
        "mean return per seat (axis: the game's range)": returns,
        "legal-reply rate": ["arena/legal_rate"],
        f"exact NashConv of {frame.first_game}": ["arena/nash_conv"],
        "KL to the reference, nats per token": ["kl"],
        **frame.panels,
    }
    shown = {
        title: lines
        for title, keys in contents.items()
        if (lines := {key: x for key in keys if (x := _points(metrics, key))})
    }
    num_rows = max(-(-len(shown) // 2), 1)
    figure = Figure(figsize=(11, 4 * num_rows), layout="constrained")
    figure.suptitle(fill(frame.title, 120))
    axes = figure.subplots(num_rows, 2, squeeze=False).ravel()
    last = max([1, *(record["step"] for record in metrics)])
    for panel, (title, lines) in zip(axes, shown.items(), strict=False):
        for key, points in lines.items():
            label = key.removeprefix("arena/").removesuffix("/return")
            marker = "." if len(points) < FEW else None  # a single one has no line
            steps, values = zip(*points, strict=True)
            panel.plot(steps, values, label=label, linewidth=1.2, marker=marker)
        panel.set_title(fill(title, 70), fontsize=10)
        panel.set(xlabel="optimizer step", xlim=(0, last))
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        _furnish(panel, lines, frame)
    for panel in axes[len(shown) :]:
        panel.remove()
    return figure


def _points(metrics: Records, key: str) -> list[tuple[int, float]]:
    return [(r["step"], r[key]) for r in metrics if r.get(key) is not None]


def _furnish(panel: Any, lines: Mapping[str, Any], frame: Frame) -> None:
    """Limits, reference lines, marks where the reference moved, and the legend."""
    key = next(iter(lines))
    largest = max(value for points in lines.values() for _, value in points)
    if key == "arena/legal_rate":
        panel.set_ylim(0, 1.02)
    elif key == "arena/nash_conv":
        panel.set_ylim(0, 1.08 * max(largest, frame.uniform or 0.0) or 1.0)
        if frame.uniform is not None:
            _line(panel, frame.uniform, "uniform random play", ":")
        _line(panel, 0.0, "equilibrium", "--")
    elif key == "kl":
        panel.set_ylim(0, 1.08 * max(largest, LEAST_KL))
    elif not key.startswith("arena/"):
        panel.set_ylim(0, 1.08 * largest or 1.0)
    else:
        low, high = frame.return_range
        margin = 0.03 * (high - low)
        panel.set_ylim(low - margin, high + margin)
        for line in panel.get_lines():
            value = frame.values.get(str(line.get_label()))
            if value is not None:
                label = f"{line.get_label()} at equilibrium"
                panel.axhline(value, color=line.get_color(), ls="--", lw=1, label=label)
    for number, step in enumerate(frame.moves):
        label = "_" if number else "reference moves to the policy"  # "_": hidden
        panel.axvline(step, color="grey", ls="-.", lw=0.8, label=label)
    for text in panel.legend(fontsize=8).get_texts():
        # wide texts leave no room for the axes
        text.set_text(fill(text.get_text(), 60))


def _line(panel: Any, height: float, label: str, style: str) -> None:
    panel.axhline(height, linestyle=style, color="grey", label=label, clip_on=False)
