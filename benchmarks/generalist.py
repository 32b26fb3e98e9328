"""What self-play of one model on three games teaches; writes docs/self-play.md and its data.

    python benchmarks/generalist.py            # the missing runs, then the page
    python benchmarks/generalist.py --seeds 0  # the page alone

All runs start from one model, which imitates random legal play: recipe `marshal-small`. A run is
that model as it is (`start`), after self-play on the three games (`generalist`), or after self-play
on one of them (the specialists), which plays as many episodes of this game as the generalist does.
`random` is uniform random legal play, `first` always takes the first legal action.
Stopped, the same command goes on: the start is kept in `--runs`, and each run in the data.
"""

import shutil
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from transformers import AutoTokenizer

from arena_envs import make
from arena_trainers.cli.options import usage_errors
from arena_trainers.lm import LMPolicy
from arena_trainers.runs.settings import load_recipe
from arena_wrappers import Policy, RandomPolicy, make_policy, play
from comparing import (
    NumJobs,
    Runs,
    kept_runs,
    missing,
    paired_difference,
    read,
    run_missing,
    run_script,
    table,
    tell_outdated,
)
from gains import be_quiet, learn_by_grpo, make_saved_start

DOCS = Path(__file__).parents[1] / "docs"
RECIPE = "marshal-small"
TRAINED = {"tic_tac_toe": 2, "kuhn_poker": 4, "mini_hanabi": 1}  # with weights
HELD_OUT = ("connect_four", "leduc_poker", "simple_hanabi", "liars_dice", "nim")
PROTOCOLS = ("solo", "vote", "debate")
TITLES = {
    "tic_tac_toe": "Tic-tac-toe",
    "kuhn_poker": "Kuhn poker",
    "mini_hanabi": "Mini Hanabi",
    "connect_four": "Connect Four",
    "leduc_poker": "Leduc poker",
    "simple_hanabi": "Simple Hanabi",
    "liars_dice": "Liar's dice",
    "nim": "Nim",
    **{name: f"Questions, `{name}`" for name in PROTOCOLS},
}
BLIND = ("random", "first")  # policies that read nothing but the legal actions
VARIANTS = (*BLIND, "start", "generalist", *TRAINED)
SETTING = "self_play"
NUM_DEALS = 96  # of each game, for each seed
FIRST_DEAL = 2**41  # seeds from here on measure, those below are of training


def options_of(name: str, seed: int) -> dict[str, Any]:
    """The options of `arena train` of a run that learns."""
    found = {**load_recipe(RECIPE), "seed": seed, "save_strategy": "no"}
    found |= {"logging_strategy": "no", "warm_start_steps": 0}
    if name in TRAINED:
        share = TRAINED[name] / sum(TRAINED.values())
        found |= {"games": [name]}
        found |= {"episodes_per_step": round(found["episodes_per_step"] * share)}
    return found


def made_with() -> dict[str, Any]:
    """The settings that decide the numbers."""
    settings = {"recipe": load_recipe(RECIPE), "deals": [FIRST_DEAL, NUM_DEALS]}
    return {
        "settings": {SETTING: {**settings, "games": list(TITLES)}},
        "variants": {name: {} for name in VARIANTS},
    }


def start_of(runs: Path) -> Path:
    """The model that all runs start from; made if it is not there."""
    if not (runs / "start").is_dir():
        runs.mkdir(parents=True, exist_ok=True)
        made = make_saved_start(load_recipe(RECIPE), lambda _: {})
        with tempfile.TemporaryDirectory(dir=runs) as folder:
            shutil.copytree(made.folder, Path(folder) / "start")
            (Path(folder) / "start").rename(runs / "start")
    return runs / "start"


def train(runs: Path, setting: str, name: str, seed: int) -> dict[str, Any]:
    """Does a run; what its model does in each game, see `measured`.

    Args:
        runs: the folder of the start.
        setting: `SETTING`.
        name: of a variant.
        seed: of the run, and of the deals that measure it.
    """
    be_quiet()
    warnings.simplefilter("ignore")
    start = runs / "start"
    if name in BLIND:
        return measured(make_policy(name), seed)
    if name == "start":
        return measured(LMPolicy.from_pretrained(start), seed)
    options, tokenizer = options_of(name, seed), AutoTokenizer.from_pretrained(start)
    how = options["max_steps"], lambda policy: measured(policy, seed)
    (found,) = learn_by_grpo({**options, "model": str(start)}, start, tokenizer, *how)
    return found


