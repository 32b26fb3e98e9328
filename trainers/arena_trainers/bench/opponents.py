"""The comparison of opponents: runs of `arena train` with the tiny model, measured exactly.

`measured` gives the exact figures of a policy, by enumeration of the game.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from arena_envs import make_game
from arena_envs.game import AnyGame
from arena_envs.solvers import (
    CFRPlus,
    PerfectInformation,
    Table,
    expected_returns,
    information_states,
    nash_conv,
    uniform_table,
)
from arena_trainers.bench.gains import Bench, Curves, Measure
from arena_trainers.evaluate.exploit import tabular
from arena_trainers.job.settings import load_recipe
from arena_wrappers import ScoringPolicy

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
    "arena bench opponents",
    SETTINGS,
    "optimizer step",
    VARIANTS,
    REFERENCE,
    MEASURES,
)


def made_with() -> dict[str, Any]:
    """What decides the numbers."""
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
    chosen = SETTINGS[setting]
    own = {
        "games": [chosen.game],
        "opponents": variants(setting)[name],
        "seed": seed,
        "max_steps": chosen.num_steps,
        "save_strategy": "no",
        "logging_strategy": "no",
    }
    return {**load_recipe(chosen.recipe), **chosen.options, **own}


def train(setting: str, name: str, seed: int) -> Curves:
    """The curves of a run: its measures at the start, then every `every` steps."""
    from arena_trainers.bench.opponent_run import play

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
    own, _ = tabular(policy, game)
    found = {name: _mean_return(game, own, table) for name, table in others.items()}
    if "nash_conv" in SETTINGS[setting].measures:
        found["nash_conv"] = nash_conv(game, own)
    return found


@lru_cache
def _game(setting: str) -> tuple[AnyGame, dict[str, Table]]:
    """The game, and the tables of the opponents that measure."""
    game = make_game(SETTINGS[setting].game)
    tables = {
        "against_optimal": _optimal_table(game),
        "against_random": uniform_table(game),
    }
    return game, tables


def _optimal_table(game: AnyGame) -> Table:
    """Minimax with random choices among best actions, or the average policy of CFR+."""
    if game.information != "perfect":
        solver = CFRPlus(game)
        solver.run(NUM_ITERATIONS)
        return solver.average_policy()
    search = PerfectInformation(game)
    found = {}
    for key, state in information_states(game).items():
        chances = search.policy(state)
        found[key] = [chances.get(action, 0.0) for action in game.legal_actions(state)]
    return found


def _mean_return(game: AnyGame, own: Table, other: Table) -> float:
    total = 0.0
    for seat in range(game.num_players):
        both = {key: (own if key[0] == seat else other)[key] for key in own}
        total += expected_returns(game, both)[seat]
    return total / game.num_players
