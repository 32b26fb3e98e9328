"""The training set: starts of episodes.

This module imports neither TRL nor torch.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from arena_trainers.train.settings import SelfPlay

if TYPE_CHECKING:
    from datasets import Dataset


class RepeatedRows:
    """A data set that reads a row once where a batch has it several times, as the starts of groups.

    Args:
        dataset: has the rows.

    >>> from datasets import Dataset
    >>> starts = RepeatedRows(Dataset.from_dict({"seed": [5, 7]}))
    >>> starts.__getitems__([1, 1, 0])
    [{'seed': 7}, {'seed': 7}, {'seed': 5}]
    >>> [*starts]  # as callbacks may, which get the data loader
    [{'seed': 5}, {'seed': 7}]
    """

    def __init__(self, dataset: "Dataset") -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> dict[str, Any]:
        row: dict[str, Any] = self.dataset[index]
        return row

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        """The rows of a batch, as torch's data loader asks for them."""
        distinct = [*dict.fromkeys(indices)]
        rows = dict(zip(distinct, self.dataset.__getitems__(distinct), strict=True))
        return [rows[index].copy() for index in indices]


def episode_starts(args: SelfPlay, weights: Sequence[float]) -> "Dataset":
    """The training set: starts of episodes, games drawn by weight, seeds by `args.seed`.

    Raises:
        ValueError: fewer starts than a generation batch has, with which no step would be trained.
    """
    from datasets import Dataset

    num_starts = args.num_starts
    # TRL fills both in
    per_batch = (args.generation_batch_size or 1) // (args.num_generations or 1)
    if num_starts is not None and num_starts < per_batch:
        raise ValueError(
            f"want num_starts of at least {per_batch}, the starts of one generation batch, got "
            f"{num_starts}; give more, or leave it out"
        )
    if num_starts is None:
        batches = math.ceil(args.max_steps * args.generations_per_step)
        num_starts = batches * per_batch if args.max_steps > 0 else 1000
    rng = np.random.default_rng(args.seed)
    chances = np.asarray(weights, float) / np.sum(weights)
    games = rng.choice(len(weights), size=num_starts, p=chances)
    seeds = rng.integers(2**62, size=num_starts)
    labels = [f"{game}:{seed}" for game, seed in zip(games, seeds, strict=True)]
    return Dataset.from_dict({"prompt": labels, "game": games, "seed": seeds})