def measured(policy: Policy, seed: int) -> dict[str, Any]:
    """By game: the return on each deal, replies, and how many of them were invalid.

    The return of a team game is that of the model in all seats; of other games, the mean over
    the seats against uniform random play. An invalid reply forfeits.

    Args:
        policy: with its prompt options.
        seed: chooses the deals.
    """
    first = FIRST_DEAL + seed * NUM_DEALS
    found = {}
    for name in TITLES:
        params: dict[str, Any] = (
            {"protocol": name, "source": "arithmetic"} if name in PROTOCOLS else {}
        )
        env = make("questions" if params else name, **params)
        num, team = env.game.num_players, env.game.kind == "cooperative"
        values, replies = [], []
        for seat in [0] if team else range(num):
            who = [policy if team or s == seat else RandomPolicy() for s in range(num)]
            deals = range(first, first + NUM_DEALS)
            played = play(env.clone, who, deals, on_error="raise")
            values.append([episode.returns[seat] for episode in played])
            turns = [turn for episode in played for turn in episode.turns]
            replies += [t for t in turns if team or t.seat == seat]
        found[name] = {
            "returns": [round(float(x), 4) for x in np.mean(values, axis=0)],
            "replies": len(replies),
            "invalid": sum(turn.invalid is not None for turn in replies),
        }
    return found


def cell(mean: float, wide: float) -> str:
    """A mean with half its interval; bold where the interval does not hold 0."""
    text = f"{mean:+z.3f} ± {wide:.3f}"
    return f"**{text}**" if abs(mean) > wide else text


def seeds_of(runs: Mapping[str, Mapping[int, Any]], *names: str) -> list[int]:
    """The seeds that all of these variants have."""
    return sorted(set.intersection(*({*runs.get(name, {})} for name in names)))


def returns_of(runs: Any, name: str, game: str, seeds: Sequence[int]) -> list[float]:
    """The mean return of a variant in a game, by seed."""
    return [float(np.mean(runs[name][seed][game]["returns"])) for seed in seeds]


def differences(runs: Any, one: str, other: str, game: str) -> str:
    """The cell of the paired difference of two variants over their common seeds."""
    seeds = seeds_of(runs, one, other)
    if len(seeds) < 2:
        return "-"
    pair = [returns_of(runs, name, game, seeds) for name in (one, other)]
    found = paired_difference(*pair)
    return cell(found.value, found.wide)


def legal(runs: Any, name: str, game: str) -> str:
    """The share of legal replies of a variant, all seeds together."""
    found = [run[game] for run in runs.get(name, {}).values()]
    num = sum(run["replies"] for run in found)
    bad = sum(run["invalid"] for run in found)
    return f"{1 - bad / num:.1%} of {num:,}" if num else "-"


def levels(runs: Any, games: Sequence[str]) -> str:
    """A table of means over seeds, and of differences of the generalist."""
    names, others = VARIANTS[:4], ("start", *BLIND)
    rows = []
    for game in games:
        row = [TITLES[game]]
        for name in names:
            values = returns_of(runs, name, game, seeds_of(runs, name))
            row.append(f"{np.mean(values):.3f}" if values else "-")
        row += [differences(runs, "generalist", other, game) for other in others]
        rows.append(row)
    return table(["game", *names, *(f"generalist - {n}" for n in others)], rows)


def specialists(runs: Any) -> str:
    """A table of differences of the generalist and the specialists."""
    rows = [
        [TITLES[g], *(differences(runs, "generalist", s, g) for s in TRAINED)]
        for g in TITLES
    ]
    return table(["game", *(f"generalist - {name}" for name in TRAINED)], rows)


def legal_replies(runs: Any) -> str:
    """A table of the shares of legal replies."""
    names = VARIANTS[len(BLIND) :]
    rows = [[TITLES[g], *(legal(runs, name, g) for name in names)] for g in TITLES]
    return table(["game", *names], rows)


def verdict(runs: Any, games: Sequence[str], other: str) -> str:
    """The games whose difference to another variant has an interval without 0."""
    cells = {game: differences(runs, "generalist", other, game) for game in games}
    better = [TITLES[game] for game, cell in cells.items() if cell.startswith("**+")]
    worse = [TITLES[game] for game, cell in cells.items() if cell.startswith("**-")]
    return f"better in {', '.join(better) or 'none'}; worse in {', '.join(worse) or 'none'}"


KINDS = {
    "Games of self-play": [*TRAINED],
    "Games never trained": [*HELD_OUT],
    "Questions, never trained": [*PROTOCOLS],
}


