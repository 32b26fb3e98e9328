"""How many times the games a mean is worth when the luck is taken out, by game and opponent.

    python benchmarks/luck_saved.py --out benchmarks/luck_saved.json

A row of the JSON has the variance of raw returns over that of adjusted ones, `worth`, with a bootstrap
interval over games, and the same in evaluations of 20, 50 and 100 games (`worth_at`), whose coefficients are
fitted on so few. Seat 0 is measured. Its probabilities are unknown, as those of an endpoint, or known.
The page docs/evaluation.md shows these rows.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

import arena_envs
from arena_eval.luck import adjusted_returns, fitted_coefficients
from arena_eval.recorded_luck import LuckCorrections
from arena_wrappers import (
    Episode,
    EpisodePlan,
    Policy,
    PromptWrapper,
    TurnRequest,
    make_policy,
    play_plans,
)

Floats = NDArray[np.float64]
SIZES = (20, 50, 100)
NUM_BOOTSTRAPS = 400


class Case(NamedTuple):
    """What is measured.

    Attributes:
        game: its id.
        policy: in seat 0.
        opponent: in the other seats; empty in games of one seat.
        values: each kind of values that is measured.
        num_games: as many as a minute or two of one CPU plays.
    """

    game: str
    policy: str
    opponent: str
    values: Sequence[str]
    num_games: int


CASES = (
    Case("kuhn_poker", "noisy:0.5(cfr)", "cfr", ("solver", "bots"), 1000),
    Case("leduc_poker", "noisy:0.5(cfr:300)", "cfr:300", ("solver", "bots"), 1000),
    Case("leduc_poker", "noisy:0.5(cfr:300)", "random", ("solver", "bots"), 1000),
    Case("goofspiel", "noisy:0.3(ismcts:30)", "random", ("bots",), 300),
    Case("liars_dice", "noisy:0.3(ismcts:30)", "random", ("bots",), 400),
    Case("liars_dice(num_dice=2)", "noisy:0.3(ismcts:30)", "random", ("bots",), 300),
    Case("blackjack", "noisy:0.3(ismcts:10)", "", ("bots",), 600),
    Case("frozen_lake", "noisy:0.1(mcts:20)", "", ("bots",), 400),
    Case("auction", "noisy:0.2(bidder:honest)", "bidder:greedy", ("bots",), 600),
    Case(
        "negotiation",
        "noisy:0.2(negotiator:honest)",
        "negotiator:honest",
        ("bots",),
        1000,
    ),
    Case(
        "deal_or_no_deal", "noisy:0.2(dealer:honest)", "dealer:honest", ("bots",), 400
    ),
    Case(
        "hanabi",
        "noisy:0.05(hanabi_convention)",
        "hanabi_convention",
        ("bots",),
        200,
    ),
    Case("limit_holdem", "noisy:0.3(ismcts:5)", "random", ("check_down",), 400),
)


class Unknown:
    """A policy that reports no probabilities, as a model behind an API."""

    def __init__(self, spec: str) -> None:
        self._policy, self.name = make_policy(spec), f"unknown:{spec}"

    def act(self, requests: Sequence[TurnRequest]) -> Sequence[Any]:
        """The replies of the policy."""
        return self._policy.act(requests)


def rows_of(
    case: Case, kinds: Sequence[str] = ("unknown", "known")
) -> list[dict[str, Any]]:
    """A row for each kind of values, and for unknown and known probabilities."""
    wrapper = PromptWrapper(arena_envs.make(case.game), on_invalid="forfeit")
    others = wrapper.env.game.num_players - 1
    opponents = [make_policy(case.opponent)] * others if case.opponent else []
    policy: Policy = make_policy(case.policy)
    plans = [
        EpisodePlan(wrapper.clone, [policy, *opponents], seed)
        for seed in range(case.num_games)
    ]
    episodes = play_plans(plans)
    returns = np.array([episode.returns[0] for episode in episodes])
    opponent: Policy | Literal["self"] = opponents[0] if opponents else "self"
    rows = []
    for values in case.values:
        for kind in kinds:
            evaluated = policy if kind == "known" else Unknown(case.policy)
            start = time.process_time()
            luck = LuckCorrections(wrapper, evaluated, opponent, values)
            corrections = corrections_of_seat_0(luck, episodes)
            if kind == "known" and not corrections[:, 2].any():
                continue  # the policy searches, and reports no probabilities either
            rows.append(
                {
                    "game": case.game,
                    "policy": case.policy,
                    "opponent": case.opponent,
                    "values": values,
                    "probabilities": kind,
                    **figures(returns, corrections),
                    "fit_seconds": round(luck.seconds, 1),
                    "milliseconds_per_game": round(
                        1000 * (time.process_time() - start) / len(returns), 1
                    ),
                }
            )
    return rows


def corrections_of_seat_0(luck: LuckCorrections, episodes: Sequence[Episode]) -> Floats:
    """float[games, kinds]."""
    luck.by_seed(0, episodes[:1])  # fits, so that the seconds of games are theirs
    by_seed = luck.by_seed(0, episodes)
    return np.array([by_seed[episode.seed] for episode in episodes])


def figures(returns: Floats, corrections: Floats) -> dict[str, Any]:
    """What the corrections are worth, in all games and in parts of them."""
    adjusted = adjusted_returns(returns, corrections)
    rng = np.random.default_rng(0)
    drawn = rng.integers(len(returns), size=(NUM_BOOTSTRAPS, len(returns)))
    ratios = [worth(returns[chosen], adjusted[chosen]) for chosen in drawn]
    low, high = np.quantile(ratios, [0.025, 0.975])
    coefficients = fitted_coefficients(returns, corrections)
    return {
        "num_games": len(returns),
        "worth": round(worth(returns, adjusted), 2),
        "low": round(float(low), 2),
        "high": round(float(high), 2),
        "worth_at": {
            str(size): round(worth_at(size, returns, corrections), 2)
            for size in SIZES
            if size <= len(returns)
        },
        "coefficients": [round(float(number), 2) for number in coefficients],
    }


def worth(returns: Floats, adjusted: Floats) -> float:
    """The variance of raw returns over that of adjusted ones."""
    return float(returns.var(ddof=1) / max(adjusted.var(ddof=1), 1e-12))


def worth_at(size: int, returns: Floats, corrections: Floats) -> float:
    """As `worth`, of evaluations of `size` games each, by their mean variances."""
    parts = [
        (returns[start : start + size], corrections[start : start + size])
        for start in range(0, len(returns) - size + 1, size)
    ]
    raw = sum(part.var(ddof=1) for part, _ in parts)
    left = sum(adjusted_returns(*part).var(ddof=1) for part in parts)
    return float(raw / max(left, 1e-12))


def main(arguments: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Runs the bench; prints and returns its rows."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--game", help="only this one")
    parser.add_argument("--out", help="file of JSON; rows of other games in it stay")
    options = parser.parse_args(arguments)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:  # fits anew
        os.environ["ARENA_CACHE"] = folder
        for case in CASES:
            if options.game in (None, case.game):
                for row in rows_of(case):
                    rows.append(row)
                    print(json.dumps(row), flush=True)
    if options.out:
        write(options.out, rows)
    return rows


def write(path: str, rows: Sequence[dict[str, Any]]) -> None:
    """Writes rows, in the order of `CASES`, beside those of other games in the file."""
    games = {row["game"] for row in rows}
    others: list[dict[str, Any]] = []
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            others = [row for row in json.load(file) if row["game"] not in games]
    order = [case.game for case in CASES]
    others = [row for row in others if row["game"] in order]
    together = sorted([*others, *rows], key=lambda row: order.index(row["game"]))
    with open(path, "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(map(json.dumps, together)) + "\n]\n")


if __name__ == "__main__":
    main()
