"""Writes `docs/audit.md`, its details and the drafts of reports from what the audits found.

    python docs/build_audit.py --games            # beside textarena, open_spiel, pettingzoo[classic], rlcard
    python docs/build_audit.py --credit wheels    # with torch; wheels as in docs/audit/credit.py
    python docs/build_audit.py --kuhn runs/audit  # six runs of the default job, less than a CPU minute each
    python docs/build_audit.py --write
    python docs/build_audit.py

The first three do what `docs/audit/found.json` lacks: delete a part of it to do it again. The
last one checks the pages.
"""

import importlib
import json
import math
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FOLDER = HERE / "audit"
FOUND = FOLDER / "found.json"
PAGES = {
    name: HERE / f"{name}.md" for name in ("audit", "audit/details", "audit/reports")
}
KINDS = ("exact", "scaled", "direction", "zero", "reversed")
SEEDS = (0, 1, 2)
BATCHES = (
    "2",
    "2, shared chance",
    "4",
    "4, shared chance",
    "2 + 2",
    "large",
    "large, shared chance",
)
SHARED = ", shared chance"
HOOKS_PAGE = HERE / "credit" / "hooks.md"
BEGIN, END = "<!-- bias: written by docs/build_audit.py -->", "<!-- end of bias -->"
NEXT = {
    name: f"[{name}](audit/details.md#{name})"
    for name in (
        *("comlrl-magrpo", "comlrl-marloo-plain", "comlrl-maremax-plain"),
        *("comlrl-iac", "comlrl-iac-plain", "skyrl-stepwise-grpo"),
        *("skyrl-stepwise-rloo", "unsloth-grpo"),
        *("prime-rl-3282", "prime-rl-3282-no-final", "prime-rl-rae"),
        *(
            "prime-rl-rae-by-end",
            "verifiers-1554",
            "at-grpo",
            "mars-released",
            "verl-7244",
        ),
    )
}
# on the page of the hooks: what each framework credits on its own; the authors have not been told of any verdict
OWN_CREDIT = {
    "verl-grpo": ("verl, `grpo` (default)", "(R - mean) / s of the group"),
    "verl-rloo": ("verl, `rloo`", "R - mean of the others"),
    "skyrl-grpo": ("SkyRL, `grpo` (default)", "(R - mean) / s of the group"),
    "skyrl-stepwise-grpo": (
        "SkyRL, step-wise, `grpo`",
        "(r of the last step - mean) / s, for all steps",
    ),
    "skyrl-stepwise-rloo": (
        "SkyRL, step-wise, `rloo`",
        "r of the last step - mean of the others, for all steps",
    ),
    "trl-grpo": ("TRL (default)", "(R - mean) / s of the group"),
    "trl-grpo-no-scale": ('TRL, `scale_rewards="none"`', "R - mean of the group"),
    "trl-async": ("TRL, asynchronous", "(R - mean) / s of the group"),
    "unsloth-grpo": ("unsloth, multi-turn too", "that of TRL"),
    "openrlhf-reinforce": ("OpenRLHF, `reinforce`", "(R - mean) / s of the batch"),
    "openrlhf-rloo": ("OpenRLHF, `rloo`", "R - mean of the others"),
    "comlrl-magrpo": (
        "CoMLRL, MAGRPO, MARLOO and MAReMax (default)",
        "(G - mean) / s at a node",
    ),
    "comlrl-marloo-plain": (
        "CoMLRL, MARLOO, not normalized",
        "G - mean of the others at a node",
    ),
    "comlrl-maremax-plain": (
        "CoMLRL, MAReMax, not normalized",
        "G - maximum at a node",
    ),
    "comlrl-iac": (
        "CoMLRL, IAC with an exact critic (default)",
        "r + V' - V, less its mean, over its s",
    ),
    "comlrl-iac-plain": (
        "CoMLRL, IAC with an exact critic, not normalized",
        "r + V' - V",
    ),
    "prime-rl-grpo": ("prime-rl, `grpo` (default)", "R - mean of the group"),
    "prime-rl-rae": (
        "prime-rl, `rae`",
        "R - running mean of earlier traces of the seat",
    ),
    "prime-rl-rae-by-end": (
        "prime-rl, `rae`, scored as episodes end",
        "R - running mean, updated as episodes end",
    ),
    "prime-rl-3282": (
        "prime-rl, `turn_credit` (pull request 3282)",
        "r + progress of later turns, centred within group and trace",
    ),
    "verifiers-1554": (
        "verifiers, step rewards (pull request 1554)",
        "(r - mean) / s over the steps of a group",
    ),
    "at-grpo": ("PettingLLMs, AT-GRPO", "(r - mean) / s over the replies to one turn"),
}
KUHN = {"real": "kuhn_poker", "ante only": "games:AnteOnly"}
JACKS = (0, (0, 0, (0, 1))), (1, (1, 0, (1,)))  # each seat with a jack, before a bet
HEAD = """# An exact audit of the field

Released advantage functions, and some of open pull requests, are compared with the exact policy gradient in nine small games, and
released games with the same game of this project, their twin. Each cell links to its numbers, the version and the command that repeats it.
Written by `python docs/build_audit.py --write` from [audit/found.json](audit/found.json), which the same script fills.

## What is not shown

- **Training.** A wrong gradient in a game of a few states does not say how much worse a training run ends. The games are built to
  show faults: in a batch of two, a z-score keeps who won and drops by how much. The effect shrinks in large groups with own chance.
- **Trainers.** Each function is called alone. Clipping, a KL term, filters and other losses may mend or hide what is found.
- **Other versions.** Each version is the newest that PyPI had in November 2026.
- **Published results.** A game that pays other than its twin does not refute results of models trained on it, such as transfer to
  other tasks. All methods compared in it had the same game.
- **All lines of large games.** "No difference" holds for the lines that were compared: all of a small tree, else seeded random play.
- **Faults of this audit.** The same code audits this project's own credit. `make slow` runs it on 20 right functions and nine planted
  faults. The trainer's default, `control_variates`, is exact.

## Advantage functions

The columns of games hold the verdict on the expected gradient: the mean over every possible batch of two episodes.

| Verdict | The expected gradient is |
| --- | --- |
| exact | the true gradient |
| scaled | a positive multiple of it for each seat |
| direction | within 90 degrees of it for each seat |
| zero | zero, where the true one is not |
| reversed | at 90 degrees or more, or zero, for some seat: a step may lower the return of this seat, and does not raise it |

The episodes of a batch are one group. With own chance each episode has its own deal and luck. With shared chance all
have the same deal, and the same luck for the same action. "2 + 2" is two groups of two, each with shared chance: it finds what goes
wrong between groups. The last columns hold the worst verdict over the games for other batches. A
large batch is the limit of many episodes: it holds every line of play by its probability.

Authors divide by a standard deviation or a mean on purpose, and papers discuss it. The table shows what it costs in these games.
Three functions have another aim: `grpo_passk` optimizes the best of k, and `maxrl` and `gpg` are made for rewards of 0 and 1,
while these games also pay other numbers.

Credit that is on no index (prime-rl, PettingLLMs' AT-GRPO, MARS, pull requests) is [written again](https://github.com/arena-envs/arena-envs/blob/main/docs/audit/formulas.py)
from its source, each in about ten lines that name the commit. AT-GRPO's tree, which goes on with the best candidate, is left out.

Two packages have no function to call. verifiers 0.4.0 stores the advantages that a trainer gives it. AReaL 1.0.4 computes them within
a method of its actor, with a KL term, shifted masks and the normalizations that a run's configuration chooses.

"""
ABOUT_TO_USE = """
## What people are about to use

In batches of two groups of two; *bias* is the tangent of the angle between mean and true gradient, for the worst seat; *noise* is the variance relative to `rloo`.

"""
READINGS = """
- **MAGRPO, MARLOO, MAReMax** are one estimator by default: `advantage_normalization` takes the z-score of what they leave, which drops the mean
  of all, of the others, or the maximum. Without it MARLOO is exact, MAGRPO a multiple, and MAReMax biased, as its maximum holds the own return.
- **IAC** with an exact critic is exact before its z-score over the turns of an agent, which reverses it.
- **SkyRL step-wise** reads the last step's reward alone, and its documentation says so. What earlier steps were paid teaches nothing.
- **`turn_credit`** adds the progress of the later turns to the reward, so that rewards of first turns weigh less; centering within a trace
  compares a turn with the traces' own later turns.
- **Step rewards of #1554** are z-scored over all steps of a group. This mean contains the later steps of the same episode, so longer episodes weigh more.
- **AT-GRPO** reads what a turn was paid and nothing later. Its paper's games pay every turn.
- **`rae`** is exact, as its mean holds earlier traces only; noise is large where returns are far from 0, where it starts. With groups of one, scored
  as episodes end, the mean depends on the own length: a small bias.
- **unsloth** edits the text of TRL's trainer and leaves its advantages as they are; multi-turn rollouts have one reward for a row.
- **The construction that verl issue 7244 warns of** is reversed where a turn is paid now and costs later.

"""
GAMES_HEAD = """
## Games

Compared in each state: who moves, legal actions, chance and payments. A difference does not say which game is right; the note
quotes what the package says of its game.

| package | version | game | twin | result | note |
|---|---|---|---|---|---|
"""
KUHN_TEXT = """
## What the payments of a Kuhn poker teach

In `KuhnPoker-v0` of TextArena 0.7.4, "[bet]" and "[call]" add no chip to the pot, though its prompt says that they do: 12 of the 30
combinations of deal and line pay 1 where Kuhn poker pays 2. It equals our game with payments cut to the ante
([no difference](audit/details.md#textarena-kuhn-ante-only)). NashConv (0 at an equilibrium) of four policies:

| policy | Kuhn poker | TextArena 0.7.4 |
|---|---|---|
{values}

A policy that never folds is optimal in TextArena's game, and has NashConv {never_folds} in Kuhn poker. The default job of `arena train` (the tiny
model, 400 steps of 128 episodes, `credit: random_effects`), trained in each game and measured in both:

| trained in | seeds | NashConv in Kuhn poker | mean | NashConv in TextArena's | mean |
|---|---|---|---|---|---|
{trained}

Each model does best in its own game. Models of TextArena's game are near its equilibrium, and far from that of Kuhn poker.
With a jack, which cannot win, an equilibrium of Kuhn poker folds to every bet. The models call {calls}.

TextArena's main branch (commit 6dfb577) has mended the pot; the newest release, 0.7.4, has not. The repository
of SPIRAL 0.0.1 has an environment of its own (`spiral/envs/KuhnPoker/env.py`, read, not run). There too no bet reaches the
pot, and the winner of the last round wins the match, whatever the chips are.
"""
DETAILS_HEAD = """# Details of the audit

Made by `python docs/build_audit.py --write`. [The page](../audit.md) says what the words mean.

Advantage functions run from the wheels of a package index, which are read and not installed:

```sh
pip download --no-deps -d wheels {wheels}
```

A cell holds the verdict, the smallest cosine with the true gradient over the seats, and the factor: the projection on the true gradient of all
seats. Columns are batches; "shared chance" means that all episodes of a batch draw the same.
"""
REPORTS_HEAD = """# Drafts of reports

Made by `python docs/build_audit.py --write`. They go to the authors before [the page](../audit.md) is published. None has been sent.

"""
KUHN_REPORT = """## TextArena {version}: bets add nothing to the pot of KuhnPoker-v0

Main (commit 6dfb577) has mended this. The newest release on PyPI has not, so `pip install textarena` still has it. Could you
release main, and name the change in its notes? Results of the two versions are not comparable.

```python
from textarena.envs.KuhnPoker.env import KuhnPokerEnv

env = KuhnPokerEnv(max_rounds=2)
env.reset(num_players=2, seed=0)
print(env.state.game_state["player_chips"])  # the antes: {{0: -1, 1: -1}}
env.step("[bet]")
env.step("[call]")
# the winner has 0 after the next ante, and should have 1:
print(env.state.game_state["player_chips"])
```

## TextArena {version}: the prompt of Breakthrough-v0

"You can move a single piece one step forward or diagonally forward. A piece may only move diagonally if an opponent piece
is there". The usual rules also allow a diagonal step to an empty square, and the first sentence reads like them. If yours is a
variant by design, could the first sentence say so?

## TextArena {version}: the goal of IteratedRockPaperScissors-v0

The prompt says "Your goal is to win as many rounds as possible". The environment pays 1 to the winner of more rounds, at the
end. A lead of one pays as much as a lead of five. Could the prompt say so?

## RLCard {rlcard}: Leduc hold'em

`leduc-holdem` has blinds of 1 and 2, so its first player may fold at once. Leduc poker in "Bayes' Bluff" and in OpenSpiel has
antes of 1. Your documentation tells the blinds. Could it also say that values and exploitability are not comparable with those?

## SPIRAL 0.0.1: Kuhn poker

In `spiral/envs/KuhnPoker/env.py` a bet or call adds no chip to the pot. `_set_round_winner` gives the match to the winner of its last
round: `set_winners(player_ids=[player_id])` where `current_round >= max_turns`. The prompt says that the player with the most chips after
all rounds wins. We read this code and did not run it.

"""
AIMS = {
    "grpo-passk": " `grpo_passk` has another aim, the best of k.",
    "gpg": " `gpg` is made for rewards of 0 and 1.",
    "maxrl": " `maxrl` is made for rewards of 0 and 1.",
}
CREDIT_REPORT = """## {package} {version}: {names}

This follows from the formulas; we do not call it a bug. In small groups, or where episodes share chance, the expected gradient may
point away from the true one.{aims} Smallest case: `{first}` in `{game}`, batch {batch} ({about})

| seat | knows | action | true gradient | expected |
|---|---|---|---|---|
{lines}

`python docs/audit/credit.py --wheels wheels {first}` in this project repeats it. A sentence in your documentation might help those who choose group
sizes{instead}

"""


