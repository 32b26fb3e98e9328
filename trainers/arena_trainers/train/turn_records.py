"""From played episodes to the turn batch that credit reads.

Everything here is free of TRL and of torch.
"""

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_envs.game import AnyGame
from arena_trainers.credit import TurnBatch
from arena_trainers.credit.batch import INT_COLUMNS
from arena_trainers.train.column_functions import (
    SUPPLIED,
    ColumnFunction,
    part_of,
    supplied_by,
)
from arena_wrappers.branching import Branching
from arena_wrappers.episodes import Episode, Turn
from arena_wrappers.replay import final_state, turn_states


class TurnRecord(NamedTuple):
    """What other processes need to know of a turn, to compute its credit."""

    game: int
    seed: int
    episode: int  # index within its process
    seat: int
    turn: int
    rewards: Mapping[str, float]
    num_tokens: int
    row_length: int
    terminated: bool
    truncated: bool
    state: Hashable = None  # what the seat knew
    action: Hashable = None  # what it did; None if the reply was invalid
    tokens: Mapping[str, Sequence[float]] | None = None  # token columns
    parent: int = -1  # index within its process, as `episode`
    branch: int = -1
    unselected: bool = True
    features: NDArray[np.float32] | None = None  # for a critic
    next_features: NDArray[np.float32] | None = None  # where a limit cut
    paid: float = 0.0  # to the seat before its turn
    supplied: Mapping[str, float] | None = None  # by the user's functions


# columns that follow from the rules
PARTS = ("game", "format")  # of the reward, as `PromptWrapper` pays them
OF_STATES = frozenset({"state_key", "action", "value", "features"})


def turn_records(
    episodes: Sequence[Episode],
    games: Sequence[int],
    learners: Sequence[Sequence[bool]],
    rules: Sequence[AnyGame] = (),
    columns: Collection[str] = (),
    functions: Mapping[str, ColumnFunction] | None = None,
    branching: Branching | None = None,
) -> list[TurnRecord]:
    """The learners' turns, episode by episode, in playing order.

    What an episode shares with the one that it branched from is that one's.

    Args:
        episodes: what was played.
        games: index of each episode's game.
        learners: for each game, which seats learn.
        rules: the games, where `columns` asks for states, actions, values or features.
        columns: which optional columns are asked for; `features` are a critic's.
        functions: of the user, by the column that each gives: of an episode, one of its
            turns, and the state in which it was taken.
        branching: where episodes branched, if they did.

    Raises:
        ValueError: a turn without tokens, or a function that gives no finite number, or no
            integer for a column of integers.
    """
    records = []
    functions = functions or {}
    for number, (episode, game) in enumerate(zip(episodes, games, strict=True)):
        last = {turn.seat: turn.index for turn in episode.turns}
        states: Sequence[Any] = [None] * len(episode.turns)
        if functions or not OF_STATES.isdisjoint(columns):
            states = turn_states(episode, rules[game])
        for place in trained_turns(episode, learners[game]):
            turn, state = episode.turns[place], states[place]
            if not turn.token_ids or turn.prompt_ids is None:
                raise ValueError(f"a learner's turn has no tokens: {turn.reply[:60]!r}")
            is_last = turn.index == last[turn.seat]
            record = TurnRecord(
                game=game,
                seed=episode.seed,
                episode=number,
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
            )
            if state is not None:
                record = _with_state(record, turn, rules[game], state)
            if "features" in columns:
                record = _with_features(record, episode, rules[game], state)
            if functions:
                values = supplied_by(functions, episode, turn, state)
                record = _with_supplied(record, values)
            records.append(record)
    return records


def trained_turns(episode: Episode, learners: Sequence[bool]) -> list[int]:
    """Places of the turns that have a row in the batch: of learners, and not of a parent.

    Args:
        episode: what was played.
        learners: which of its seats learn.
    """
    places = range(episode.branch or 0, len(episode.turns))
    return [place for place in places if learners[episode.turns[place].seat]]


def _with_state(
    record: TurnRecord, turn: Turn, game: AnyGame, state: Any
) -> TurnRecord:
    """With what the seat knew, what it did, and what it had been paid."""
    return record._replace(
        state=game.information_state(state, turn.seat),
        action=None if turn.invalid else turn.action,
        paid=game.returns(state)[turn.seat],
    )


def _with_supplied(record: TurnRecord, values: Mapping[str, float]) -> TurnRecord:
    """With what the user's functions say; parts of the reward stand among the rewards."""
    parts = {part: x for name, x in values.items() if (part := part_of(name))}
    return record._replace(rewards={**record.rewards, **parts}, supplied=values)


def _with_features(
    record: TurnRecord, episode: Episode, game: AnyGame, state: Any
) -> TurnRecord:
    """What the seat knows as numbers, before its turn and where a limit cut."""
    record = record._replace(features=game.features(state, record.seat))
    if not record.truncated:
        return record
    end = game.features(final_state(episode, game), record.seat)
    return record._replace(next_features=end)


