"""How often 95 % intervals hold the mean: raw, paired and adjusted, from 8 to 200 episodes.

    python benchmarks/interval_coverage.py --out coverage.json

Rows with `stopping` are of the intervals that `--until` reads, looked at after every episode up to 400
(adjusted ones from 50 on): the share of sequences in which all of them hold the mean, the mean width
at 400, and the same for Student's interval.

Draws samples from known laws and from pools of played games, where the pool's mean is the true one. A row
of the JSON has the coverage and the mean width of the interval that `arena eval` prints, and of
Student's. `unseen` is the share of samples without the law's lowest or its highest value.

| Law | Payoffs |
|---|---|
| poker | skewed: -1, 1, 13, and -13 once in 200 |
| rare loss | 0, 0.5, and -10 in 2 % |
| forfeits | 1 in 70 %, -1 in 27 %, -13 in 3 % |
| even | wins and losses |
| mostly zero | differences: 0 in 92 % |
| slips | differences of two policies that differ in 5 % of turns |
| Leduc, Hanabi | pools of games; Leduc also paired, and with the luck taken out |

Rows with `chosen` are of means with the luck taken out by the values `bots`. These are reported only if their
estimated variance is smaller: `chosen` is the share of samples in which it is. Coverage and `worth` (the
variance of raw means divided by that of adjusted ones) are over these samples.
"""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import arena_envs
from arena_envs.game import bounds_of
from arena_eval.confidence_sequences import (
    MIN_ASYMPTOTIC,
    PLANNED,
    asymptotic_interval,
    betting_interval,
)
from arena_eval.intervals import (
    adjusted_interval,
    mean_interval,
    paired_interval,
    student_interval,
)
from arena_eval.luck import adjusted_mean, adjusted_returns
from arena_eval.recorded_luck import LuckCorrections
from arena_wrappers import EpisodePlan, PromptWrapper, make_policy, play_plans

Floats = NDArray[np.float64]
SIZES = (8, 12, 20, 50, 100, 200)


class Law(NamedTuple):
    """Payoffs with their probabilities.

    Attributes:
        kind: raw, paired or adjusted; it decides the interval.
        values: distinct, or a pool.
        chances: of each value.
        low: least possible mean.
        high: largest possible mean.
    """

    kind: str
    values: Floats
    chances: Floats
    low: float
    high: float


def law_of(kind: str, law: dict[float, float], low: float, high: float) -> Law:
    """A law by value and probability."""
    chances = np.array([*law.values()])
    return Law(kind, np.array([*law], float), chances / chances.sum(), low, high)


def pool_of(kind: str, values: Floats, low: float, high: float) -> Law:
    """The law that draws from a pool."""
    return Law(kind, values, np.full(len(values), 1 / len(values)), low, high)


def fixed_laws() -> dict[str, Law]:
    """Laws that are written down here."""
    slips: dict[float, float] = {
        -6: 0.002,
        -4: 0.0222,
        -2: 0.0162,
        0: 0.9188,
        2: 0.0192,
        4: 0.021,
    }
    return {
        "poker": law_of("raw", {-1: 0.6, 1: 0.355, 13: 0.04, -13: 0.005}, -13, 13),
        "rare loss": law_of("raw", {0: 0.6, 0.5: 0.38, -10: 0.02}, -10, 10),
        "forfeits": law_of("raw", {1: 0.7, -1: 0.27, -13: 0.03}, -13, 13),
        "even": law_of("raw", {-1: 0.5, 1: 0.5}, -1, 1),
        "mostly zero": law_of("paired", {0: 0.92, 4: 0.05, -6: 0.03}, -26, 26),
        "slips": law_of("paired", {**slips, 6: 0.0006}, -26, 26),
    }


