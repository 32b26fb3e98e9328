"""What each credit learns, with step and entropy bonus tuned for each: `rounds`, and games.

Every variant gets the same budget. Each pair of a step and a bonus is run on two or four seeds, and
the best pair is then run on ten others.

    python benchmarks/credit_tuned.py

keeps its runs in tuned.json and repeats none; then `python benchmarks/credit_bench.py` writes the
pages from it.
"""

import itertools
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer

import comparing
from arena_credit import FlatPoolWarning
from arena_envs.games.rounds import Rounds
from arena_eval.intervals import import_stats
from arena_trainers.cli.errors import usage_errors
from arena_trainers.cli.suggest import MeanDifference
from credit_payments import DOCS, SIZE, rounds_graph
from credit_payments import TITLES as MEASURED_TITLES
from credit_payments import VARIANTS as MEASURED
from credit_runs import Crediting, Learner
from credit_settings import SETTINGS, Setting, Variant
from tabular import Floats, Graph, TabularPolicy

NUM_STARTS, NUM_SAMPLES, NUM_BATCHES = 4, 8, 100  # of a run of `rounds`
NUM_SEEDS = 10
GOAL = 0.9  # probability of the right answer, mean of all rounds and symbols


@dataclass(frozen=True)
class Payment:
    """A game of `rounds`, by its options, with the steps and bonuses that are tried."""

    options: Mapping[str, Any] = field(default_factory=dict)
    steps: tuple[float, ...] = (2.0, 8.0, 32.0)
    bonuses: tuple[float, ...] = (0.0, 0.02)
    seeds: tuple[int, ...] = (100, 101)


@dataclass(frozen=True)
class SelfPlay:
    """A game of `credit_settings`, with factors of its step and bonus that are tried."""

    setting: str
    steps: tuple[float, ...] = (0.5, 1.0, 2.0)
    bonuses: tuple[float, ...] = (1.0, 3.0)
    seeds: tuple[int, ...] = (100, 101)


TUNED: Mapping[str, Payment | SelfPlay] = {
    "each round": Payment(),
    "falling stakes": Payment({"stakes": "falling"}),
    "each round, luck of 20 after the first": Payment({"luck": 20}),
    "each round, and a wage of 2": Payment({"wage": 2}),
    "each round, and an advance of 20": Payment({"advance": 20}),
    "at the end": Payment({"delay": 8}),
    "rising stakes": Payment(
        {"stakes": "rising"}, (8.0, 16.0, 32.0), seeds=(100, 101, 102, 103)
    ),  # two seeds chose a step of 32 for some, at which other seeds stall
    "each round, luck of 20 after the last": Payment(
        {"luck": 20, "luck_after": "last"}
    ),
    **{SETTINGS[name].title: SelfPlay(name) for name in ("goofspiel", "kuhn")},
}

VARIANTS = {
    name: variant
    for name, variant in MEASURED.items()
    if "paid" not in variant.options and variant.estimator != "mars_loo"
}  # `mars_loo` takes the steps of `mars` where all groups have one size
VARIANTS["control_variates"] = Variant("control_variates")
TITLES = {**MEASURED_TITLES, "control_variates": "`control_variates`"}


class Outcome(NamedTuple):
    """A run of `rounds`: batches until `GOAL` (`NUM_BATCHES` if never), last and mean skill.

    Of a game: the mean of the last quarter, twice; `batches` is 0.
    """

    batches: int
    last: float
    mean: float


@cache
def _graph_of(options: tuple[tuple[str, Any], ...]) -> Graph:
    return rounds_graph(Rounds(**SIZE, **dict(options)))


def learn_rounds(
    payment: Payment, variant: Variant, seed: int, step: float, bonus: float
) -> Outcome:
    """A run of `rounds`. All rounds share their logits, as they share a model's weights."""
    graph = _graph_of(tuple(payment.options.items()))
    game: Any = graph.game
    table, credit = TabularPolicy(graph), Crediting(variant)
    rng, skills = np.random.default_rng(seed), []
    num = game.num_symbols
    answers = np.array([game.right_answer(symbol) for symbol in range(num)])
    symbols = np.arange(num)
    for number in range(NUM_BATCHES):
        played = table.play(NUM_STARTS, NUM_SAMPLES, rng)
        advantage = credit(table, played)
        before = table.logits.copy()
        table.update(played, advantage, step * (1 - number / NUM_BATCHES), bonus)
        _tie(table, before, game)
        skills.append(table.probabilities(symbols)[symbols, answers].mean())
    return _outcome(np.array(skills))


