"""Compares methods by runs of the tiny model; writes docs/methods.

python benchmarks/methods_bench.py --game kuhn --only grpo --only kickstart
"""

import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from arena_envs import make, make_game
from arena_eval.exploit import exploitability
from arena_trainers.data import (
    joined,
    load_chat,
    origin_of,
    rows_to_dataset,
    select,
    write_rows,
)
from arena_trainers.lm import LMPolicy
from arena_trainers.runs.recipe import load_recipe
from arena_trainers.runs.rows import RowRun
from arena_trainers.terminal import Console
from arena_wrappers import Branching, Episode, play
from comparing import (
    NumJobs,
    NumSeeds,
    OnlySettings,
    OnlyVariants,
    Runs,
    compare,
    run_script,
    table,
)
from gains import (
    PAGE,
    PICTURE,
    SCORED_AT_ONCE,
    Bench,
    Comparison,
    Curves,
    Measure,
    Point,
    Start,
    be_quiet,
    comparisons,
    draw,
    how_to_read,
    learn_by_grpo,
    make_saved_start,
    missing_text,
    power,
    summary,
    tables,
)

REFERENCE = "grpo"  # the default of `arena train`; the others are compared with it
NUM_DEALS = 500  # episodes that measure a score
FIRST_DEAL = 2**41  # seeds from here on measure, those below are of play


@dataclass(frozen=True)
class Setting:
    """A game and how much of it is played.

    Args:
        title: of the game.
        game: its name.
        num_rounds: points of a run after its start.
        every: episodes of a round.
        recipe: name of the recipe: start, prompts and options of `grpo`.
        measures: keys of `MEASURES`.
    """

    title: str
    game: str
    num_rounds: int
    every: int
    recipe: str
    measures: tuple[str, ...]


SETTINGS: dict[str, Setting] = {
    "kuhn": Setting(
        "Kuhn poker",
        game="kuhn_poker",
        num_rounds=10,
        every=1280,
        recipe="kuhn-tiny",
        measures=("nash_conv",),
    ),
    "mini_hanabi": Setting(
        "Mini Hanabi",
        game="mini_hanabi",
        num_rounds=6,
        every=640,
        recipe="mini-hanabi-tiny",
        measures=("score",),
    ),
}


@dataclass(frozen=True)
class Method:
    """The training of a variant: some rounds from selected rows, then by self-play.

    Args:
        num_rounds: rounds that learn from rows; the rest learns by `turn_grpo`.
        samples: episodes of each deal.
        branch: arguments of `Branching`, for turn trees.
        select: `selector` and its options.
        train: `trainer` and its options.
        grpo: options of `arena train`, beside those of the recipe.
    """

    num_rounds: int = 0
    samples: int = 1
    branch: Mapping[str, Any] | None = None
    select: Mapping[str, Any] = field(default_factory=dict)
    train: Mapping[str, Any] = field(default_factory=dict)
    grpo: Mapping[str, Any] = field(default_factory=dict)


_SFT = {"trainer": "sft", "batch_size": 128, "lr_scheduler_type": "linear"}
_DPO = {"trainer": "dpo", "batch_size": 128, "lr_scheduler_type": "linear"}

