"""The credit of recorded episodes: their turns as a `TurnBatch`, and each turn's advantage.

Episodes and turns are those of `arena_wrappers`, or objects with the same attributes.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from arena_trainers.credit.batch import TurnBatch
from arena_trainers.credit.by_name import Estimator, estimate, per_token


class RecordedTurn(Protocol):
    """The attributes of `arena_wrappers.Turn` that are read."""

    index: int
    seat: int
    policy: str
    messages: Sequence[Any]
    reply: str
    invalid: str | None
    rewards: dict[str, float]
    prompt_ids: Sequence[int] | None
    token_ids: Sequence[int] | None
    logprobs: Sequence[float] | None
    entropies: Sequence[float] | None


class RecordedEpisode(Protocol):
    """The attributes of `arena_wrappers.Episode` that are read."""

    game: str
    params: Mapping[str, Any]
    seed: int
    sample: int
    turns: Sequence[Any]
    returns: Sequence[float]
    terminated: bool
    truncated: bool
    forfeited_by: int | None
    parent: int | None
    lost: str | None


class CreditedTurn(NamedTuple):
    """A turn with its credit.

    Attributes:
        turn: the turn.
        reward: paid from this turn until the seat's next one.
        advantage: the turn's advantage; the mean over its tokens if tokens are credited.
        token_advantages: one per token of the reply; None if the reply has no tokens.
    """

    turn: Any
    reward: float
    advantage: float
    token_advantages: list[float] | None


@dataclass(frozen=True)
class CreditedTrajectory:
    """The turns of one seat in one episode.

    Attributes:
        number: of the episode.
        episode: the episode.
        seat: the seat.
        turns: its turns in order.
    """

    number: int
    episode: Any
    seat: int
    turns: Sequence[CreditedTurn]


def credited(
    episodes: Sequence[RecordedEpisode],
    estimator: str | Estimator,
    *,
    policies: Collection[str] | None,
    columns: Mapping[str, ArrayLike] | None,
    within_turn: str,
    **options: Any,
) -> list[CreditedTrajectory]:
    """The trajectories of the episodes with the credit of each turn; see `export`."""
    _want_whole(episodes)
    if isinstance(policies, str):
        policies = [policies]
    places = [
        (number, turn)
        for number, episode in enumerate(episodes)
        for turn in episode.turns
        if policies is None or turn.policy in policies
    ]
    if not places:
        found = sorted({turn.policy for e in episodes for turn in e.turns})
        raise ValueError(f"want turns of the policies {policies}, got those of {found}")
    batch = _batch(episodes, places, dict(columns or {}))
    result = estimate(estimator, batch, within_turn=within_turn, **options)
    advantage = np.asarray(result.advantage, np.float64)
    counts = [_num_tokens(turn) for _, turn in places]
    if per_token(estimator, within_turn):
        parts = np.split(advantage, np.cumsum(counts)[:-1])
        means = [float(part.mean()) if part.size else 0.0 for part in parts]
    else:
        means = [float(value) for value in advantage]
        parts = [np.full(n, v) for n, v in zip(counts, means, strict=True)]
    return _trajectories(episodes, places, means, parts)


def _want_whole(episodes: Sequence[RecordedEpisode]) -> None:
    """Refuses episodes that branched or are lost."""
    for number, episode in enumerate(episodes):
        if episode.parent is not None:
            raise ValueError(
                f"want episodes that did not branch, got episode {number} with parent "
                f"{episode.parent}; play without branch"
            )
        if episode.lost is not None:
            raise ValueError(
                f"want episodes with returns, got episode {number}, which is lost "
                f"({episode.lost}); pass arena_wrappers.without_lost(episodes)"
            )


def _trajectories(
    episodes: Sequence[RecordedEpisode],
    places: Sequence[tuple[int, Any]],
    means: Sequence[float],
    parts: Sequence[Any],
) -> list[CreditedTrajectory]:
    found: dict[tuple[int, int], list[CreditedTurn]] = {}
    for (number, turn), mean, part in zip(places, means, parts, strict=True):
        tokens = None if turn.token_ids is None else part.tolist()
        one = CreditedTurn(turn, _reward(turn), mean, tokens)
        found.setdefault((number, turn.seat), []).append(one)
    return [
        CreditedTrajectory(number, episodes[number], seat, turns)
        for (number, seat), turns in found.items()
    ]


def _batch(
    episodes: Sequence[RecordedEpisode],
    places: Sequence[tuple[int, Any]],
    columns: dict[str, Any],
) -> TurnBatch:
    """The turns as a batch; columns that are given come on top of those of the records."""
    games = [f"{e.game} {json.dumps(e.params, sort_keys=True)}" for e in episodes]
    names = list(dict.fromkeys(games))
    starts = [(names.index(g), e.seed) for g, e in zip(games, episodes, strict=True)]
    groups = {start: index for index, start in enumerate(dict.fromkeys(starts))}
    last = {(number, turn.seat): turn.index for number, turn in places}
    is_last = [last[number, turn.seat] == turn.index for number, turn in places]
    of = [episodes[number] for number, _ in places]
    turns = [turn for _, turn in places]
    found = {
        "reward": [_reward(turn) for turn in turns],
        "game": [starts[number][0] for number, _ in places],
        "episode": [number for number, _ in places],
        "seat": [turn.seat for turn in turns],
        "turn": [turn.index for turn in turns],
        "group": [groups[starts[number]] for number, _ in places],
        "rewards": _parts(turns),
        "terminated": [e.terminated and x for e, x in zip(of, is_last, strict=True)],
        "truncated": [e.truncated and x for e, x in zip(of, is_last, strict=True)],
        "game_names": tuple(names),
    }
    opponents = _opponent_column(episodes, places)
    return TurnBatch(**{**found, **opponents, **_token_columns(turns), **columns})


def _opponent_column(
    episodes: Sequence[RecordedEpisode], places: Sequence[tuple[int, Any]]
) -> dict[str, list[int]]:
    """Who plays the other seats, if the records name all of them.

    A seat without a turn has no name. Names of some episodes only would make pools depend on
    how long the episodes were.
    """
    seated = [{turn.seat: turn.policy for turn in e.turns} for e in episodes]
    if any(len(e.returns) != len(s) for e, s in zip(episodes, seated, strict=True)):
        return {}
    numbers: dict[tuple[str, ...], int] = {}
    found = []
    for number, turn in places:
        names = seated[number]
        others = tuple(names[seat] for seat in sorted(names) if seat != turn.seat)
        found.append(numbers.setdefault(others, len(numbers)))
    return {"opponent": found}


def _parts(turns: Sequence[Any]) -> dict[str, list[float]]:
    names = dict.fromkeys(name for turn in turns for name in turn.rewards)
    return {name: [float(t.rewards.get(name, 0)) for t in turns] for name in names}


def _token_columns(turns: Sequence[Any]) -> dict[str, Any]:
    """The columns of tokens, if every turn has tokens."""
    if any(turn.token_ids is None for turn in turns):
        return {}
    tokens = {}
    for column, field in (("logprob", "logprobs"), ("entropy", "entropies")):
        values = [getattr(turn, field) for turn in turns]
        if all(part is not None for part in values):
            tokens[column] = [float(value) for part in values for value in part]
    return {
        "num_tokens": [len(turn.token_ids) for turn in turns],
        "row_length": [len(t.prompt_ids or ()) + len(t.token_ids) for t in turns],
        "tokens": tokens or None,
    }


def _num_tokens(turn: Any) -> int:
    return len(turn.token_ids or ())


def _reward(turn: Any) -> float:
    return float(sum(turn.rewards.values()))
