"""The recipe `kickstart` on Kuhn poker beside a control of weight 0: the figure and table of docs/papers.md.

    python benchmarks/kickstarted.py FOLDER

The sweep trains the tiny model from one start for each seed; all numbers are exact NashConv of its
policy, before self-play and every ten steps. It goes on after a stop, writes docs/images/kickstart.png
and prints the table.
"""

import json
import sys
from pathlib import Path
from urllib.parse import unquote

from arena_trainers.extras import import_extra
from comparing import draw_band, interval, paired_difference, table
from language_rl import arena

FIGURE = Path("docs", "images", "kickstart.png")
STEPS, EVERY, LEAVES = 100, 10, 50
CONTROL, TERM = (
    f"{{kickstart: {{teacher: cfr, weight: {weight}}}}}"
    for weight in ("0.0", f"[1.0, 0.0], over: {LEAVES}")
)
TINY = {
    **{
        "model": "tiny",
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
    },
    **{"rules": False, "reply_format": "bare", "max_completion_length": 2},
    **{"warm_start_steps": 60, "learning_rate": 1e-3, "warmup_steps": 0},
    **{"episodes_per_step": 64, "max_steps": STEPS, "save_steps": STEPS},
    **{"evaluate_every": EVERY, "eval_episodes": 50, "saved_episodes": 2},
}


def curve(folder: Path) -> list[float]:
    """NashConv before self-play and at every evaluation of a run."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    found = {}
    for one in map(json.loads, lines):
        if "arena/nash_conv" in one:
            found[one["step"]] = one["arena/nash_conv"]
    return [found[step] for step in range(0, STEPS + 1, EVERY)]


def main(folder: str) -> None:
    """Does the missing runs, draws the figure and prints the table."""
    told = [part for key, value in TINY.items() for part in (f"--{key}", str(value))]
    vary = ["--vary", f"losses={CONTROL},{TERM}", "--output-dir", folder]
    arena(["sweep", "kickstart", *told, *vary, "--seeds", "3"])
    curves = {
        name: [curve(run) for run in sorted(place.glob("seed-*"))]
        for place in sorted(Path(folder).iterdir())
        if (name := unquote(place.name).removeprefix("losses=")) in (CONTROL, TERM)
    }
    names = {CONTROL: "weight 0 (control)", TERM: f"weight 1 to 0 in {LEAVES} steps"}
    figure = import_extra("matplotlib.figure", "eval").Figure(
        figsize=(6, 3), layout="constrained"
    )
    panel, steps = figure.subplots(), range(0, STEPS + 1, EVERY)
    for (key, name), color in zip(names.items(), ("C7", "C0"), strict=True):
        draw_band(panel, steps, curves[key], name, color)
    panel.set(xlabel="step of self-play", ylabel="exact NashConv", ylim=(0, None))
    panel.legend()
    figure.savefig(FIGURE, dpi=120)
    rows = []
    for at in (0, 2, 5, 10):
        own, without = ([one[at] for one in curves[key]] for key in (TERM, CONTROL))
        cells = [
            f"{x.mean:.3f} ({x.low:.3f} to {x.high:.3f})"
            for x in map(interval, (own, without))
        ]
        gap = paired_difference(own, without)
        rows.append([str(at * EVERY), *cells, f"{gap.value:+.3f} ± {gap.wide:.3f}"])
    print(table(["step", "kickstart", "weight 0", "difference"], rows))


if __name__ == "__main__":
    main(*sys.argv[1:])