METHODS: dict[str, dict[str, Method]] = {
    "kuhn": {
        "wins": Method(
            num_rounds=10,
            select={"selector": "wins"},
            train={**_SFT, "max_steps": 20, "learning_rate": 1e-3},
        ),
        "eto": Method(
            num_rounds=10,
            samples=8,
            select={"selector": "outcome_pairs"},
            train={**_DPO, "max_steps": 20, "learning_rate": 3e-4, "beta": 0.3},
        ),
        "agent_q": Method(
            num_rounds=10,
            branch={"num_candidates": 4, "follow": "random"},
            select={"selector": "branch_pairs", "pairs": "all"},
            train={**_DPO, "max_steps": 20, "learning_rate": 3e-4, "beta": 0.3},
        ),
        REFERENCE: Method(
            grpo={
                "credit": "mars",
                "credit_args": {"pool": ["game", "seat"]},
                "ref_model_sync_steps": 50,
            }
        ),
        "kickstart": Method(
            num_rounds=2,
            select={"selector": "solver_replies", "solver": "cfr"},
            train={**_SFT, "max_steps": 40, "learning_rate": 3e-3},
            grpo={
                "credit": "mars",
                "credit_args": {"pool": ["game", "seat"]},
                "ref_model_sync_steps": 40,
            },
        ),
    },
    "mini_hanabi": {
        "wins": Method(
            num_rounds=6,
            select={"selector": "wins", "top": 0.25},
            train={**_SFT, "max_steps": 20, "learning_rate": 1e-3},
        ),
        "eto": Method(
            num_rounds=6,
            samples=8,
            select={"selector": "outcome_pairs"},
            train={**_DPO, "max_steps": 10, "learning_rate": 1e-3, "beta": 0.1},
        ),
        "agent_q": Method(
            num_rounds=6,
            branch={"num_candidates": 4, "follow": "random"},
            select={"selector": "branch_pairs", "pairs": "all"},
            train={**_DPO, "max_steps": 10, "learning_rate": 1e-3, "beta": 0.1},
        ),
        REFERENCE: Method(
            grpo={
                "credit": "mars",
                "credit_args": {"scale": "std", "pool": ["group", "seat", "turn"]},
            }
        ),
        "kickstart": Method(
            num_rounds=1,
            select={"selector": "solver_replies", "solver": "hanabi_convention"},
            train={**_SFT, "max_steps": 40, "learning_rate": 3e-3},
            grpo={
                "credit": "mars",
                "credit_args": {"scale": "std", "pool": ["group", "seat", "turn"]},
            },
        ),
    },
}
VARIANTS = tuple(METHODS["kuhn"])
MEASURES: Mapping[str, Measure] = {
    "nash_conv": Measure("NashConv", higher=False),
    "score": Measure("Score", higher=True),
}
BENCH = Bench(
    "python benchmarks/methods_bench.py",
    SETTINGS,
    "episodes",
    VARIANTS,
    REFERENCE,
    MEASURES,
)


def made_with() -> dict[str, Any]:
    """The settings that decide the numbers."""
    return {
        "deals": [FIRST_DEAL, NUM_DEALS],
        "settings": {name: asdict(setting) for name, setting in SETTINGS.items()},
        "variants": {
            name: {setting: asdict(METHODS[setting][name]) for setting in SETTINGS}
            for name in VARIANTS
        },
    }


def start_options(setting: str, seed: int) -> dict[str, Any]:
    """The options of `arena train` that make the start of a run.

    Args:
        setting: a key of `SETTINGS`.
        seed: of the run.
    """
    return {**load_recipe(SETTINGS[setting].recipe), "seed": seed}


