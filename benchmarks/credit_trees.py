"""Trees and critics before the payments of `credit_payments`, with what they cost in played turns.

The policy is that of `credit_payments`: right half of the time. Batches are played by
`arena_wrappers.play`. A tree's candidates are played to their ends; all their turns are credited, and
counted as played. With xₜ = Aₜ ∇log π of a turn, eₜ the same under the exact advantage and
mₜ its expectation in the turn's state, the noise is

    (played / credited turns) · Q · E*|e|² / (c E|e|²)²,   c = E⟨x, m⟩ / E|m|²,
    Q = E|Σₜ (xₜ - c mₜ)|² / T + c² E|m|²

E is over the T credited turns of a batch, E* over those of plain episodes. Q is the mean square
of a turn's gradient, plus the covariance of turns beyond that of their states. In plain
episodes whose turns are independent it is the noise of `credit_payments`. So it is 1 at best
without trees, and says how many times as many turns must be played for the same certainty. Its
interval is a 95 % jackknife over batches, of its logarithm.

    python benchmarks/credit_trees.py

writes trees.json in about five CPU minutes; `benchmarks/credit_language.py` has the table.
"""

import json
import math
import random
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer

from arena_credit import FlatPoolWarning, TurnBatch, estimate
from arena_envs import GameEnv
from arena_envs.games.rounds import Rounds
from arena_trainers.train.critics.features import FeatureCritic
from arena_trainers.train.records import TurnRecord, turn_records
from arena_trainers.train.turn_batches import turn_batch
from arena_wrappers import Branching, PromptWrapper, play
from arena_wrappers.policies import Reply, TurnRequest
from comparing import run_script
from credit_payments import DOCS, PAYMENTS, SIZE, SKILL, Noise
from credit_settings import NUM_SAMPLES, NUM_STARTS, POOLS, Variant
from tabular import Floats

FILE = "trees.json"
NUM_BATCHES, NUM_FITTED = (
    30,
    20,
)  # that are measured, and that only a critic sees before
TREE = Branching(4, follow="random")
COLUMNS = ("state_key", "action", "parent", "features")


@dataclass(frozen=True)
class Column:
    """An estimator with what it needs.

    Args:
        title: in the table.
        variant: the estimator.
        is_tree: whether episodes branch at every turn; else a start is played 8 times.
        has_critic: whether values come from a network on the features of a state.
    """

    title: str
    variant: Variant
    is_tree: bool = False
    has_critic: bool = False


VARIANTS: Mapping[str, Column] = {
    "episode": Column("episode", Variant("dr_grpo", {"pool": POOLS["game, seat"]})),
    "random_effects": Column(
        "`random_effects`", Variant("random_effects", {"paid": False})
    ),
    "gae": Column("`gae`, critic", Variant("gae"), has_critic=True),
    "agentprm": Column("`agentprm`", Variant("agentprm")),
    "agentprm tree": Column("`agentprm`, tree", Variant("agentprm"), is_tree=True),
    "at_grpo tree": Column(
        "`at_grpo`, tree", Variant("at_grpo", {"scale": "none"}), is_tree=True
    ),
}


class HalfRight:
    """Gives the right answer with probability `SKILL`, else one of the others."""

    name = "self"

    def act(self, requests: Sequence[TurnRequest]) -> list[Reply]:
        return [
            Reply(self._text(request), [0], [0, 0], [0.0, 0.0]) for request in requests
        ]

    def _text(self, request: TurnRequest) -> str:
        game: Any = request.game
        rng = random.Random(request.seed)
        right = game.right_answer(request.state.symbol)
        others = [a for a in range(game.num_answers) if a != right]
        action = right if rng.random() < SKILL else rng.choice(others)
        return str(game.action_text(request.state, action))


def batch_of(
    game: Rounds, first: int, is_tree: bool
) -> tuple[TurnBatch, list[TurnRecord]]:
    """A batch and its records, one for each turn that was played.

    Args:
        game: of one seat.
        first: seed of the first start.
        is_tree: whether episodes branch; then there is one tree of each start.
    """
    branch = TREE if is_tree else None
    samples = 1 if is_tree else NUM_SAMPLES
    env = PromptWrapper(GameEnv(game), rules=False, reply_format="bare")
    seeds = range(first, first + NUM_STARTS)
    options: dict[str, Any] = {"num_samples": samples, "branch": branch}
    episodes = play(env.clone, HalfRight(), seeds, on_error="raise", **options)
    policies = [["self"]] * len(episodes)
    games = [0] * len(episodes)
    records = turn_records(episodes, games, policies, [game], COLUMNS, branching=branch)
    return turn_batch([records], {}, ["rounds"], COLUMNS), records


