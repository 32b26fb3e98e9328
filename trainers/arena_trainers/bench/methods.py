"""The comparison of methods: the tiny model learns by each from equally many episodes.

Each run starts from the same supervised start on random legal play. `method_run` does a run.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from arena_trainers.bench.gains import Bench, Curves, Measure
from arena_trainers.job.settings import load_recipe

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
    """How a variant learns: some rounds from selected rows, then by self-play.

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
            grpo={"credit_args": {"pool": ["game", "seat"]}, "ref_model_sync_steps": 50}
        ),
        "kickstart": Method(
            num_rounds=2,
            select={"selector": "solver_replies", "solver": "cfr"},
            train={**_SFT, "max_steps": 40, "learning_rate": 3e-3},
            grpo={
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
                "credit_args": {"scale": "std", "pool": ["group", "seat", "turn"]},
            }
        ),
        "kickstart": Method(
            num_rounds=1,
            select={"selector": "solver_replies", "solver": "hanabi_convention"},
            train={**_SFT, "max_steps": 40, "learning_rate": 3e-3},
            grpo={
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
    "arena bench methods",
    SETTINGS,
    "episodes",
    VARIANTS,
    REFERENCE,
    MEASURES,
)


def made_with() -> dict[str, Any]:
    """What decides the numbers."""
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
    chosen, method = SETTINGS[setting], METHODS[setting][name]
    found = {**start_options(setting, seed), **method.grpo}
    num_episodes = (chosen.num_rounds - method.num_rounds) * chosen.every
    steps = {"max_steps": num_episodes // found["episodes_per_step"]}
    return {**found, **steps, "save_strategy": "no", "logging_strategy": "no"}


def train(setting: str, name: str, seed: int) -> Curves:
    """The curves of a run: its measures at the start, then after every round."""
    from arena_trainers.bench.method_run import learn

    points = learn(setting, name, seed)
    return {
        measure: [round(point[measure], 4) for point in points]
        for measure in SETTINGS[setting].measures
    }