def found() -> dict[str, Any]:
    """What the audits found so far."""
    parts: dict[str, Any] = {"games": {}, "credit": {}, "kuhn": {}}
    return parts | (json.loads(FOUND.read_text()) if FOUND.exists() else {})


def keep(part: str, name: str, row: Any) -> None:
    """Adds what was found to the file."""
    findings = found()
    findings[part][name] = row
    FOUND.write_text(json.dumps(findings, indent=1) + "\n")


def audit_games() -> None:
    """Compares the pairs of games that the file lacks."""
    sys.path.insert(0, str(FOLDER))
    games: Any = importlib.import_module("games")

    for name in games.PAIRS:
        if name not in found()["games"]:
            keep("games", name, games.audited(name))


def audit_credit(wheels: Path) -> None:
    """Audits the advantage functions that the file lacks."""
    sys.path.insert(0, str(FOLDER))
    credit: Any = importlib.import_module("credit")

    wheel_of = {wheel.name: wheel for wheel in map(credit.Wheel, wheels.glob("*.whl"))}
    for name, subject in credit.SUBJECTS.items():
        if name not in found()["credit"]:
            wheel = None if subject.version else wheel_of[subject.package]
            keep("credit", name, credit.audited(name, wheel))


def train_kuhn(folder: Path) -> None:
    """Trains the tiny model in both games, and measures it in both, exactly."""
    sys.path.insert(0, str(FOLDER))
    import torch

    games: Any = importlib.import_module("games")
    from arena_eval import exploitability
    from arena_eval.exploit import tabular
    from arena_trainers.cli.main import app
    from arena_trainers.lm import LMPolicy

    torch.set_num_threads(1)
    both = games.KuhnPoker(), games.AnteOnly()
    for kind, game in KUHN.items():
        for seed in SEEDS:
            name, run = f"{kind}, seed {seed}", folder / f"{kind.split()[0]}-{seed}"
            if name in found()["kuhn"]:
                continue
            began = time.process_time()
            if not (run / "model").exists():
                command = ["train", "--games", game, "--seed", str(seed)]
                command += ["--output-dir", str(run.resolve())]
                # what only watches the run is left out; training is the same
                command += ["--evaluate_every", "0", "--callbacks.saved_groups", "0"]
                app(command, standalone_mode=False)
            policy = LMPolicy.from_pretrained(str(run / "model"), device="cpu")
            convs = [round(exploitability(policy, g).nash_conv, 4) for g in both]
            table, _ = tabular(policy, both[0])
            calls = [round(float(table[jack_state][1]), 3) for jack_state in JACKS]
            cost = round(time.process_time() - began, 1)
            print(name, convs, f"{cost} CPU s", file=sys.stderr)
            row = {"nash_conv": convs, "calls": calls, "cpu_seconds": cost}
            keep("kuhn", name, row)


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def worst(row: Mapping[str, Any], batch: str) -> str:
    """The worst verdict of a function over the games; those without chance share none."""
    games = [result for result in row["rows"].values() if not isinstance(result, str)]
    without_shared = batch.removesuffix(SHARED)
    kinds = [
        (g.get(batch) or g[without_shared])[0] for g in games if without_shared in g
    ]
    return max(kinds, key=KINDS.index) if kinds else "-"