class Turns:
    """The credited turns of a batch, and the sums of their gradients that the noise is made of.

    Rounds of equal stakes share the rows of their symbols.
    """

    def __init__(self, game: Rounds, records: Sequence[TurnRecord]) -> None:
        states: list[Any] = [record.state for record in records]
        number = np.array([state.number for state in states])
        symbol = np.array([state.symbol for state in states])
        shared = game.stakes == "equal"
        self._row = symbol + (0 if shared else number) * game.num_symbols
        self._num_rows = (1 if shared else game.num_rounds) * game.num_symbols
        right = np.array([game.right_answer(value) for value in symbol])
        actions = np.array([record.action for record in records], np.int64)
        here = np.arange(len(states))
        wrong = (1 - SKILL) / (game.num_answers - 1)
        chances = np.full((len(states), game.num_answers), wrong)
        chances[here, right] = SKILL
        self._score = -chances
        self._score[here, actions] += 1
        stake = np.array([float(game.stake(n)) for n in number])
        self.exact = stake * ((actions == right) - SKILL)
        gain = -SKILL * np.ones_like(chances)
        gain[here, right] += 1
        self._mean = stake[:, None] * chances * gain  # its sum over actions is 0

    def sums(self, advantage: Floats, num_played: int) -> Floats:
        """float64[8]: played and credited turns, and sums over the batch."""
        x, m = advantage[:, None] * self._score, self._mean
        e = self.exact[:, None] * self._score
        both = np.zeros((2, self._num_rows, x.shape[1]))
        for whole, part in zip(both, (x, m), strict=True):
            np.add.at(whole, self._row, part)
        xs, ms = both
        products = [(x * m).sum(), (m * m).sum(), (e * e).sum()]
        return np.array(
            [
                num_played,
                len(x),
                *products,
                (xs**2).sum(),
                (xs * ms).sum(),
                (ms**2).sum(),
            ]
        )


def noise_of(sums: Floats, plain: Floats) -> float:
    """The noise from the sums of batches, float64[B, 8], and those of plain episodes."""
    played, num, xm, mm, ee, xx, xm_whole, mm_whole = sums.mean(axis=0)
    if xm <= 0:
        return math.inf
    c = xm / mm
    square = (xx - 2 * c * xm_whole + c**2 * mm_whole) / num + c**2 * mm / num
    best = float(plain[:, 4].mean() / plain[:, 1].mean())
    return float(played / num * square * best / (c * ee / num) ** 2)


def noises(game: Rounds, num_batches: int) -> dict[str, Noise]:
    """The noise per played turn of each variant in a game of one seat."""
    plain, trees = (_sums(game, is_tree, num_batches) for is_tree in (False, True))
    base, noise_by_name = plain["episode"], {}
    for name, sums in {**plain, **trees}.items():
        parts = [noise_of(np.delete(sums, b, 0), base) for b in range(num_batches)]
        noise_by_name[name] = _with_interval(noise_of(sums, base), np.array(parts))
    return {name: noise_by_name[name] for name in VARIANTS}


def _sums(game: Rounds, is_tree: bool, num_batches: int) -> dict[str, Floats]:
    """The sums of each batch, by variant."""
    columns = {n: c for n, c in VARIANTS.items() if c.is_tree == is_tree}
    sums_of_batches: dict[str, list[Floats]] = {name: [] for name in columns}
    critic = FeatureCritic([game], seed=0)
    num_fitted = NUM_FITTED if any(c.has_critic for c in columns.values()) else 0
    for number in range(num_fitted + num_batches):
        first = (number + 1) * 10**6  # batches share no start
        batch, records = batch_of(game, first, is_tree)
        valued = critic.with_values(batch, records) if num_fitted else batch
        if number >= num_fitted:
            turns = Turns(game, records)
            for name, column in columns.items():
                advantage = _advantage(column, batch, valued)
                sums_of_batches[name].append(turns.sums(advantage, len(records)))
        if num_fitted:
            critic.fit(valued, records)
    return {name: np.array(sums) for name, sums in sums_of_batches.items()}


def _advantage(column: Column, batch: TurnBatch, valued: TurnBatch) -> Floats:
    turns = valued if column.has_critic else batch
    if not column.is_tree:
        turns = replace(turns, parent=None, branch=None, unselected=None)
    variant = column.variant
    return estimate(variant.estimator, turns, **variant.all_options).advantage


def _with_interval(value: float, parts: Floats) -> Noise:
    if not np.isfinite(parts).all():
        return Noise(value, 0.0, math.inf)
    num, logs = len(parts), np.log(parts)
    wide = 1.96 * math.sqrt((num - 1) * float(np.var(logs)))
    return Noise(value, value * math.exp(-wide), value * math.exp(wide))


def main(
    directory: Annotated[Path, typer.Option(help="Folder of trees.json.")] = DOCS,
    num_batches: Annotated[int, typer.Option(min=3)] = NUM_BATCHES,
) -> None:
    """Measure trees and critics by when a game pays; write trees.json."""
    warnings.simplefilter("ignore", FlatPoolWarning)
    torch.set_num_threads(1)
    rows = []
    for title, options in PAYMENTS.items():
        noise_by_name = noises(Rounds(**SIZE, **options), num_batches)
        noise = {
            n: [round(x, 4) for x in interval] for n, interval in noise_by_name.items()
        }
        rows.append({"title": title, "options": options, "noise": noise})
        typer.echo(
            f"{title}: " + ", ".join(f"{n} {x[0]:.3g}" for n, x in noise.items())
        )
    lines = ",\n".join(json.dumps(row) for row in rows)
    (directory / FILE).write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    run_script(main)
