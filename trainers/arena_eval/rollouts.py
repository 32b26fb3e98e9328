"""Training episodes with the credit of each turn: `RUN/rollouts/step-N.jsonl`.

A line is an episode as `Episode.to_json` writes it, with one more field, `credit`: a list as
long as `turns`. An entry is an object with the fields of `TurnCredit`, or null for a turn
that is not trained: a turn of an opponent, a turn that the episode shares with its parent,
or a turn that was selected by its return (`is_unselected` is false).

A file holds whole groups: all episodes of a start, and all that branched from them.
`Episode.parent` is the number of a line in the file, from 0. `read_rollouts` also reads
files of episodes without `credit`.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from arena_envs.checks import is_number
from arena_wrappers import Episode
from arena_wrappers.records import whole_file


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
