"""The global batch: the turns of all processes as the columns that credit reads.

This module imports neither TRL nor torch.
"""

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena_credit import TurnBatch
from arena_credit.batch import INT_COLUMNS
from arena_credit.pools import number_rows
from arena_trainers.train.columns import SUPPLIED
from arena_trainers.train.records import PARTS, TurnRecord


def turn_batch(
    shares: Sequence[Sequence[TurnRecord]],
    weights: Mapping[str, float],
    game_names: Sequence[str],
    columns: Collection[str] = (),
    teams: Sequence[Sequence[int]] | None = None,
) -> TurnBatch:
    """The global batch: the turns of all processes, in the order of the processes.

    Its `rewards` hold each part of the reward times its weight, so that they add up to
    `reward`. A part of weight 0 is not paid: `rewards` holds it unweighted, for estimators
    that read it.

    Args:
        shares: the records of each process.
        weights: of the reward parts; 1 where none is given.
        game_names: names of the games, by index.
        columns: the optional columns that are wanted. States, actions and opponents are
            numbered in the order in which they first occur; equal numbers mean equal ones.
        teams: team of each seat, by index of the game; without it there is no column
            `team`.
    """
    turns = [record for share in shares for record in share]
    fields = _by_field(turns)
    part_names = {
        c.removeprefix("rewards.") for c in columns if c.startswith("rewards.")
    }
    names = sorted(part_names.union(PARTS, *fields["rewards"]))
    parts, reward = {}, np.zeros(len(turns))
    for name in names:
        part = np.array([rewards.get(name, 0.0) for rewards in fields["rewards"]])
        weight = weights.get(name, 1.0)
        parts[name] = weight * part if weight else part
        reward += weight * part
    game, seat = _integers(fields["game"]), _integers(fields["seat"])
    starts = np.stack([game, _integers(fields["seed"])], axis=1)
    ranks = np.repeat(np.arange(len(shares)), [len(share) for share in shares])
    episodes = np.stack([ranks, _integers(fields["episode"])], axis=1)
    return TurnBatch(
        reward=reward,
        game=game,
        episode=row_numbers(episodes),
        seat=seat,
        turn=_integers(fields["turn"]),
        group=row_numbers(starts),
        rewards=parts,
        terminated=np.array(fields["terminated"], bool),
        truncated=np.array(fields["truncated"], bool),
        num_tokens=_integers(fields["num_tokens"]),
        row_length=_integers(fields["row_length"]),
        game_names=tuple(game_names),
        team=None if teams is None else _teams(fields["game"], fields["seat"], teams),
        **_optional_columns(turns, columns),
        **(_tree_columns(turns, episodes) if "parent" in columns else {}),
    )


def _by_field(turns: Sequence[TurnRecord]) -> Mapping[str, Sequence[Any]]:
    """The values of each field, turn by turn; quicker than to ask each record for each field."""
    values: Iterable[Sequence[Any]] = zip(*turns, strict=True) if turns else repeat(())
    return dict(zip(TurnRecord._fields, values, strict=False))


def _teams(
    games: Sequence[int], seats: Sequence[int], teams: Sequence[Sequence[int]]
) -> NDArray[np.int64]:
    """int64[N]: the team of each turn's seat."""
    pairs = zip(games, seats, strict=True)
    return _integers(teams[game][seat] for game, seat in pairs)


def rows_of_process(shares: Sequence[Sequence[TurnRecord]], rank: int) -> range:
    """The place of a process's turns in the global batch of `turn_batch`."""
    first = sum(len(share) for share in shares[:rank])
    return range(first, first + len(shares[rank]))


def _tree_columns(
    turns: Sequence[TurnRecord], episodes: NDArray[np.int64]
) -> dict[str, Any]:
    """Columns `parent`, numbered as `episode`, `branch` (-1 for none), and `unselected`."""
    number_of = dict(
        zip(map(tuple, episodes.tolist()), row_numbers(episodes).tolist(), strict=True)
    )
    ranks = episodes[:, 0].tolist()
    pairs = [(rank, turn.parent) for rank, turn in zip(ranks, turns, strict=True)]
    return {
        "parent": _integers(number_of.get(pair, -1) for pair in pairs),
        "branch": _integers(turn.branch for turn in turns),
        "unselected": np.array([turn.unselected for turn in turns], bool),
    }


def _optional_columns(
    turns: Sequence[TurnRecord], columns: Collection[str]
) -> dict[str, Any]:
    optional: dict[str, Any] = {}
    if "state_key" in columns:
        optional["state_key"] = ranks((t.game, t.seat, t.state) for t in turns)
    if "action" in columns:
        optional["action"] = ranks((t.game, t.action) for t in turns)
    if "opponent" in columns:
        optional["opponent"] = ranks(t.opponent for t in turns)
    if "role" in columns:
        optional["role"] = ranks(t.role for t in turns)
    for name in SUPPLIED:
        if name not in columns:
            continue
        supplied = [(turn.supplied or {}).get(name) for turn in turns]
        if None not in supplied:  # else a critic's
            optional[name] = np.array(
                supplied, np.int64 if name in INT_COLUMNS else float
            )
    tokens = [c.removeprefix("tokens.") for c in columns if c.startswith("tokens.")]
    if tokens := [name for name in tokens if name != "value"]:  # a critic's
        optional["tokens"] = {
            name: np.array([x for t in turns for x in (t.tokens or {})[name]], float)
            for name in tokens
        }
        span = optional["tokens"].get("span")
        if span is not None and span.all():  # nobody reasons: one column of surprise
            del optional["tokens"]["span"]
    return optional


def ranks(keys: Iterable[Hashable]) -> NDArray[np.int64]:
    """int64[N]: equal numbers for equal keys, in the order of their first occurrence."""
    numbers: dict[Hashable, int] = {}
    return _integers(numbers.setdefault(key, len(numbers)) for key in keys)


def _integers(values: Iterable[int]) -> NDArray[np.int64]:
    return np.fromiter(values, np.int64)


def row_numbers(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """int64[N]: the rank of each row of `keys`, int64[N, 2], among the distinct ones.

    As the inverse of `np.unique(keys, axis=0)`, in a tenth of its time.
    """
    columns = keys.reshape(-1, 2).T
    return number_rows([*columns], columns.shape[1])[0]
