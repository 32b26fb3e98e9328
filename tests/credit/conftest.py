"""Turn batches, written as trajectories or read from the worked vectors."""

import json
from pathlib import Path
from typing import Any

import pytest

from arena_credit import TurnBatch
from arena_credit.testing import batch_of


def vector_batch(vector):
    """The batch of a worked vector; an episode's number is unique across games."""
    columns: tuple[list[Any], ...] = ([], [], [], [], [], [])
    for t in vector["trajectories"]:
        game = ["ttt", "hanabi"].index(t["game"])
        pairs = zip(t["turn_rewards"], t["turn_tokens"], strict=True)
        for k, (reward, tokens) in enumerate(pairs):
            row = (reward, game, 10 * game + t["episode"], t["role"], k, tokens)
            for column, value in zip(columns, row, strict=True):
                column.append(value)
    reward, games, episode, seat, turn, num_tokens = columns
    return TurnBatch(reward, games, episode, seat, turn, games, num_tokens=num_tokens)


@pytest.fixture(scope="session")
def batch():
    return batch_of


@pytest.fixture(scope="session")
def vectors():
    return json.loads((Path(__file__).parent / "vectors.json").read_text())


@pytest.fixture(scope="session")
def vector_batches(vectors):
    return {name: vector_batch(vectors[name]) for name in ("V1", "V2", "V3")}