def _tie(table: TabularPolicy, before: Floats, game: Rounds) -> None:
    """Adds the changes of all rounds to the logits of each; rows are by round, symbol."""
    num, width = game.num_rounds * game.num_symbols, game.num_answers
    shape = (game.num_rounds, game.num_symbols, width)
    change = (table.logits - before)[:num].reshape(shape).sum(axis=0)
    table.logits[:num] = before[:num] + np.tile(change, (game.num_rounds, 1))
    table.remember(np.arange(num))


def _outcome(skills: Floats) -> Outcome:
    hit = np.flatnonzero(skills >= GOAL)
    batches = int(hit[0]) + 1 if len(hit) else NUM_BATCHES
    last, mean = skills[-NUM_BATCHES // 4 :].mean(), skills.mean()
    return Outcome(batches, round(float(last), 4), round(float(mean), 4))


def learn_game(
    self_play: SelfPlay, variant: Variant, seed: int, step: float, bonus: float
) -> Outcome:
    """A run of a game with its step and bonus times these factors."""
    learner = Learner(self_play.setting, [variant], seed)
    base: Setting = learner.setting
    learner.setting = replace(base, step=base.step * step, bonus=base.bonus * bonus)
    learner.train(base.num_batches)
    [curve] = learner.curves
    last = comparing.final(curve)
    return Outcome(0, round(last, 4), round(float(np.mean(curve)), 4))


class Tried(NamedTuple):
    """A variant with a step and a bonus, or with factors of those of the game."""

    variant: str
    step: float
    bonus: float

    @property
    def key(self) -> str:
        """In the file of the runs."""
        return f"{self.variant}, step {self.step:g}, bonus {self.bonus:g}"


def tried(title: str, variant: str) -> list[Tried]:
    """What is tried of a variant in a setting."""
    pairs = itertools.product(TUNED[title].steps, TUNED[title].bonuses)
    return [Tried(variant, *pair) for pair in pairs]


@cache
def _by_key() -> dict[str, Tried]:
    every = (trial for t in TUNED for v in VARIANTS for trial in tried(t, v))
    return {trial.key: trial for trial in every}


def run(title: str, key: str, seed: int) -> Outcome:
    """A run of a setting with what is tried; see `Tried.key`."""
    tuned, trial = TUNED[title], _by_key()[key]
    learn: Any = learn_rounds if isinstance(tuned, Payment) else learn_game
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FlatPoolWarning)
        outcome: Outcome = learn(
            tuned, VARIANTS[trial.variant], seed, trial.step, trial.bonus
        )
    return outcome


def made_with() -> dict[str, Any]:
    """What decides the numbers, as read back from JSON."""
    settings = {
        title: asdict(tuned)
        | (asdict(SETTINGS[tuned.setting]) if isinstance(tuned, SelfPlay) else {})
        for title, tuned in TUNED.items()
    }
    variants = {
        key: {
            "estimator": v.estimator,
            **v.all_options,
            "step": o.step,
            "bonus": o.bonus,
        }
        for key, o in _by_key().items()
        for v in [VARIANTS[o.variant]]
    }
    batches = [NUM_STARTS, NUM_SAMPLES, NUM_BATCHES, GOAL]
    return comparing.as_json(
        {"batches": batches, "settings": settings, "variants": variants}
    )


def higher(title: str) -> bool:
    """Whether a larger outcome is better."""
    tuned = TUNED[title]
    return isinstance(tuned, Payment) or SETTINGS[tuned.setting].higher


def best(title: str, variant: str, runs_by_key: Mapping[str, Any]) -> Tried | None:
    """What is best on the seeds for tuning; None while a run is missing.

    By the mean skill in `rounds`, and by the last quarter of the curve in games.
    """
    field_of = "mean" if isinstance(TUNED[title], Payment) else "last"
    sign = 1 if higher(title) else -1
    scores = {}
    for trial in tried(title, variant):
        runs = runs_by_key.get(trial.key, {})
        if any(seed not in runs for seed in TUNED[title].seeds):
            return None
        values = [
            getattr(Outcome(*runs[seed]), field_of) for seed in TUNED[title].seeds
        ]
        scores[trial] = sign * float(np.mean(values))
    return max(scores, key=lambda one: scores[one])