def page(runs: Any) -> str:
    """The page."""
    recipe = load_recipe(RECIPE)
    others = [("the start", "start"), ("random legal play", "random")]
    others += [("`first`", "first")]
    others += [(f"the specialist of {TITLES[name]}", name) for name in TRAINED]
    found = [
        f"- than {told}: {verdict(runs, [*TITLES], other)}" for told, other in others
    ]
    real = [
        TITLES[game]
        for game in TITLES
        if all(
            differences(runs, "generalist", other, game).startswith("**+")
            for other in ("start", "first")
        )
    ]
    parts = [
        "# What self-play taught",
        "MARSHAL reports that self-play on three games improves a model of four billion\n"
        "parameters in games that it never played, and in questions that several seats answer.\n"
        "This page asks the same of a model of 1.1 million parameters on one CPU core: recipe\n"
        f"`{RECIPE}`. It is no replication: model, prompts, budget and tasks differ. The page is\n"
        "written by `python benchmarks/generalist.py`, from `self-play.json`.",
        "The generalist is, by intervals of 95 % without 0:\n\n" + "\n".join(found),
        f"Better than the start and than `first`: {', '.join(real) or 'none'}.",
        f"Each line is of {len(TITLES)} intervals, without correction: if nothing differed, "
        f"{1 - 0.95 ** len(TITLES):.0%} of such\nlines would still name a game.",
        '`first` always replies with the first legal action of the list, which is "play 0" in Hanabi, and\n'
        "reads nothing else. A gain that does not exceed `first` is no sign that the model reads\n"
        "its prompt: a fixed habit would do as well.",
    ]
    for title, games in KINDS.items():
        parts += [f"## {title}", levels(runs, games).strip()]
    seeds = ", ".join(f"`{name}` {len(runs.get(name, {}))}" for name in VARIANTS)
    parts += [
        "A return is that of the model against uniform random play, the mean over its seats; in\n"
        "Mini Hanabi, Simple Hanabi and questions that of the model in all seats. An invalid reply\n"
        "forfeits. Differences are paired by seed, with the same "
        f"{NUM_DEALS} deals a seed. ± is half the\n95 % interval over seeds (Student's t; three "
        "seeds leave 2 degrees of freedom, so it is\nwide). Bold: the interval does not hold 0. "
        f"Seeds: {seeds}.",
        "## Legal replies",
        "Shares of legal replies, all seeds together.",
        legal_replies(runs).strip(),
        "A larger share of legal replies alone raises returns, because fewer episodes are\n"
        "forfeited. Only a return above that of random legal play shows better moves, and only one\n"
        "above that of `first` may show that they depend on the prompt.",
        "## Against specialists",
        specialists(runs).strip(),
        "## How it was made",
        f"- **Start.** {recipe['warm_start_steps']} steps of imitation of random legal play in "
        "all games of this page, questions included.\n  So the format of held-out games was seen, "
        "but no good play. One start serves all seeds: intervals\n  leave out how starts differ.\n"
        f"- **Legality does not transfer.** In most games of the catalogue that the start did not imitate, no reply\n  was legal (six episodes each, seen once, not in the data): it has not learned to copy from the list.\n"
        f"- **Generalist.** {recipe['max_steps']} steps of {recipe['episodes_per_step']} episodes "
        "of self-play. Credit is `mars` with the pool of game and seat, as in the\n  paper; our "
        "default is `random_effects`. The paper multiplies the rewards of each game to a maximum of "
        "4,\n  and plays each equally often. Here advantages are divided by the standard deviation "
        "of their pool, and\n  weights of 2, 4 and 1 give each game about as many tokens.\n"
        "- **Specialists.** The same start and steps, one game, as many episodes of it as the "
        "generalist plays. The\n  three together cost what the generalist costs.\n"
        "- **Vocabulary.** Byte pairs of all games of the catalogue (`vocab_size`). A new game in "
        "the catalogue\n  changes it, and all numbers.",
        "<!-- run: no, an hour on a busy core -->\n"
        "```sh\npython benchmarks/generalist.py   # ten CPU minutes; stops and goes on\n```",
        "## Not run",
        "SmolLM2-135M with a LoRA adapter on the same mix. No result is claimed.",
        "<!-- run: no, hours -->\n```sh\narena train marshal-small --model smollm2 --vocab_size 0 "
        "--lora_r 16 --warm_start_steps 6 \\\n    --warm_start_learning_rate 2e-4 --learning_rate "
        "2e-5 --max_completion_length 16 --output-dir runs/mix\n```",
    ]
    return "\n\n".join(parts) + "\n"


def main(
    num_seeds: Annotated[
        int, typer.Option("--seeds", help="Number of seeds; 0 writes the page alone.")
    ] = 3,
    num_jobs: NumJobs = 1,
    runs_at: Annotated[
        Path, typer.Option("--runs", help="Folder of the start.")
    ] = Path("runs/self-play"),
    directory: Annotated[
        Path, typer.Option("--directory", help="Folder of page and data.")
    ] = DOCS,
) -> None:
    """Does the missing runs, and writes the page."""
    path = directory / "self-play.json"
    with usage_errors():
        found = read(path, made_with())
    tell_outdated(path, made_with())
    todo = missing(found, VARIANTS, [SETTING], num_seeds)
    todo.sort(key=lambda task: task[1] in TRAINED)  # specialists last
    with kept_runs(path):
        runs: Runs = found
        if todo:
            start_of(runs_at)
            do = partial(train, runs_at)
            runs = run_missing(path, made_with(), todo, do, num_jobs, typer.echo)
    (directory / "self-play.md").write_text(page(runs.get(SETTING, {})))


if __name__ == "__main__":
    run_script(main)
