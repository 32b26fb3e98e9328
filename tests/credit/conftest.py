"""Turn batches, written as trajectories or read from the worked vectors."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from arena_trainers.credit import TurnBatch, estimate


def make_batch(*trajectories, **columns):
    """A batch of (episode, game, seat, [rewards]); each game has one group."""
    rows = [(r, e, g, s, k) for e, g, s, rs in trajectories for k, r in enumerate(rs)]
    reward, episode, game, seat, turn = map(list, zip(*rows, strict=True))
    basic = {
        "reward": reward,
        "episode": episode,
        "game": game,
        "seat": seat,
        "turn": turn,
    }
    tokens = np.ones(len(reward), int)
    return TurnBatch(**basic | {"group": game, "num_tokens": tokens} | columns)


def vector_batch(vector):
    """The batch of a worked vector; an episode's number is unique across games."""
    columns = [], [], [], [], [], []
    for t in vector["trajectories"]:
        game = ["ttt", "hanabi"].index(t["game"])
        pairs = zip(t["turn_rewards"], t["turn_tokens"], strict=True)
        for k, (reward, tokens) in enumerate(pairs):
            row = (reward, game, 10 * game + t["episode"], t["role"], k, tokens)
            for column, value in zip(columns, row, strict=True):
                column.append(value)
    reward, game, episode, seat, turn, num_tokens = columns
    return TurnBatch(reward, game, episode, seat, turn, game, num_tokens=num_tokens)


@pytest.fixture(scope="session")
def batch():
    return make_batch


@pytest.fixture(scope="session")
def vectors():
    return json.loads((Path(__file__).parent / "vectors.json").read_text())


@pytest.fixture(scope="session")
def vector_batches(vectors):
    return {name: vector_batch(vectors[name]) for name in ("V1", "V2", "V3")}


def build(drawn):
    """A batch with all columns; tokens, states and values differ from turn to turn.

    Drawn are (game, rewards of each seat). Each game has two groups.
    """
    rows = [
        (episode, game, seat, paid)
        for episode, (game, seats) in enumerate(drawn)
        for seat, paid in seats.items()
    ]
    n = np.arange(sum(len(paid) for *_, paid in rows))
    num_tokens = 1 + n % 3
    t = np.arange(num_tokens.sum())
    turns = make_batch(*rows, num_tokens=num_tokens)
    last = np.append(turns.turn[1:] == 0, True)
    cut = last & (n % 2 == 0)
    return replace(
        turns,
        group=2 * turns.game + turns.episode % 2,
        rewards={"game": turns.reward, "judge": n % 2 - 0.5},
        team=turns.seat % 2,
        stratum=turns.episode % 2,
        state_key=n % 2,
        action=n % 3 // 2,
        parent=np.full(len(n), -1),
        branch=np.zeros(len(n), int),
        terminated=last & ~cut,
        truncated=cut,
        value=n * 0.25 % 2,
        next_value=n * 0.125,
        action_value=n * 0.5 % 2,
        row_length=num_tokens + 4,
        tokens={"entropy": t * 0.375 % 2, "value": t * 0.25 % 3, "logprob": -(t % 2)},
    )


def tokens_of(turns, rows):
    """Where the tokens of some rows are."""
    ends = np.cumsum(turns.num_tokens)
    parts = [np.arange(ends[r] - turns.num_tokens[r], ends[r]) for r in rows]
    return np.concatenate([np.zeros(0, int), *parts])


def take(turns, rows):
    """The batch of some rows, in their order."""
    columns = {}
    for name, column in vars(turns).items():
        if name == "tokens":
            places = tokens_of(turns, rows)
            columns[name] = {k: v[places] for k, v in column.items()}
        elif name == "rewards":
            columns[name] = {k: v[rows] for k, v in column.items()}
        elif isinstance(column, np.ndarray) and name not in ("order", "tree"):
            columns[name] = column[rows]
    return TurnBatch(**columns)


def paid(turns, reward):
    """The batch with other rewards, in their part, too."""
    return replace(turns, reward=reward, rewards={**turns.rewards, "game": reward})


def advantage(name, turns):
    """Advantages per token, whether the estimator gives one per turn or per token."""
    got = estimate(name, turns).advantage
    assert np.isfinite(got).all()
    if got.shape == turns.reward.shape:
        return np.repeat(got, turns.num_tokens)
    assert got.shape == (turns.num_tokens.sum(),)
    return got


def part(turns, advantages, rows):
    return advantages[tokens_of(turns, np.flatnonzero(rows))]


@pytest.fixture(scope="session")
def full():
    """Batches with all columns there are, and what can be done with them."""
    helpers = (build, tokens_of, take, paid, advantage, part)
    return SimpleNamespace(**{helper.__name__: helper for helper in helpers})