def todo(
    title: str, runs: comparing.Runs, names: Sequence[str]
) -> list[comparing.Task]:
    """The runs of a setting that are missing: those for tuning, then those of the best."""
    found = runs.get(title, {})
    tuning = [
        (title, one.key, seed)
        for name in names
        for one in tried(title, name)
        for seed in TUNED[title].seeds
        if seed not in found.get(one.key, {})
    ]
    if tuning:
        return tuning
    chosen = [best(title, name, found) for name in names]
    return [
        (title, one.key, seed)
        for one in chosen
        for seed in range(NUM_SEEDS)
        if one is not None and seed not in found.get(one.key, {})
    ]


OWN, EPISODE = "random_effects", "dr_grpo (game, seat)"


def outcomes(title: str, runs: comparing.Runs) -> dict[str, list[float]]:
    """Of each variant with all runs: batches until `GOAL`, or the last quarter of the curve."""
    found, values = runs.get(title, {}), {}
    is_rounds = isinstance(TUNED[title], Payment)
    for name in VARIANTS:
        chosen = best(title, name, found)
        of = found.get(chosen.key, {}) if chosen else {}
        ran = [Outcome(*of[seed]) for seed in range(NUM_SEEDS) if seed in of]
        if len(ran) == NUM_SEEDS:
            values[name] = [float(r.batches) if is_rounds else r.last for r in ran]
    return values


def outcome_table(titles: Sequence[str], runs: comparing.Runs) -> str:
    """Mean outcome of each variant; bold if significantly better than the default."""
    rows = []
    for title in titles:
        values = outcomes(title, runs)
        others = [name for name in values if name != OWN]
        found = comparing.holm(
            {n: comparing.difference(values[n], values[OWN]) for n in others}
        )
        cells = [_outcome_cell(values.get(n), found.get(n), title) for n in VARIANTS]
        rows.append([title, *cells, *_power(values)])
    head = ["", *(TITLES[name] for name in VARIANTS)]
    return comparing.table([*head, "found, 10 seeds", "found, 3 seeds"], rows)


def _outcome_cell(
    values: Sequence[float] | None, found: MeanDifference | None, title: str
) -> str:
    if values is None:
        return "-"
    is_rounds = isinstance(TUNED[title], Payment)
    more = 1 if higher(title) and not is_rounds else -1
    mean = comparing.interval(values)
    never = mean.mean == NUM_BATCHES
    digits = 1 if is_rounds else 3
    text = f"{mean.mean:.{digits}f} ± {mean.mean - mean.low:.{digits}f}"
    text = f"over {NUM_BATCHES}" if never else text
    if found is None or not found.is_significant:
        return text
    return f"**{text}**" if found.value * more > 0 else f"*{text}*"


def _power(values: Mapping[str, Sequence[float]]) -> list[str]:
    """The differences between the default and the episode that 10 and 3 seeds find.

    With power 80 % at p < 0.05: (t(.975) + t(.8)) √((s₁² + s₂²) / n).
    """
    t = import_stats().t
    spread = sum(float(np.var(values[name], ddof=1)) for name in (OWN, EPISODE))
    found = []
    for num in (NUM_SEEDS, 3):
        wide = sum(float(t.ppf(p, 2 * num - 2)) for p in (0.975, comparing.POWER))
        found.append(f"{wide * (spread / num) ** 0.5:.3g}")
    return found


FILE = "tuned.json"


def committed() -> comparing.Runs:
    """The runs of docs/credit/tuned.json."""
    folder = Path(__file__).resolve().parents[1] / DOCS
    return comparing.read(folder / FILE, made_with())


def complete(runs: comparing.Runs) -> list[str]:
    """The settings of which no run is missing."""
    return [title for title in TUNED if not todo(title, runs, list(VARIANTS))]


def main(
    directory: Annotated[Path, typer.Option(help="Folder of tuned.json.")] = DOCS,
    only: comparing.OnlyVariants = None,
    game: comparing.OnlySettings = None,
    num_jobs: comparing.NumJobs = 1,
) -> None:
    """Tune and compare credit in `rounds` and in games; write tuned.json."""
    with usage_errors():
        names = comparing.chosen(only, VARIANTS)
        titles = comparing.chosen(game, TUNED)
    path, about = directory / FILE, made_with()
    comparing.tell_outdated(path, about)
    for title in titles:
        with comparing.kept_runs(path):
            while tasks := todo(title, comparing.read(path, about), names):
                comparing.run_missing(path, about, tasks, run, num_jobs, typer.echo)


if __name__ == "__main__":
    comparing.run_script(main)
