"""What a training run shows at its end: a table and a picture."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

Stage = tuple[str, float | None, float | None]  # name, legal rate, NashConv


def stage_table(game: str, stages: Sequence[Stage]) -> Table:
    """The stages of a run side by side: legal-reply rate and exact NashConv."""
    table = Table(title=f"{game}: exact evaluation of the policy in self-play")
    table.add_column("policy")
    table.add_column("legal replies", justify="right")
    table.add_column("NashConv (0 = equilibrium)", justify="right")
    for name, legal, conv in stages:
        table.add_row(
            name,
            "-" if legal is None else f"{100 * legal:.1f} %",
            "not enumerable" if conv is None else f"{conv:.4f}",
        )
    return table


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The records of a metrics file."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def draw_curves(
    metrics: Sequence[Mapping[str, Any]], path: Path, uniform: float | None
) -> None:
    """Draws returns per seat, legal rate, NashConv and KL against steps.

    Args:
        metrics: records of the metrics file.
        path: of the picture.
        uniform: NashConv of uniform play, drawn for comparison.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 7), layout="constrained")
    panels = figure.subplots(2, 2).ravel()
    names = sorted({key for record in metrics for key in record})
    returns = [n for n in names if n.startswith("arena/") and n.endswith("/return")]
    contents = [
        ("return per seat", returns),
        ("legal-reply rate", ["arena/legal_rate"]),
        ("exact NashConv", ["arena/nash_conv"]),
        ("KL to the reference", ["kl"]),
    ]
    for panel, (title, keys) in zip(panels, contents, strict=True):
        for key in keys:
            points = [(r["step"], r[key]) for r in metrics if r.get(key) is not None]
            if points:
                label = key.removeprefix("arena/").removesuffix("/return")
                panel.plot(*zip(*points, strict=True), label=label)
        panel.set_title(title)
        panel.set_xlabel("optimizer step")
        if len(keys) > 1:
            panel.legend()
    if uniform is not None:
        panels[2].axhline(uniform, linestyle=":", color="grey", label="uniform play")
        panels[2].legend()
    figure.savefig(path, dpi=120)
