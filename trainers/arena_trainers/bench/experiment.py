"""Settings, runs and the results file of the comparison of estimators."""

import json
import random
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from arena_envs import make_game
from arena_envs.solvers import complete_table, nash_conv
from arena_trainers.bench import tiny_model
from arena_trainers.bench.exact_values import EXACT, with_exact_values
from arena_trainers.bench.tabular import COLUMNS, KeyOf, TabularPolicy
from arena_trainers.credit import (
    FlatPoolWarning,
    default_options,
    estimate,
    estimator_names,
    needed_columns,
)
from arena_trainers.credit.proofs.report import undiscounted

NUM_STARTS, NUM_SAMPLES = 16, 8  # starts of a batch, samples of each start
NUM_POINTS = 20  # points of a curve
TINY = "tiny_model"  # the setting without a table; see the module of that name
Curve = list[float]
Runs = dict[str, dict[str, dict[str, Curve]]]  # by name of the setting, estimator, seed


@dataclass(frozen=True)
class Setting:
    """A game and its training, the same for all estimators.

    Args:
        title: of the game.
        id: of the game.
        num_batches: number of batches: 16 starts, each played 8 times.
        step: size of the first step; it falls to 0 linearly.
        bonus: weight of the entropy.
        params: of the game.
        measure: "nash_conv" (exact, of the policy) or "score" (mean of the episodes).
    """

    title: str
    id: str
    num_batches: int
    step: float
    bonus: float
    params: Mapping[str, Any] = field(default_factory=dict)
    measure: str = "nash_conv"

    @property
    def num_episodes(self) -> int:
        """Episodes of a run."""
        return self.num_batches * NUM_STARTS * NUM_SAMPLES


SETTINGS: Mapping[str, Setting] = {
    "kuhn": Setting("Kuhn poker", "kuhn_poker-v0", 400, 2.0, 0.1),
    "kuhn3": Setting(
        "Kuhn poker, 3 players", "kuhn_poker-v0", 400, 6.0, 0.1, {"num_players": 3}
    ),
    "leduc": Setting("Leduc poker", "leduc_poker-v0", 400, 16.0, 0.1),
    "mini_hanabi": Setting(
        "Mini Hanabi", "mini_hanabi-v0", 400, 16.0, 0.02, measure="score"
    ),
}


def runnable(setting: str) -> list[str]:
    """The estimators whose columns the setting has."""
    if setting == TINY:
        return list(tiny_model.ESTIMATORS)
    exact = SETTINGS[setting].measure == "nash_conv"
    columns = COLUMNS | EXACT if exact else COLUMNS
    return [
        name for name in estimator_names() if columns.issuperset(needed_columns(name))
    ]


def learn(setting: str, name: str, seed: int) -> Curve:
    """The learning curve of one run."""
    if setting == TINY:
        return tiny_model.train(name, seed)
    chosen = SETTINGS[setting]
    game = make_game(chosen.id, **chosen.params)
    scored = chosen.measure == "score"
    table = TabularPolicy(game, hints_and_fireworks(game) if scored else None)
    rng = random.Random(seed)
    options = undiscounted(name)
    needs_exact = not EXACT.isdisjoint(needed_columns(name))
    state: Mapping[str, Any] | None = None
    curve, since = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FlatPoolWarning)
        for number in range(chosen.num_batches):
            played = table.play(NUM_STARTS, NUM_SAMPLES, rng)
            since.append(played.mean_return)
            turns = with_exact_values(table, played) if needs_exact else played.turns
            credit = estimate(name, turns, state=state, **options)
            state = credit.state
            left = 1 - number / chosen.num_batches
            table.update(played, credit.advantage, chosen.step * left, chosen.bonus)
            if (number + 1) % (chosen.num_batches // NUM_POINTS) == 0:
                point = (
                    float(np.mean(since))
                    if scored
                    else nash_conv(game, complete_table(game, table.table()))
                )
                curve.append(round(point, 4))
                since.clear()
    return curve


def hints_and_fireworks(game: Any) -> KeyOf:
    """The key of a row in Hanabi: a part of what a seat knows, so that rows recur.

    Hints about the own cards, fireworks, which of the others' cards can be played now, and
    the legal actions.
    """

    def key(state: Any, seat: int) -> Hashable:
        others = tuple(
            state.fireworks[card // game.num_ranks] == card % game.num_ranks
            for ahead in range(1, game.num_players)
            for card in state.hands[(seat + ahead) % game.num_players]
        )
        legal = tuple(game.legal_actions(state))
        return state.hints[seat], state.fireworks, others, legal

    return key


def read_runs(path: Path) -> Runs:
    """The runs of a results file with the settings and options of today."""
    if not path.exists():
        return {}
    file = json.loads(path.read_text())
    now = made_with()
    return {
        game: {
            name: seeds
            for name, seeds in found.items()
            if file["options"].get(name) == now["options"].get(name)
        }
        for game, found in file["runs"].items()
        if file["settings"].get(game) == now["settings"].get(game)
    }


def made_with() -> dict[str, Any]:
    """Settings by name, and options by estimator, as read back from JSON."""
    settings = {name: asdict(setting) for name, setting in SETTINGS.items()}
    options = {
        name: {**default_options(name), **undiscounted(name)}
        for name in estimator_names()
    }
    found: dict[str, Any] = json.loads(
        json.dumps({"settings": settings, "options": options})
    )
    return found


def write_runs(path: Path, runs: Runs) -> None:
    """Writes a results file with its settings and options."""
    rows = [
        f'  "{game}": {{\n'
        + ",\n".join(
            f'   "{name}": {json.dumps(dict(sorted(seeds.items(), key=_number)))}'
            for name, seeds in sorted(found.items())
        )
        + "\n  }"
        for game, found in sorted(runs.items())
    ]
    head = [f' "{key}": {json.dumps(value)}' for key, value in made_with().items()]
    text = "{\n" + ",\n".join([*head, ' "runs": {\n'])
    path.write_text(text + ",\n".join(rows) + "\n }\n}\n")


def _number(item: tuple[str, Any]) -> int:
    return int(item[0])


def missing(
    runs: Runs, names: Sequence[str], settings: Sequence[str], num_seeds: int
) -> list[tuple[str, str, int]]:
    """The runs to do: (setting, estimator, seed), by seed, the longest setting first."""
    ordered = sorted(settings, key=lambda setting: setting != TINY)
    return [
        (setting, name, seed)
        for seed in range(num_seeds)
        for setting in ordered
        for name in runnable(setting)
        if name in names
        and not (setting == TINY and seed >= tiny_model.NUM_SEEDS)
        and str(seed) not in runs.get(setting, {}).get(name, {})
    ]


def run_missing(
    path: Path,
    todo: Sequence[tuple[str, str, int]],
    num_jobs: int,
    tell: Callable[[str], None],
) -> Runs:
    """Does runs in several processes; writes the file after each run."""
    runs = read_runs(path)
    with ProcessPoolExecutor(num_jobs) as pool:
        waiting = {pool.submit(learn, *one): one for one in todo}
        for count, future in enumerate(as_completed(waiting), 1):
            setting, name, seed = waiting[future]
            add(runs, setting, name, seed, future.result())
            write_runs(path, runs)
            tell(f"{count}/{len(todo)} {setting} {name} seed {seed}")
    return runs


def add(runs: Runs, setting: str, name: str, seed: int, curve: Curve) -> None:
    """Adds a run."""
    runs.setdefault(setting, {}).setdefault(name, {})[str(seed)] = curve
