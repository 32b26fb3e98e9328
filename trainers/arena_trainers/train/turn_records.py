"""From played episodes to the records that all processes share.

This module imports neither TRL nor torch.
"""

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from arena_envs.game import AnyGame
from arena_trainers.matchmaking import SELF
from arena_trainers.train.column_functions import (
    ColumnFunction,
    part_of,
    supplied_by,
)
from arena_wrappers.branching import Branching
from arena_wrappers.episodes import Episode, Turn
from arena_wrappers.replay import final_state, turn_states


class TurnRecord(NamedTuple):
    """A learner's turn as all processes know it, to compute its credit.

    The process that played it finds the turn itself, with its prompt and its tokens, at
    `episodes[record.episode].turns[record.place]`.
    """

    game: int
    seed: int
    episode: int  # index within its process
    place: int  # index within the episode's turns
    seat: int
    turn: int  # index within the seat's turns
    rewards: Mapping[str, float]
    num_tokens: int
    row_length: int
    terminated: bool
    truncated: bool
    state: Hashable = None  # the seat's information state before the turn
    action: Hashable = None  # None if the reply was invalid
    tokens: Mapping[str, Sequence[float]] | None = None  # token columns
    parent: int = -1  # index within its process, as `episode`
    branch: int = -1
    unselected: bool = True
    features: NDArray[np.float32] | None = None  # for a critic, before the turn
    next_features: NDArray[np.float32] | None = None  # at the end, if it is truncated
    paid: float = 0.0  # to the seat before its turn
    supplied: Mapping[str, float] | None = None  # by functions or reward models
    opponent: tuple[str, ...] = ()  # who plays the other seats, in their order
    is_invalid: bool = False  # whether the reply was invalid
    prompt: bytes = b""  # digest of the prompt, for columns of reward models
    text: bytes = b""  # digest of the prompt with its reply
    scores: Mapping[str, float] | None = None  # by reward models, by path


T = TypeVar("T")

PARTS = ("game", "format")  # of the reward, as `PromptWrapper` pays them
# columns that need the state before a turn
OF_STATES = frozenset({"state_key", "action", "value", "features"})


def turn_records(
    episodes: Sequence[Episode],
    games: Sequence[int],
    seats: Sequence[Sequence[str]],
    rules: Sequence[AnyGame] = (),
    columns: Collection[str] = (),
    functions: Mapping[str, ColumnFunction] | None = None,
    branching: Branching | None = None,
) -> list[TurnRecord]:
    """The turns of seats that learn, episode by episode, in playing order.

    The turns that an episode shares with its parent are recorded once, as the parent's.

    Args:
        episodes: what was played.
        games: index of each episode's game.
        seats: who played each seat of each episode; `"self"` learns.
        rules: the games; read if `columns` or `functions` need states.
        columns: the optional columns that are wanted; `features` are the critic's inputs.
        functions: functions that supply columns, by column. Each is called with an episode,
            one of its turns, and the state before that turn.
        branching: where episodes branched, if they did.

    Raises:
        ValueError: a turn has no tokens, or a function returns no finite number, or no
            integer for a column of integers.
    """
    functions = functions or {}
    reads_states = bool(functions) or not OF_STATES.isdisjoint(columns)
    records = []
    played = zip(episodes, games, seats, strict=True)
    for number, (episode, game, who) in enumerate(played):
        states = turn_states(episode, rules[game]) if reads_states else []
        last = {turn.seat: place for place, turn in enumerate(episode.turns)}
        for place in range(episode.branch or 0, len(episode.turns)):
            turn = episode.turns[place]
            if who[turn.seat] != SELF:
                continue
            where = game, number, place
            is_last = place == last[turn.seat]
            record = _record(episode, where, is_last, columns, branching)
            record = record._replace(opponent=others(who, turn.seat))
            if reads_states:
                record = _with_state(record, turn, rules[game], states[place])
            if "features" in columns:
                record = _with_features(record, episode, rules[game], states[place])
            if functions:
                values = supplied_by(functions, episode, turn, states[place])
                record = with_supplied(record, values)
            records.append(record)
    return records


def _record(
    episode: Episode,
    where: tuple[int, int, int],
    is_last: bool,
    columns: Collection[str],
    branching: Branching | None,
) -> TurnRecord:
    """The record of a turn, without what the game's state tells.

    Args:
        episode: the turn's episode.
        where: index of the game, of the episode, and of the turn in the episode.
        is_last: whether it is its seat's last turn.
        columns: the optional columns that are wanted.
        branching: where episodes branched, if they did.
    """
    game, number, place = where
    turn = episode.turns[place]
    if not turn.token_ids or turn.prompt_ids is None:
        raise ValueError(f"a learner's turn has no tokens: {turn.reply[:60]!r}")
    return TurnRecord(
        game=game,
        seed=episode.seed,
        episode=number,
        place=place,
        seat=turn.seat,
        turn=turn.index,
        rewards=turn.rewards,
        num_tokens=len(turn.token_ids),
        row_length=len(turn.prompt_ids) + len(turn.token_ids),
        terminated=is_last and episode.terminated,
        truncated=is_last and episode.truncated,
        tokens=_token_columns(turn, columns),
        parent=-1 if episode.parent is None else episode.parent,
        branch=-1 if episode.branch is None else episode.branch,
        unselected=branching is None or branching.is_unselected(episode, place),
        is_invalid=turn.invalid is not None,
    )


def _with_state(
    record: TurnRecord, turn: Turn, game: AnyGame, state: Any
) -> TurnRecord:
    """Adds the seat's information state, its action, and what it had been paid."""
    return record._replace(
        state=game.information_state(state, turn.seat),
        action=None if turn.invalid else turn.action,
        paid=game.returns(state)[turn.seat],
    )


def with_supplied(record: TurnRecord, values: Mapping[str, float]) -> TurnRecord:
    """The record with further columns; parts of the reward go to `rewards`.

    Args:
        record: of a turn.
        values: of functions or reward models, by column.
    """
    parts = {part: x for name, x in values.items() if (part := part_of(name))}
    supplied = {**(record.supplied or {}), **values}
    return record._replace(rewards={**record.rewards, **parts}, supplied=supplied)


def _with_features(
    record: TurnRecord, episode: Episode, game: AnyGame, state: Any
) -> TurnRecord:
    """Adds the seat's features before its turn and, if it is truncated, at the end."""
    record = record._replace(features=game.features(state, record.seat))
    if not record.truncated:
        return record
    end = game.features(final_state(episode, game), record.seat)
    return record._replace(next_features=end)


def per_episode(episodes: Sequence[Episode], values: Sequence[T]) -> list[T]:
    """The value of each episode's plan; an episode that branched has its parent's.

    Args:
        episodes: what was played.
        values: of each plan, such as its game.
    """
    plans = np.cumsum([episode.parent is None for episode in episodes]) - 1
    return [values[plan] for plan in plans]


def others(seats: Sequence[str], seat: int) -> tuple[str, ...]:
    """Who plays the other seats.

    >>> others(["self", "self@20", "self@20"], 0)
    ('self@20', 'self@20')
    """
    return (*seats[:seat], *seats[seat + 1 :])


def _token_columns(turn: Turn, columns: Collection[str]) -> dict[str, Sequence[float]]:
    found = {}
    for name, values in (("entropy", turn.entropies), ("logprob", turn.logprobs)):
        if f"tokens.{name}" in columns:
            if values is None:
                raise ValueError(f"a learner's turn has no {name}: {turn.reply[:60]!r}")
            found[name] = values
    return found
