"""Compares opponents by runs of the tiny model; writes docs/opponents.

python benchmarks/opponents_bench.py --game kuhn --only self-play --only past_selves
"""

import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from arena_envs import make_game
from arena_envs.game import AnyGame
from arena_envs.solvers import (
    CFRPlus,
    InfosetTable,
    PerfectInformation,
    expected_returns,
    information_states,
    nash_conv,
    uniform_table,
)
from arena_eval.exploit import tabular
from arena_trainers.runs.mappings import nested
from arena_trainers.runs.recipe import load_recipe
from arena_wrappers import ScoringPolicy
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
    Bench,
    Curves,
    Measure,
    Measured,
    Point,
    Start,
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

REFERENCE = "self-play"  # the default of `arena train`; the others are compared with it
NUM_ITERATIONS = 1000  # of CFR+
_SNAPSHOTS = {"every": 10, "max_live": 1}

MEASURES: Mapping[str, Measure] = {
    "nash_conv": Measure("NashConv", higher=False),
    "against_optimal": Measure("Return against `{optimal}`", higher=True),
    "against_random": Measure("Return against `random`", higher=True),
}


@dataclass(frozen=True)
class Setting:
    """A game and its training.

    Args:
        title: of the game.
        game: its name.
        optimal: policy string of the optimal opponent.
        num_steps: optimizer steps of a run.
        every: steps between measurements.
        recipe: name of the recipe.
        options: of `arena train` besides.
        measures: keys of `MEASURES`.
    """

    title: str
    game: str
    optimal: str
    num_steps: int
    every: int
    recipe: str
    options: Mapping[str, Any]
    measures: tuple[str, ...]


SETTINGS: dict[str, Setting] = {
    "kuhn": Setting(
        "Kuhn poker",
        game="kuhn_poker",
        optimal="cfr",
        num_steps=120,
        every=10,
        recipe="kuhn-tiny",
        options={
            "credit": "mars",
            "credit_args": {"pool": ["group", "seat"]},
            "ref_model_sync_steps": 60,  # half-way, as in the recipe
            "episodes_per_step": 128,
        },
        measures=("nash_conv", "against_optimal", "against_random"),
    ),
    "tic_tac_toe": Setting(
        "Tic-tac-toe",
        game="tic_tac_toe",
        optimal="minimax",
        num_steps=60,
        every=20,
        recipe="tic-tac-toe-tiny",
        options={
            "num_iterations": 1,
            "episodes_per_step": 128,
            "warm_start_steps": 300,
            "warm_start_episodes": 1500,
            "warm_start_batch_size": 64,
            "beta": 0.03,
        },
        measures=("against_optimal", "against_random"),
    ),
}


def variants(setting: str) -> dict[str, Any]:
    """The value of `--opponents` of each variant."""
    mixture = {"mixture": {"options": {"past_selves": _SNAPSHOTS}}}
    return {
        REFERENCE: "self",
        "mixture": mixture,
        "past_selves": {"past_selves": _SNAPSHOTS},
        "psro": {"psro": _SNAPSHOTS},
        "optimal": SETTINGS[setting].optimal,
        "random": "random",
    }


VARIANTS = tuple(variants("kuhn"))
BENCH = Bench(
    "python benchmarks/opponents_bench.py",
    SETTINGS,
    "optimizer step",
    VARIANTS,
    REFERENCE,
    MEASURES,
)


def made_with() -> dict[str, Any]:
    """The settings that decide the numbers."""
    settings = {name: asdict(setting) for name, setting in SETTINGS.items()}
    options = {
        name: {setting: variants(setting)[name] for setting in SETTINGS}
        for name in VARIANTS
    }
    return {"settings": settings, "variants": options}


def options(setting: str, name: str, seed: int) -> dict[str, Any]:
    """The options of `arena train` of a run.

    Args:
        setting: a key of `SETTINGS`.
        name: of a variant.
        seed: of the run.
    """
    bench_setting = SETTINGS[setting]
    run_options = {
        "games": [bench_setting.game],
        "opponents": variants(setting)[name],
        "seed": seed,
        "max_steps": bench_setting.num_steps,
        "save_strategy": "no",
        "logging_strategy": "no",
    }
    return {**load_recipe(bench_setting.recipe), **bench_setting.options, **run_options}


def train(setting: str, name: str, seed: int) -> Curves:
    """The curves of a run: its measures at the start, then every `every` steps."""
    points = play(setting, name, seed)
    return {
        measure: [round(point[measure], 4) for point in points]
        for measure in SETTINGS[setting].measures
    }


def measured(policy: ScoringPolicy, setting: str) -> dict[str, float]:
    """The exact measures of a policy among its legal replies, by enumeration.

    `against_optimal` and `against_random` are mean returns over both seats.

    Args:
        policy: a policy with `action_probs`.
        setting: a key of `SETTINGS`.
    """
    game, others = _game(setting)
    table_of_policy, _ = tabular(policy, game)
    values = {
        name: _mean_return(game, table_of_policy, table)
        for name, table in others.items()
    }
    if "nash_conv" in SETTINGS[setting].measures:
        values["nash_conv"] = nash_conv(game, table_of_policy)
    return values


@lru_cache
def _game(setting: str) -> tuple[AnyGame, dict[str, InfosetTable]]:
    """The game, and the tables of the opponents that measure."""
    game = make_game(SETTINGS[setting].game)
    tables = {
        "against_optimal": _optimal_table(game),
        "against_random": uniform_table(game),
    }
    return game, tables


