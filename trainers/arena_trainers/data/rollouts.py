"""What makes rollouts of training episodes: the credit of each turn, and turn trees.

`arena_eval.rollouts` describes their file. This module imports neither TRL nor torch.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from arena_credit import Credit, TurnBatch
from arena_eval.rollouts import Rollout, TurnCredit
from arena_trainers.data.recorded_play import joined as joined_episodes
from arena_trainers.train.records import TurnRecord
from arena_trainers.train.rows import turn_weights
from arena_wrappers import Episode


def turn_credits(
    episodes: Sequence[Episode],
    records: Sequence[TurnRecord],
    in_batch: range,
    batch: TurnBatch,
    result: Credit,
    *,
    estimator: str,
    weighting: str,
    part_weights: Mapping[str, float] = MappingProxyType({}),
) -> list[Rollout]:
    """The episodes of a process with the credit of their turns.

    Args:
        episodes: what this process played.
        records: its turns of seats that learn.
        in_batch: where the records are in the global batch, see `rows_of_process`.
        batch: the global batch.
        result: its credit.
        estimator: name of the estimator.
        weighting: `"token"` or `"turn"`, see `turn_weights`.
        part_weights: of the reward parts; 1 where none is given.
    """
    unpaid = {name for name, weight in part_weights.items() if weight == 0}
    weights = turn_weights(batch) if weighting == "turn" else np.ones(len(batch.reward))
    pools = _pools(batch, result)
    unselected = batch.is_unselected
    ends = None
    if batch.num_tokens is not None and len(result.advantage) != len(batch.reward):
        ends = np.cumsum(batch.num_tokens)
    credit: list[list[TurnCredit | None]] = [[None] * len(e.turns) for e in episodes]
    for record, row in zip(records, in_batch, strict=True):
        if unselected[row]:
            advantage: Any = float(result.advantage[row])
            if ends is not None:
                first = int(ends[row]) - record.num_tokens
                advantage = result.advantage[first : int(ends[row])].tolist()
            parts = {n: float(x[row]) for n, x in (batch.rewards or {}).items()}
            earlier = credit[record.episode][record.place]
            calls = [*(earlier.calls if earlier else ()), advantage]
            several = episodes[record.episode].turns[record.place].generations
            credit[record.episode][record.place] = TurnCredit(
                estimator,
                advantage,
                float(weights[row]),
                **pools[row],
                rewards={n: x for n, x in parts.items() if n not in unpaid and x},
                unpaid={n: x for n, x in parts.items() if n in unpaid},
                calls=calls if several else (),
            )
    return [Rollout(*pair) for pair in zip(episodes, credit, strict=True)]


def _pools(batch: TurnBatch, result: Credit) -> list[dict[str, Any]]:
    """For each turn, the fields of `TurnCredit` that describe its pool."""
    report, num_turns = result.report, len(batch.reward)
    columns = {name: _column(batch, name) for name in report.names}
    present = {name: c.tolist() for name, c in columns.items() if c is not None}
    moments = {}
    if len(present) == len(columns):
        for pool in report:
            moments[tuple(pool.key.values())] = {
                "pool_size": pool.size,
                "pool_mean": pool.mean,
                "pool_std": pool.std,
            }
    pools = []
    for row in range(num_turns):
        key = {name: values[row] for name, values in present.items()}
        pools.append({"pool": key, **moments.get(tuple(key.values()), {})})
    return pools


def _column(batch: TurnBatch, name: str) -> Any:
    """int64[N]: the values of a column that defines pools; None if the batch lacks it."""
    if name != "num_turns":
        return getattr(batch, name, None)
    keys = np.stack([batch.episode, batch.seat], axis=1)
    _, seat_numbers = np.unique(keys, axis=0, return_inverse=True)
    counts = np.bincount(seat_numbers.ravel(), batch.is_unselected)
    return counts[seat_numbers.ravel()].astype(np.int64)


def trees_of(rollouts: Sequence[Rollout]) -> list[list[Rollout]]:
    """Each episode with all that branched from it; `parent` counts within the tree."""
    trees: list[list[Rollout]] = []
    first = 0
    for number, (episode, credit) in enumerate(rollouts):
        if episode.parent is None:
            trees.append([])
            first = number
        else:
            episode = replace(episode, parent=episode.parent - first)
        trees[-1].append(Rollout(episode, credit))
    return trees


def joined(trees: Iterable[Sequence[Rollout]]) -> list[Rollout]:
    """The rollouts of all trees in one list; `parent` counts within the list."""
    whole = [*trees]
    episodes = joined_episodes([episode for episode, _ in tree] for tree in whole)
    credit = (credit for tree in whole for _, credit in tree)
    return [Rollout(*pair) for pair in zip(episodes, credit, strict=True)]