def played_laws(num_games: int) -> dict[str, Law]:
    """Laws of games of Leduc poker and of Hanabi."""
    leduc, opponent = "leduc_poker", "cfr:300"
    raw, adjusted = leduc_games(leduc, "noisy:0.5(cfr:300)", opponent, num_games)
    other, _ = leduc_games(leduc, "noisy:0.2(cfr:300)", opponent, num_games)
    hanabi = returns_of("hanabi", "noisy:0.05(hanabi_convention)", num_games)
    return {
        "Leduc": pool_of("raw", raw, -13, 13),
        "Leduc, paired": pool_of("paired", raw - other, -26, 26),
        "Leduc, luck out": pool_of("adjusted", adjusted, -13, 13),
        "Hanabi": pool_of("raw", hanabi, 0, 25),
    }


def leduc_games(
    game: str, policy: str, opponent: str, num_games: int
) -> tuple[Floats, Floats]:
    """Returns of seat 0, and these with the luck taken out for an unknown policy."""
    wrapper = PromptWrapper(arena_envs.make(game), on_invalid="forfeit")
    players = [make_policy(policy), make_policy(opponent)]
    plans = [EpisodePlan(wrapper.clone, players, seed) for seed in range(num_games)]
    episodes = play_plans(plans)
    returns = np.array([episode.returns[0] for episode in episodes])
    luck = LuckCorrections(wrapper, players[0], players[1], "solver")
    by_seed = luck.by_seed(0, episodes)
    corrections = np.array([by_seed[episode.seed] for episode in episodes])
    corrections[:, 2] = 0  # of the policy itself, whose probabilities are unknown
    return returns, adjusted_returns(returns, corrections)


def returns_of(game: str, policy: str, num_games: int) -> Floats:
    """Returns of seat 0 in self-play."""
    wrapper = PromptWrapper(arena_envs.make(game), on_invalid="forfeit")
    players = [make_policy(policy)] * 2
    plans = [EpisodePlan(wrapper.clone, players, seed) for seed in range(num_games)]
    return np.array([episode.returns[0] for episode in play_plans(plans)])


def interval_of(law: Law) -> Callable[[Floats], tuple[float, float]]:
    """The interval that an evaluation prints for this kind of numbers."""
    if law.kind == "raw":
        return lambda sample: mean_interval(sample.tolist(), law.low, law.high)
    if law.kind == "paired":
        return lambda sample: paired_interval(sample.tolist(), law.high)
    return lambda sample: adjusted_interval(sample, law.low, law.high)


def rows_of(name: str, law: Law, num_runs: int) -> Iterator[dict[str, Any]]:
    """A row for each number of episodes."""
    rng = np.random.default_rng(1)
    mean, interval = float(law.values @ law.chances), interval_of(law)
    for size in SIZES:
        if law.kind == "adjusted" and size < PLANNED.min_adjusted:
            continue  # nothing is printed
        samples = rng.choice(law.values, (num_runs, size), p=law.chances)
        ends = np.array([interval(sample) for sample in samples])
        student = np.array([student_interval(sample) for sample in samples])
        is_extreme = [
            (samples == law.values.min()).any(axis=1),
            (samples == law.values.max()).any(axis=1),
        ]
        yield {
            "law": name,
            "kind": law.kind,
            "n": size,
            "coverage": coverage(ends, mean),
            "width": float(np.diff(ends).mean()),
            "student_coverage": coverage(student, mean),
            "student_width": float(np.diff(student).mean()),
            "unseen": float(1 - np.all(is_extreme, axis=0).mean()),
            "num_runs": num_runs,
        }


FITTED = (
    ("blackjack", "noisy:0.3(ismcts:10)", ""),
    ("negotiation", "noisy:0.2(negotiator:honest)", "negotiator:honest"),
)