def credit_table(rows: Mapping[str, Any]) -> str:
    """Verdicts of all functions in batches of two."""
    games = list(next(iter(rows.values()))["rows"])
    lines = []
    for name, row in rows.items():
        cells = []
        for game in games:
            result = row["rows"][game]
            kind = "error" if isinstance(result, str) else result["2"][0]
            cell = f"**{kind}**" if kind in ("zero", "reversed", "error") else kind
            cells.append(f"[{cell}](audit/details.md#{name})")
        label = f"[{name}](audit/details.md#{name}) {row['version']}: {row['about']}"
        lines.append([label, *cells, *(worst(row, b) for b in BATCHES[1:])])
    columns = (batch.replace(SHARED, ", shared") for batch in BATCHES[1:])
    return table(["function", *games, *columns], lines)


def summary(rows: Mapping[str, Any]) -> str:
    """How many functions have which worst verdict, and the first words about it."""
    num_packages = len({row["package"] for row in rows.values()})
    text = f"{len(rows)} functions of {num_packages} packages:\n\n"
    lines = []
    for batch in BATCHES:
        counts = Counter(worst(row, batch) for row in rows.values())
        cells = [f"{counts[kind]} {kind}" for kind in (*KINDS, "-") if counts[kind]]
        lines.append([batch, ", ".join(cells)])
    return text + table(["episodes", "worst verdict over the games"], lines)