def _optimal_table(game: AnyGame) -> InfosetTable:
    """Minimax with random choices among best actions, or the average policy of CFR+."""
    if game.information != "perfect":
        solver = CFRPlus(game)
        solver.run(NUM_ITERATIONS)
        return solver.average_policy()
    search = PerfectInformation(game)
    policy = {}
    for key, state in information_states(game).items():
        chances = search.policy(state)
        policy[key] = [chances.get(action, 0.0) for action in game.legal_actions(state)]
    return policy


def _mean_return(game: AnyGame, first: InfosetTable, second: InfosetTable) -> float:
    total = 0.0
    for seat in range(game.num_players):
        both = {key: (first if key[0] == seat else second)[key] for key in first}
        total += expected_returns(game, both)[seat]
    return total / game.num_players


def play(setting: str, name: str, seed: int) -> list[Point]:
    """Trains; the measures at the start and every `every` steps.

    Args:
        setting: a key of `SETTINGS`.
        name: of a variant.
        seed: of the run.
    """
    start = _start(setting, seed)
    points = learn_by_grpo(
        options(setting, name, seed),
        start.folder,
        start.tokenizer,
        SETTINGS[setting].every,
        _measures(setting),
    )
    return [start.point, *points]


@lru_cache(maxsize=2)  # one of each setting
def _start(setting: str, seed: int) -> Start:
    return make_saved_start(options(setting, REFERENCE, seed), _measures(setting))


def _measures(setting: str) -> Measured:
    return lambda policy: measured(policy, setting)


HEAD = f"""\
# Which opponents teach best

Written by `{BENCH.command.split()[-1]}` from [bench.json](bench.json).
[Plug-ins](../plugins.md#a-matchmaker) describes the matchmakers.

"""

METHOD = """\
## What was run

The tiny model of `arena train` learns from the same start by six choices of `--opponents`:

| Variant | Opponents |
|---|---|
| `self-play` | itself, every seat learns; the default of `arena train` |
| `mixture` | itself in 80 % of the starts, a past self in 20 % |
| `past_selves` | one of its snapshots, each equally often |
| `psro` | its snapshots, by an equilibrium of the matches between them |
| `optimal` | a fixed optimal policy |
| `random` | uniform random play |

- Every variant gets the same number of episodes and of optimizer steps. In self-play every seat
  learns, against any other opponent one seat does. So self-play has about twice as many turns to
  learn from, and takes longer.
- `psro` plays further episodes between snapshots. The model does not learn from them.
- A snapshot is taken every 10 steps. Each batch plays one snapshot (`max_live: 1`).
- All else is as in the recipe, but the runs in Kuhn poker had `credit: mars` over (group, seat). No option was tuned for a variant.

"""

MEASURED = """\
## What is measured

All figures are exact, by enumeration of the game. They are of the policy among its legal replies:
the probability of illegal replies is left out.

- **NashConv**: 0 at an equilibrium, lower is better. It is left out in tic-tac-toe, where a policy
  with one losing line in each seat is close to 2, the maximum. Two trial runs had 1.999.
- **Return** against a fixed policy: mean over both seats, higher is better. `minimax` draws among
  its best actions, more often those that punish errors. So no single line can be memorised. `cfr` is
  an equilibrium. Against both no policy has more than 0.
- Figures of a run are means over the last quarter of its points.

"""

TRAINED_ON = """\
- The variants `optimal` and `random` are trained on the opponent that one table measures.
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
    parts = [HEAD + missing_text(compared), *summary(with_runs), METHOD + _settings()]
    explanation = how_to_read(BENCH, "the start and the deals") + TRAINED_ON
    parts.append(MEASURED + explanation + power(BENCH, compared[0].num_seeds))
    if with_runs:
        parts.append(f"![Learning curves]({PICTURE})\n")
    parts += [tables(comparison) for comparison in with_runs]
    return "\n".join(parts)


def _settings() -> str:
    head = ["Game", "Recipe", "Steps", "Other options", "Optimal opponent"]
    rows = [
        [s.title, f"`{s.recipe}`", str(s.num_steps), _said(s.options), f"`{s.optimal}`"]
        for s in SETTINGS.values()
    ]
    return table(head, rows)


def _said(options: Mapping[str, Any]) -> str:
    """Options as in a recipe."""
    texts = [
        yaml.safe_dump(
            {name: value}, default_flow_style=True, sort_keys=False, width=999
        )
        for name, value in nested(options).items()
    ]
    return ", ".join(f"`{text.strip()[1:-1]}`" for text in texts)  # without braces


def main(
    directory: Annotated[Path, typer.Option(help="Folder of the files.")] = Path(
        "docs", "opponents"
    ),
    num_seeds: NumSeeds = 3,
    only: OnlyVariants = None,
    game: OnlySettings = None,
    num_jobs: NumJobs = 1,
) -> None:
    """Compare opponents: self-play, mixture, past selves, PSRO, optimal and random play.

    The tiny model learns Kuhn poker (kuhn) and tic-tac-toe (tic_tac_toe) against each of
    them. Exact measures: NashConv, and returns against optimal and against random play. Runs
    that are already in DIRECTORY/bench.json are not repeated, so run the command again after
    an interruption. It then writes README.md and learning.png. All runs take about 20 CPU
    minutes. The same code gives the same numbers.
    """
    compare(sys.modules[__name__], directory, num_seeds, only, game, num_jobs)


if __name__ == "__main__":
    run_script(main)
