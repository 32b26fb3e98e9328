"""Training episodes with the credit of each turn: `RUN/rollouts/step-N.jsonl`.

A line is an episode as `Episode.to_json` writes it, with one more field, `credit`: a list as
long as `turns`. An entry is an object with the fields of `TurnCredit`, or null for a turn
that is not trained: a turn of an opponent, a turn that the episode shares with its parent,
or a turn that was selected by its return (`is_unselected` is false).

A file holds whole groups: all episodes of a start, and all that branched from them.
`Episode.parent` is the number of a line in the file, from 0. `read_rollouts` also reads
files of episodes without `credit`.

This module imports neither TRL nor torch.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from arena_credit import Credit, TurnBatch
from arena_trainers.data import rows
from arena_trainers.options import is_number
from arena_trainers.train.records import TurnRecord, turn_weights
from arena_wrappers import Episode
from arena_wrappers.records import whole_file

Start = tuple[int, int]  # game and seed: the same for all episodes of a group


@dataclass(frozen=True)
class TurnCredit:
    """The credit of a turn.

    Attributes:
        estimator: name of the estimator.
        advantage: the turn's advantage, or a list of one per token of the reply.
        weight: factor of the advantage in the loss by `weighting`; 1 with `"token"`.
        pool: the pool of the turn: the columns that are equal within it, and their values.
        pool_size: number of values in the pool.
        pool_mean: mean of these values.
        pool_std: standard deviation of these values.
        rewards: the parts of the turn's reward times their weights: credit reads their sum.
        unpaid: the parts of weight 0.
        calls: the advantages of the turn's generations, where it has several. The other
            fields are those of the last one.
    """

    estimator: str
    advantage: float | Sequence[float]
    weight: float = 1.0
    pool: Mapping[str, int] = field(default_factory=dict)
    pool_size: int | None = None
    pool_mean: float | None = None
    pool_std: float | None = None
    rewards: Mapping[str, float] = field(default_factory=dict)
    unpaid: Mapping[str, float] = field(default_factory=dict)
    calls: Sequence[float | Sequence[float]] = ()


class Rollout(NamedTuple):
    """An episode, and the credit of each of its turns."""

    episode: Episode
    credit: Sequence[TurnCredit | None]


def write_rollouts(path: Path, rollouts: Iterable[Rollout]) -> None:
    """Writes rollouts as JSON lines; the file appears whole or not at all."""
    with whole_file(path) as file:
        for episode, credit in rollouts:
            entries = [None if entry is None else asdict(entry) for entry in credit]
            text = json.dumps(entries, allow_nan=False)
            file.write(f'{episode.to_json()[:-1]}, "credit": {text}}}\n')


def read_rollouts(path: str | Path) -> Iterator[Rollout]:
    """The rollouts of a file; episodes without `credit` have None for every turn.

    Raises:
        ValueError: a line is no episode or has malformed credit; the message gives its
            number.
    """
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            try:
                yield rollout_of(line.decode("utf-8"))
            except ValueError as error:
                raise ValueError(f"{path}, line {number}: {error}") from error


def rollout_of(line: str) -> Rollout:
    """The rollout of a line.

    Raises:
        ValueError: the line is no episode, or has malformed credit.
    """
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise ValueError(f"want an episode as JSON, got {line[:60]!r}")
    credit = values.pop("credit", None)
    episode = Episode.from_json(json.dumps(values))
    if credit is None:
        return Rollout(episode, [None] * len(episode.turns))
    if not isinstance(credit, list) or len(credit) != len(episode.turns):
        raise ValueError(
            f"want credit as a list of {len(episode.turns)}, one entry for each turn, "
            f"got {credit!r:.60}"
        )
    return Rollout(episode, [_turn_credit(entry) for entry in credit])


def _turn_credit(entry: Any) -> TurnCredit | None:
    if entry is None:
        return None
    if not isinstance(entry, dict) or not {"estimator", "advantage"} <= entry.keys():
        raise ValueError(f"want credit with estimator and advantage, got {entry!r:.60}")
    unknown = entry.keys() - _CREDIT_FIELDS.keys()
    if unknown:
        raise ValueError(f"credit has an unknown field {min(unknown)!r}")
    for name, value in entry.items():
        if not _CREDIT_FIELDS[name](value):
            raise ValueError(f"{name} of credit cannot be {value!r:.60}")
    if len({entry.get(name) is None for name in _POOL_FIELDS}) > 1:
        raise ValueError(
            f"want {', '.join(_POOL_FIELDS)} all or none, got {entry!r:.60}"
        )
    return TurnCredit(**entry)


def _are_parts(value: Any) -> bool:
    return isinstance(value, dict) and all(map(is_number, value.values()))


_POOL_FIELDS = ("pool_size", "pool_mean", "pool_std")
_CREDIT_FIELDS: dict[str, Callable[[Any], bool]] = {
    "estimator": lambda value: isinstance(value, str),
    "advantage": lambda x: all(map(is_number, x if isinstance(x, list) else [x])),
    "calls": lambda x: type(x) is list and all(map(_CREDIT_FIELDS["advantage"], x)),
    "weight": is_number,
    "pool": lambda x: isinstance(x, dict) and all(type(v) is int for v in x.values()),
    "pool_size": lambda value: value is None or type(value) is int,
    "pool_mean": lambda value: value is None or is_number(value),
    "pool_std": lambda value: value is None or is_number(value),
    "rewards": _are_parts,
    "unpaid": _are_parts,
}


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
    known = {name: c.tolist() for name, c in columns.items() if c is not None}
    keys: list[dict[str, int]] = [
        {name: values[row] for name, values in known.items()}
        for row in range(num_turns)
    ]
    facts = {
        tuple(one.key.values()): {
            **{"pool_size": one.size, "pool_mean": one.mean, "pool_std": one.std}
        }
        for one in (report if len(known) == len(columns) else ())
    }
    return [{"pool": key, **facts.get(tuple(key.values()), {})} for key in keys]


def _column(batch: TurnBatch, name: str) -> Any:
    """int64[N]: the values of a column that defines pools; None if the batch lacks it."""
    if name != "num_turns":
        return getattr(batch, name, None)
    keys = np.stack([batch.episode, batch.seat], axis=1)
    _, which = np.unique(keys, axis=0, return_inverse=True)
    counts = np.bincount(which.ravel(), batch.is_unselected)
    return counts[which.ravel()].astype(np.int64)


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
    episodes = rows.joined([episode for episode, _ in tree] for tree in whole)
    credit = (credit for tree in whole for _, credit in tree)
    return [Rollout(*pair) for pair in zip(episodes, credit, strict=True)]