def bias_table(rows: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """Bias and noise of functions in batches of two groups of two, worst over the games."""
    lines = []
    for name, label in names.items():
        results = {
            game: result["2 + 2"] if "2 + 2" in result else result["2"]
            for game, result in rows[name]["rows"].items()
        }
        game = max(results, key=lambda g: (KINDS.index(results[g][0]), -results[g][1]))
        kind, cosine = results[game][:2]
        right = [result for result in results.values() if result[0] in KINDS[:2]]
        noises = [
            result[3]
            for result in results.values()
            if result[0] in KINDS[:3] and result[3] is not None
        ]
        bias = "∞"
        if cosine > 0:  # of three digits
            size = math.sqrt(max(1 / cosine**2 - 1, 0))
            is_small = size < 0.05 and kind not in KINDS[:2]
            bias = "< 0.05" if is_small else f"{size:.2f}"
        where = "" if kind in KINDS[:2] else f" in `{game}`"
        noise = f"{min(noises):.3g} to {max(noises):.3g}" if noises else "-"
        lines.append(
            [label, kind, f"{len(right)} of {len(results)}", f"{bias}{where}", noise]
        )
    head = ["", "worst verdict", "games without bias", "largest bias", "noise / rloo"]
    return table(head, lines)


def own_credit_table(rows: Mapping[str, Any]) -> str:
    """The formula of each framework's default credit, and computed numbers; no verdict."""
    lines = []
    for name, (label, formula) in OWN_CREDIT.items():
        if "(default)" not in label:
            continue
        results = {
            game: result["2 + 2"] if "2 + 2" in result else result["2"]
            for game, result in rows[name]["rows"].items()
        }
        game = min(results, key=lambda g: float(results[g][1]))
        cosine = results[game][1]
        noises = [
            result[3]
            for result in results.values()
            if result[1] > 0 and result[3] is not None
        ]
        noise = f"{min(noises):.3g} to {max(noises):.3g}" if noises else "-"
        where = f"{cosine:.2f} in `{game}`" if cosine < 0.9995 else "1.00"
        lines.append([label, formula, where, noise, f"`{name}`"])
    head = ["", "advantage", "smallest cosine", "noise / rloo", "row of the audit"]
    return table(head, lines)


def hooks_page(rows: Mapping[str, Any]) -> str:
    """The page of the hooks with the bias of each framework's own credit."""
    text = HOOKS_PAGE.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{own_credit_table(rows)}\n{END}{after}"


def games_rows(rows: Mapping[str, Any]) -> str:
    """The table of pairs of games."""
    text = ""
    for name, row in rows.items():
        result = row["difference"]
        summary_line = "no difference" if result is None else result.partition("\n")[0]
        summary_line = summary_line.replace("|", "\\|")
        cells = [row["package"], row["version"], f"`{row['theirs']}`", f"`{ours(row)}`"]
        cells += [f"[{summary_line}](audit/details.md#{name})", row["note"]]
        text += f"| {' | '.join(cells)} |\n"
    return text


def ours(row: Mapping[str, Any]) -> str:
    """Our game in short."""
    name: str = row["ours"]
    return name if len(name) < 60 else name.partition("(")[0]


def kuhn_text(findings: Mapping[str, Any]) -> str:
    """What both Kuhns teach."""
    names = {
        "last action": "never checks where it can bet, never folds",
        "equilibrium of the first": "an equilibrium of Kuhn poker",
        "equilibrium of the second": "an equilibrium of TextArena's",
        "uniform": "uniform",
    }
    values = findings["games"]["textarena-kuhn"]["values"]
    lines = [[words, *(f"{x:.3f}" for x in values[n])] for n, words in names.items()]
    trained = []
    for kind, label in zip(KUHN, ("Kuhn poker", "TextArena 0.7.4's"), strict=True):
        runs = {s: findings["kuhn"].get(f"{kind}, seed {s}") for s in SEEDS}
        convs = [run["nash_conv"] for run in runs.values() if run]
        cells = [label, ", ".join(str(seed) for seed, run in runs.items() if run)]
        for game_convs in zip(*convs, strict=True):
            cells += [
                ", ".join(f"{x:.3f}" for x in game_convs),
                f"{sum(game_convs) / len(game_convs):.3f}",
            ]
        trained.append(cells)
    means = []
    for kind, words in zip(
        KUHN, ("trained in Kuhn poker", "in TextArena's"), strict=True
    ):
        models = [
            run for name, run in findings["kuhn"].items() if name.startswith(kind)
        ]
        share = sum(sum(run["calls"]) for run in models) / (2 * len(models))
        means.append(f"{share:.0%} ({words})")
    texts = {"calls": " and ".join(means)}
    texts |= {"never_folds": f"{values['last action'][0]:.3f}"}
    for key, rows in (("values", lines), ("trained", trained)):
        texts[key] = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return KUHN_TEXT.format(**texts)


def details(findings: Mapping[str, Any]) -> str:
    """Numbers of each function and each pair."""
    rows = findings["credit"]
    released = [r for r in rows.values() if not r["source"].startswith("formulas.py")]
    wheels = dict.fromkeys(f"{r['package']}=={r['version']}" for r in released)
    text = DETAILS_HEAD.format(wheels=" ".join(wheels))
    for name, row in rows.items():
        text += f"\n## {name}\n\n{row['package']} {row['version']}, `{row['source']}`: {row['about']}.\n"
        command = f"python docs/audit/credit.py --wheels wheels {name}"
        text += f"`{command}` ({row['cpu_seconds']} CPU s)\n\n"
        text += function_table(row) + counterexample(row)
    for name, row in findings["games"].items():
        text += f"\n## {name}\n\n{row['package']} {row['version']}, `{row['theirs']}`, beside `{ours(row)}`.\n"
        text += f"`python docs/audit/games.py {name}`\n\n"
        result = row["difference"] or "No difference in the states compared."
        text += f"```text\n{result}\n```\n"
    return text


def function_table(row: Mapping[str, Any]) -> str:
    """Each game and batch of a function."""
    games = {g: r for g, r in row["rows"].items() if not isinstance(r, str)}
    batches = list(dict.fromkeys(b for r in games.values() for b in r))
    lines = []
    for game, result in row["rows"].items():
        if isinstance(result, str):
            lines.append([game, result, *[""] * (len(batches) - 1)])
            continue
        cells = [result_cell(result.get(batch)) for batch in batches]
        lines.append([game, *cells])
    return table(["game", *batches], lines)


def result_cell(result: Sequence[Any] | None) -> str:
    """Kind, cosine, factor, and the noise where it was computed."""
    if result is None:
        return ""
    kind, cosine, factor, *noise = result
    text = f"{kind} {cosine:.2f} x{factor:.2f}"
    return f"{text}, noise {noise[0]:.3g}" if noise and noise[0] is not None else text


def counterexample(row: Mapping[str, Any]) -> str:
    """The smallest game in which the gradient is reversed."""
    if not (example := row["counterexample"]):
        return ""
    text = f"\nThe smallest reversal: `{example[0]}`, batch {example[1]}.\n\n"
    head = ["seat", "knows", "action", "true gradient", "expected"]
    return text + table(head, gradient_lines(example))


def gradient_lines(example: Sequence[Any]) -> list[list[str]]:
    """The rows of a counterexample."""
    return [
        [str(seat), f"`{state}`", str(action), f"{true:+.4f}", f"{got:+.4f}"]
        for seat, state, action, true, got in example[2]
    ]


def reports(findings: Mapping[str, Any]) -> str:
    """Drafts to the authors: games, then one for each package with a reversed function."""
    from arena_credit.proofs.diagnostics import DIAGNOSTICS

    games = findings["games"]
    version = games["textarena-kuhn"]["version"]
    rlcard = games["rlcard-leduc"]["version"]
    text = REPORTS_HEAD + KUHN_REPORT.format(version=version, rlcard=rlcard)
    by_package: dict[str, dict[str, Any]] = {}
    for name, row in findings["credit"].items():
        if row["counterexample"]:
            by_package.setdefault(row["package"], {})[name] = row
    for package, rows in by_package.items():
        first, row = next(iter(rows.items()))
        game, batch, _ = row["counterexample"]
        lines = gradient_lines(row["counterexample"])
        others = [
            n
            for n, other_row in findings["credit"].items()
            if right(other_row, package)
        ]
        names_of_others = ", ".join(f"`{name}`" for name in others)
        instead = (
            f". Exact or scaled in all games and batches: {names_of_others}."
            if others
            else "."
        )
        text += CREDIT_REPORT.format(
            **{"package": package, "version": row["version"], "first": first},
            **{"game": game, "batch": batch, "instead": instead},
            names=", ".join(f"`{name}`" for name in rows),
            aims="".join(t for end, t in AIMS.items() if f"{package}-{end}" in rows),
            about=DIAGNOSTICS[game].about.rstrip("."),
            lines="\n".join(f"| {' | '.join(line)} |" for line in lines),
        )
    return text.strip() + "\n"


def right(row: Mapping[str, Any], package: str) -> bool:
    """True for a function of a package that is exact or a multiple everywhere."""
    return bool(row["package"] == package and row["worst"] in KINDS[:2])


def pages() -> dict[str, str]:
    """The text of each page."""
    findings = found()
    text = HEAD + summary(findings["credit"]) + "\n"
    text += credit_table(findings["credit"]) + ABOUT_TO_USE
    text += bias_table(findings["credit"], NEXT) + READINGS
    text += GAMES_HEAD.lstrip("\n") + games_rows(findings["games"])
    text += kuhn_text(findings)
    seconds = sum(r["cpu_seconds"] for part in findings.values() for r in part.values())
    text += f"\nAll that this page shows took {seconds:.0f} CPU seconds on one core.\n"
    return {
        "audit": text,
        "audit/details": details(findings),
        "audit/reports": reports(findings),
    }


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--games"]:
            audit_games()
        case ["--credit", wheels]:
            audit_credit(Path(wheels))
        case ["--kuhn", runs]:
            train_kuhn(Path(runs))
        case ["--write"]:
            for name, text in pages().items():
                PAGES[name].write_text(text, "utf-8")
            HOOKS_PAGE.write_text(hooks_page(found()["credit"]), "utf-8")
        case _:
            for name, text in pages().items():
                if not PAGES[name].exists() or PAGES[name].read_text("utf-8") != text:
                    sys.exit(f"docs/{name}.md is out of date; run with --write")
            if HOOKS_PAGE.read_text("utf-8") != hooks_page(found()["credit"]):
                sys.exit("docs/credit/hooks.md is out of date; run with --write")