def chosen_rows(
    game: str, policy: str, opponent: str, num_games: int, num_runs: int
) -> Iterator[dict[str, Any]]:
    """A row for each number of episodes, of means that are adjusted where that seems to help."""
    wrapper = PromptWrapper(arena_envs.make(game), on_invalid="forfeit")
    players = [make_policy(spec) for spec in (policy, opponent) if spec]
    plans = [EpisodePlan(wrapper.clone, players, seed) for seed in range(num_games)]
    episodes = play_plans(plans)
    returns = np.array([episode.returns[0] for episode in episodes])
    luck = LuckCorrections(
        wrapper, players[0], players[-1] if opponent else "self", "bots"
    )
    corrections = luck.rows(0, episodes, num_games)
    corrections[:, 2] = 0  # of the policy itself, whose probabilities are unknown
    corrections -= corrections.mean(axis=0)  # so that the pool has one mean
    rng, mean = np.random.default_rng(3), float(returns.mean())
    for size in SIZES:
        if size < PLANNED.min_adjusted:
            continue
        ends, means, raw = [], [], []
        for drawn in rng.integers(num_games, size=(num_runs, size)):
            adjusted = adjusted_mean(
                returns[drawn],
                corrections[drawn],
                bounds_of(wrapper.env.game),
                "bots",
                0.0,
            )
            if adjusted is not None:
                ends.append((adjusted.low, adjusted.high))
                means.append(adjusted.mean)
                raw.append(returns[drawn].mean())
        errors = np.subtract([raw, means], mean)
        yield {
            "law": game,
            "kind": "adjusted",
            "chosen": len(ends) / num_runs,
            "n": size,
            "coverage": coverage(np.array(ends), mean),
            "worth": float(np.mean(errors[0] ** 2) / np.mean(errors[1] ** 2)),
            "num_runs": num_runs,
        }


NUM_STOPPING = 400  # episodes of a sequence


def stopping_row(name: str, law: Law, num_runs: int) -> dict[str, Any]:
    """A row of the intervals under stopping."""
    rng = np.random.default_rng(2)
    mean = float(law.values @ law.chances)
    sequences = rng.choice(law.values, (num_runs, NUM_STOPPING), p=law.chances)
    is_held, widths, student = [], [], []
    for sequence in sequences:
        if law.kind == "adjusted":
            first = MIN_ASYMPTOTIC
            looks = range(first, NUM_STOPPING + 1)
            ends = np.array([asymptotic_interval(sequence[:n]) for n in looks])
        else:  # the interval of all episodes is within those of fewer
            ends = np.array([betting_interval(sequence, law.low, law.high)])
        is_held.append(coverage(ends, mean) == 1)
        widths.append(ends[-1, 1] - ends[-1, 0])
        looks = range(MIN_ASYMPTOTIC, NUM_STOPPING + 1, 5)
        naive = np.array([student_interval(sequence[:n]) for n in looks])
        student.append(coverage(naive, mean) == 1)
    return {
        "law": name,
        "kind": law.kind,
        "stopping": True,
        "n": NUM_STOPPING,
        "coverage": float(np.mean(is_held)),
        "width": float(np.mean(widths)),
        "student_coverage": float(np.mean(student)),
        "num_runs": num_runs,
    }


def coverage(ends: Floats, mean: float) -> float:
    """The share of intervals that hold the mean."""
    is_held = (ends[:, 0] - 1e-9 <= mean) & (mean <= ends[:, 1] + 1e-9)
    return float(is_held.mean())


def main(arguments: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Runs the bench; prints and returns its rows."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--num-runs", type=int, default=500)
    parser.add_argument("--num-games", type=int, default=1000, help="of each pool")
    parser.add_argument("--out", help="file of JSON")
    options = parser.parse_args(arguments)
    rows = []
    for name, law in (fixed_laws() | played_laws(options.num_games)).items():
        for row in (
            *rows_of(name, law, options.num_runs),
            stopping_row(name, law, options.num_runs),
        ):
            rows.append(row)
            print(json.dumps(row), flush=True)
    for game, policy, opponent in FITTED:
        for row in chosen_rows(
            game, policy, opponent, options.num_games, options.num_runs
        ):
            rows.append(row)
            print(json.dumps(row), flush=True)
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    return rows


if __name__ == "__main__":
    main()