def games_of(episodes: Sequence[Episode], games: Sequence[int]) -> list[int]:
    """The game of each episode: that of its plan, which those that branched follow.

    Args:
        episodes: what was played.
        games: index of each plan's game.
    """
    plans = np.cumsum([episode.parent is None for episode in episodes]) - 1
    return [games[plan] for plan in plans]


def _token_columns(turn: Turn, columns: Collection[str]) -> dict[str, Sequence[float]]:
    found = {}
    for name, values in (("entropy", turn.entropies), ("logprob", turn.logprobs)):
        if f"tokens.{name}" in columns:
            if values is None:
                raise ValueError(f"a learner's turn has no {name}: {turn.reply[:60]!r}")
            found[name] = values
    return found


def turn_batch(
    shares: Sequence[Sequence[TurnRecord]],
    weights: Mapping[str, float],
    game_names: Sequence[str],
    columns: Collection[str] = (),
    teams: Sequence[Sequence[int]] | None = None,
) -> TurnBatch:
    """The global batch: the turns of all processes, in the order of the processes.

    Its `rewards` hold the parts as they are paid, times their weights, so that they add up
    to `reward`. A part of weight 0 is read but not paid: it stands there as it came.

    Args:
        shares: the records of each process.
        weights: of the reward parts; 1 where none is given.
        game_names: names of the games, by index.
        columns: which optional columns are asked for. States and actions are numbered as
            they come, so that equal numbers mean equal ones.
        teams: team of each seat, by index of the game; no column `team` without.
    """
    turns = [record for share in shares for record in share]
    asked = {c.removeprefix("rewards.") for c in columns if c.startswith("rewards.")}
    names = sorted(asked.union(PARTS, *(turn.rewards for turn in turns)))
    parts, reward = {}, np.zeros(len(turns))
    for name in names:
        part = np.array([turn.rewards.get(name, 0.0) for turn in turns])
        weight = weights.get(name, 1.0)
        parts[name] = weight * part if weight else part
        reward += weight * part
    starts = np.array([(turn.game, turn.seed) for turn in turns], np.int64)
    ranks = np.repeat(np.arange(len(shares)), [len(share) for share in shares])
    episodes = np.stack([ranks, _integers(turn.episode for turn in turns)], axis=1)
    return TurnBatch(
        reward=reward,
        game=_integers(turn.game for turn in turns),
        episode=_numbered(episodes),
        seat=_integers(turn.seat for turn in turns),
        turn=_integers(turn.turn for turn in turns),
        group=_numbered(starts),
        rewards=parts,
        terminated=np.array([turn.terminated for turn in turns], bool),
        truncated=np.array([turn.truncated for turn in turns], bool),
        num_tokens=_integers(turn.num_tokens for turn in turns),
        row_length=_integers(turn.row_length for turn in turns),
        game_names=tuple(game_names),
        team=None if teams is None else _integers(teams[t.game][t.seat] for t in turns),
        **_optional_columns(turns, columns),
        **(_tree_columns(turns, episodes) if "parent" in columns else {}),
    )


def _tree_columns(
    turns: Sequence[TurnRecord], episodes: NDArray[np.int64]
) -> dict[str, Any]:
    """Columns `parent`, numbered as `episode`, `branch` (-1 for none), and `unselected`."""
    number_of = dict(
        zip(map(tuple, episodes.tolist()), _numbered(episodes).tolist(), strict=True)
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
    found: dict[str, Any] = {}
    if "state_key" in columns:
        found["state_key"] = _ranks((t.game, t.seat, t.state) for t in turns)
    if "action" in columns:
        found["action"] = _ranks((t.game, t.action) for t in turns)
    for name in SUPPLIED:
        given = [(turn.supplied or {}).get(name) for turn in turns]
        if name in columns and None not in given:  # else a critic's
            found[name] = np.array(given, np.int64 if name in INT_COLUMNS else float)
    tokens = [c.removeprefix("tokens.") for c in columns if c.startswith("tokens.")]
    if tokens:
        found["tokens"] = {
            name: np.array([x for t in turns for x in (t.tokens or {})[name]], float)
            for name in tokens
        }
    return found


def _ranks(keys: Iterable[Hashable]) -> NDArray[np.int64]:
    """int64[N]: equal for equal keys, numbered as they first come."""
    numbers: dict[Hashable, int] = {}
    return _integers(numbers.setdefault(key, len(numbers)) for key in keys)


def _integers(values: Iterable[int]) -> NDArray[np.int64]:
    return np.fromiter(values, np.int64)


def _numbered(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """int64[N]: the rank of each row of `keys` among the distinct ones."""
    _, index = np.unique(keys.reshape(-1, 2), axis=0, return_inverse=True)
    return index.ravel().astype(np.int64)