def grpo_options(setting: str, name: str, seed: int) -> dict[str, Any]:
    """The options of `arena train` for the rounds that learn by self-play.

    Args:
        setting: a key of `SETTINGS`.
        name: of a variant.
        seed: of the run.
    """
    bench_setting, method = SETTINGS[setting], METHODS[setting][name]
    options = {**start_options(setting, seed), **method.grpo}
    num_episodes = (bench_setting.num_rounds - method.num_rounds) * bench_setting.every
    steps = {"max_steps": num_episodes // options["episodes_per_step"]}
    return {**options, **steps, "save_strategy": "no", "logging_strategy": "no"}


def train(setting: str, name: str, seed: int) -> Curves:
    """The curves of a run: its measures at the start, then after every round."""
    points = learn(setting, name, seed)
    return {
        measure: [round(point[measure], 4) for point in points]
        for measure in SETTINGS[setting].measures
    }


LEARNER = "learner"  # in records
AT_ONCE = 256  # episodes in progress


def learn(setting: str, name: str, seed: int) -> list[Point]:
    """Trains; the measures at the start and after every round.

    Args:
        setting: a key of `SETTINGS`.
        name: of a variant.
        seed: of the run.
    """
    be_quiet()
    bench_setting, method = SETTINGS[setting], METHODS[setting][name]
    start = _start(setting, seed)
    points, model = [start.point], start.folder
    with tempfile.TemporaryDirectory() as folder:
        rounds = _Rounds(setting, method, seed, Path(folder))
        for number in range(method.num_rounds):
            model = rounds.learn(number, model)
            points.append(measured(_load(model), setting))
        if method.num_rounds < bench_setting.num_rounds:
            options = grpo_options(setting, name, seed)
            every = bench_setting.every // options["episodes_per_step"]
            points += learn_by_grpo(
                options,
                model,
                start.tokenizer,
                every,
                lambda policy: measured(policy, setting),
            )
    return points


def measured(policy: LMPolicy, setting: str) -> Point:
    """The measures of a policy: exact NashConv of its legal replies, or the mean score.

    The score is of self-play on the same `NUM_DEALS` seeds in all runs.

    Args:
        policy: a policy with its prompt options.
        setting: a key of `SETTINGS`.
    """
    env = make(SETTINGS[setting].game)
    if "nash_conv" in SETTINGS[setting].measures:
        return {"nash_conv": exploitability(policy, env.game).nash_conv}
    seeds = range(FIRST_DEAL, FIRST_DEAL + NUM_DEALS)
    episodes = play(env.clone, policy, seeds, on_error="raise", batch_size=AT_ONCE)
    return {"score": float(np.mean([episode.returns[0] for episode in episodes]))}


class _Rounds:
    """Rounds of a run that play, select rows and train on them.

    Args:
        setting: a key of `SETTINGS`.
        method: what is selected, and how it is trained.
        seed: of the run.
        folder: for its files.
    """

    def __init__(self, setting: str, method: Method, seed: int, folder: Path) -> None:
        self._setting, self._method = SETTINGS[setting], method
        self._seed, self._folder = seed, folder
        self._num_played = 0

    def learn(self, number: int, model: Path) -> Path:
        """The folder of the model after a round; the same one if no row is chosen.

        Args:
            number: of the round, from 0.
            model: the folder of the model that plays and is trained.
        """
        options, seed = dict(self._method.select), self._first_seed(number)
        episodes = self._play(number, model)
        selection = select(options.pop("selector"), episodes, seed=seed, **options)
        if not selection.rows:
            return model
        folder = self._folder / f"round-{number}"
        rows = self._folder / f"{folder.name}.parquet"
        dataset = rows_to_dataset(selection.rows, load_chat(str(model)))
        write_rows(dataset, rows, origin_of(selection.rows, episodes))
        settings = {
            **self._method.train,
            "model": str(model),
            "data": str(rows),
            "seed": seed,
            "use_cpu": True,
            "bf16": False,
            "gradient_checkpointing": False,
            "save_strategy": "no",
            "logging_strategy": "no",
        }
        job = RowRun(settings, folder, Console(quiet=True), measures=False)
        job.prepare()
        job.run()
        return folder / "model"

    def _play(self, number: int, model: Path) -> list[Episode]:
        """The episodes of a round; those of whole trees, at most as many as are due."""
        setting, method = self._setting, self._method
        policy, parts = _load(model), []
        due = (number + 1) * setting.every
        seed = self._first_seed(number)
        branch = None if method.branch is None else Branching(**method.branch)
        most = method.samples if branch is None else _largest_tree(setting.game, branch)
        while num := (due - self._num_played) // most:
            parts.append(
                play(
                    make(setting.game).clone,
                    policy,
                    range(seed, seed + num),
                    num_samples=method.samples,
                    branch=branch,
                    batch_size=AT_ONCE,
                    on_error="raise",
                )
            )
            seed += num
            self._num_played += len(parts[-1])
        return joined(parts)

    def _first_seed(self, number: int) -> int:
        """The first seed of a round; no round has more seeds than episodes."""
        setting = self._setting
        return (self._seed * setting.num_rounds + number) * setting.every


def _largest_tree(game: str, branch: Branching) -> int:
    """The most episodes of a turn tree that follows one candidate."""
    turns = make_game(game).max_turns
    return 1 + turns * branch.num_candidates


def _load(model: Path) -> LMPolicy:
    return LMPolicy.from_pretrained(
        model, device="cpu", batch_size=SCORED_AT_ONCE, name=LEARNER
    )


@lru_cache(maxsize=len(SETTINGS))  # the variants of a seed follow each other
def _start(setting: str, seed: int) -> Start:
    return make_saved_start(
        start_options(setting, seed), lambda policy: measured(policy, setting)
    )


HEAD = f"""\
# Which method learns most from equally many episodes

Written by `{BENCH.command.split()[-1]}` from [bench.json](bench.json).
[Learn from recorded play](../loops.md) describes rounds, [plug-ins](../plugins.md#a-selector) the selectors.

"""

METHOD = """\
## What was run

The tiny model of `arena train` plays itself and learns by one of five methods:

| Variant | Learns from | Knows besides its own play |
|---|---|---|
| `wins` | imitation of the turns of good episodes (SFT; SiriuS) | |
| `eto` | DPO on the best and each worse episode of one deal: the first replies of a seat that differ | that several episodes have the same deal |
| `agent_q` | DPO on every two replies of a turn tree whose values differ | the simulator: trees start again from a state within an episode |
| `grpo` | `turn_grpo` in self-play, with `mars`: pool (game, seat) in Kuhn poker, (group, seat, turn) and std in Mini Hanabi | that the episodes of a group have the same deal |
| `kickstart` | imitation of a teacher in the states that the model visits, then as `grpo` | **a teacher's reply in every turn of its first rounds** |

- **Start**: runs of a seed have the same start: the supervised start of the recipe on random legal
  play. No method sees expert games first. The published ETO does.
- **Episodes**: every method plays as many. Each episode counts as one, however many seats learn from it.
  A candidate of a turn tree counts as one, although its turns before the branch are not played
  again. A tree is played only if it fits. So `agent_q` plays at most one tree fewer than the others.
- **Teacher**: it plays no episode. It replies in the states of the model's own episodes, which count.
  In Kuhn poker it is an equilibrium (`cfr`), in Mini Hanabi a script (`hanabi_convention`). So `kickstart`
  answers another question than the rest: what a teacher is worth.
- **Rounds**: the methods on rows play, select and train in rounds. A round trains the model of the
  round before with a new optimizer. For DPO, this model is also the reference. `grpo` learns
  after every 128 episodes in Kuhn poker, and after every 64 in Mini Hanabi.
- **Options**: those of `grpo` are the recipe's, which was tuned earlier, with the credit above. Those of
  the other methods come from at most three short trials each with seed 0. So the methods were not
  tuned equally, and seed 0 is part of the results. Optimizer steps and computing time differ.

"""

MEASURED = f"""\
## What is measured

- **NashConv** is exact, by enumeration of Kuhn poker: 0 at an equilibrium, lower is better. It is
  of the policy among its legal replies.
- **Score** is the mean of {NUM_DEALS} episodes of self-play in Mini Hanabi. The seeds are the same in all
  runs. At most 4, higher is better. It is not exact: the game has more than three million
  states. With a standard deviation of 1 between episodes, its standard error is {1 / NUM_DEALS**0.5:.2f}.
- Figures of a run are means over the last quarter of its points, in Mini Hanabi the last point.

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
    with_runs = [comparison for comparison in compared if comparison.runs]
    parts = [HEAD + missing_text(compared), *summary(with_runs), *_levels(with_runs)]
    parts += [METHOD + _amounts(), *map(_options, SETTINGS)]
    explanation = how_to_read(BENCH, "the start")
    parts.append(MEASURED + explanation + power(BENCH, compared[0].num_seeds))
    if with_runs:
        parts.append(f"![Learning curves]({PICTURE})\n")
    parts += [tables(comparison) for comparison in with_runs]
    return "\n".join(parts)


def _levels(compared: Sequence[Comparison]) -> list[str]:
    """The scores of the starts and the methods, and of `kickstart` while it has its teacher."""
    lines = []
    for comparison in compared:
        for measure in comparison.setting.measures:
            curves = comparison.curves(measure)
            starts = np.mean([run[0] for runs in curves.values() for run in runs])
            ends = ", ".join(
                f"`{name}` {mean.mean:z.2f}"
                for name, mean in comparison.means(measure).items()
            )
            line = (
                f"- {comparison.setting.title}, {comparison.title(measure)}: {starts:.2f} at the start; at "
                f"the end, best first: {ends}."
            )
            if "kickstart" in curves:
                taught = METHODS[comparison.name]["kickstart"].num_rounds
                level = np.mean([run[taught] for run in curves["kickstart"]])
                line += f" When its teacher leaves, `kickstart` has {level:.2f}."
            lines.append(line)
    return ["## What each reaches\n", "\n".join([*lines, ""])] if lines else []


def _amounts() -> str:
    head = ["Game", "Recipe", "Episodes of a run", "Points", "Episodes between points"]
    rows = [
        [
            s.title,
            f"`{s.recipe}`",
            f"{s.num_rounds * s.every:,}",
            str(s.num_rounds + 1),
            f"{s.every:,}",
        ]
        for s in SETTINGS.values()
    ]
    return table(head, rows)


def _options(setting: str) -> str:
    head = ["Variant", "Rounds on rows", "Play", "Select", "Train", "`turn_grpo`"]
    rows = [
        [
            f"`{name}`",
            f"{method.num_rounds} of {SETTINGS[setting].num_rounds}",
            _played(method),
            _said(method.select),
            _said(method.train),
            _said(method.grpo),
        ]
        for name, method in METHODS[setting].items()
    ]
    return f"Options in {SETTINGS[setting].title}:\n\n" + table(head, rows)


def _played(method: Method) -> str:
    options: dict[str, Any] = {}
    if method.samples > 1:
        options["samples"] = method.samples
    if method.branch is not None:
        options["branch"] = dict(method.branch)
    return _said(options)


def _said(options: Mapping[str, Any]) -> str:
    return ", ".join(f"`{name}: {_flow(value)}`" for name, value in options.items())


def _flow(value: Any) -> str:
    """A value as in a recipe.

    >>> _flow({"num_candidates": 4, "turns": [0, 1]})
    '{num_candidates: 4, turns: [0, 1]}'
    """
    if isinstance(value, Mapping):
        parts = [f"{name}: {_flow(part)}" for name, part in value.items()]
        return f"{{{', '.join(parts)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_flow, value))}]"
    return str(value)


def main(
    directory: Annotated[Path, typer.Option(help="Folder of the files.")] = Path(
        "docs", "methods"
    ),
    num_seeds: NumSeeds = 3,
    only: OnlyVariants = None,
    game: OnlySettings = None,
    num_jobs: NumJobs = 1,
) -> None:
    """Compare methods: SFT on wins, ETO, Agent Q, GRPO, and kickstart followed by GRPO.

    The tiny model learns Kuhn poker (kuhn) and Mini Hanabi (mini_hanabi) by each of them, from
    the same start and equally many episodes. Measures: exact NashConv, and the mean score of
    fixed deals. Runs that are already in DIRECTORY/bench.json are not repeated, so run the
    command again after an interruption. It then writes README.md and learning.png. All runs
    take about 20 CPU minutes. The same code gives the same numbers.
    """
    compare(sys.modules[__name__], directory, num_seeds, only, game, num_jobs)


if __name__ == "__main__":
    run_script(main)
