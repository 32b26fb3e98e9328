"""Writes `docs/papers.md`, the recipes of papers, from the comments at their heads.

    python docs/build_papers.py          # fails if the page is out of date
    python docs/build_papers.py --write  # writes it

The first sentence of a recipe names the paper with its link; the list below "Differs from the paper:" says where the recipe
departs.
"""

import re
import sys
from importlib.resources import files
from pathlib import Path

from arena_trainers.runs.recipe import recipes, summary_of

PAGE = Path(__file__).with_name("papers.md")
GROUPS = {
    "Self-play in games": ("marshal", "spiral", "werewolf-candidates", "instructrl"),
    "Credit and losses": (
        "at-grpo",
        "ppo",
        "poad",
        "archer",
        "hapo",
        "aepo",
        "kickstart",
        "length-limit",
    ),
    "Several roles or policies": (
        "matpo",
        "rema",
        "epo",
        "agentflow",
        "marft",
        "at-grpo-roles",
        "advevo",
    ),
    "Rounds of play, selection and training": (
        "sirius",
        "optima",
        "agentevol",
        "eto",
        "agent-q",
        "agent-r",
        "steve",
        "self-rewarding",
    ),
}
HEAD = """\
# Recipes of papers

Written by `python docs/build_papers.py --write` from the recipes, whose comments say why each setting is what it is.

<!-- run: slow -->
```sh
arena train --recipes
arena train spiral --dry-run
```

The first command lists all recipes; the second prints the plan of one: games, batch, memory, hours, and what would be refused.
Options override a recipe: `arena train at-grpo --learning_rate 2e-6 --model path/to/model`. To see a loop work on a CPU, take
the tiny model and few episodes:

<!-- run: slow -->
```sh
arena train agent-q --model tiny --prompt rules=false --prompt reply_format=bare --warm_start steps=60 \\
    --use_cpu true --rounds 1 --rounds.play.episodes 20 --rounds.evaluate.episodes 20
```

The settings are those of the paper, or of its released code where the paper is silent, as far as the trainers support them. Tests
train a tiny model with each, for three steps or one or two rounds. **None has run at full size here: no result of a paper
is claimed.** [Curves of a tiny model](self-play.md#curves-of-papers) show `advevo` and `epo`. Common differences:

- Prompts are this project's, and an invalid reply ends the episode with the game's lowest return, less `penalty`.
- Every start is played at least twice, papers of self-play once. This affects estimators that compare within a group.
- Sampling is not cut by top-p and top-k, so that log-probabilities of play and training agree.
- Roles train LoRA adapters of rank 32 on one base model, where papers train whole models.
- A recipe keeps the paper's credit, even if it is [biased or noisy](credit/guide.md); `--credit control_variates` gives our default.

Some ideas need no recipe: [`notebooks/examples`](https://github.com/arena-envs/arena-envs/blob/main/notebooks/examples) has one paper a
file, in under 60 lines of public calls on a tiny model.

| Example | Idea |
|---|---|
| [`goal_proposer.py`](https://github.com/arena-envs/arena-envs/blob/main/notebooks/examples/goal_proposer.py) | PAE: the model sets itself goals, and an evaluator pays for them |
| [`team_plan.py`](https://github.com/arena-envs/arena-envs/blob/main/notebooks/examples/team_plan.py) | MasHost: a host chooses which agents are asked, and pays for each |
| [`coach.py`](https://github.com/arena-envs/arena-envs/blob/main/notebooks/examples/coach.py) | guidance of multi-agent learning: hints in prompts, annealed |
| [`score_preferences.py`](https://github.com/arena-envs/arena-envs/blob/main/notebooks/examples/score_preferences.py) | Score-DPO: preferences drawn by their difference in return |
| [`fix_up.py`](https://github.com/arena-envs/arena-envs/blob/main/notebooks/examples/fix_up.py) | FixPO: steps on the KL divergence alone until it is within a bound |
"""


def row_of(name: str) -> str:
    """The row of a recipe: its name, what it is, and its differences."""
    text = (files("arena_trainers") / "recipes" / f"{name}.yaml").read_text("utf-8")
    _, mark, after = text.partition("# Differs from the paper:\n#\n")
    if not mark:
        sys.exit(f"want 'Differs from the paper:' at the head of {name}.yaml, got none")
    comment = " ".join(
        line.lstrip("# ").rstrip() if not line.startswith("#   - ") else line[2:]
        for line in after.partition("\n#\n")[0].splitlines()
    )
    items = [item.strip() for item in re.split(r"\s+- ", f" {comment}") if item.strip()]
    about = re.sub(
        r"\((https://arxiv\.org/abs/([\d.]+))\)", r"([\2](\1))", summary_of(name)
    )
    return f"| `{name}` | {about} | {'; '.join(items)} |"


def page() -> str:
    """The page."""
    listed = [name for names in GROUPS.values() for name in names]
    of_papers = [name for name in recipes() if "arxiv" in summary_of(name)]
    missing = {*of_papers} - {*listed, "marshal-small"}
    if missing:
        sys.exit(
            f"want each recipe of a paper in GROUPS of {__file__}, got none of {missing}"
        )
    parts = [HEAD]
    for title, names in GROUPS.items():
        parts.append(f"## {title}\n\n| Recipe | Paper | Differs by |\n|---|---|---|")
        parts[-1] += "".join(f"\n{row_of(name)}" for name in names) + "\n"
    return "\n".join(parts)


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(page(), "utf-8")
    elif PAGE.read_text("utf-8") != page():
        sys.exit("docs/papers.md is out of date; run with --write")
