"""From played episodes to the turn batch that credit reads and the rows that are trained.

Everything here is free of TRL and of torch.
"""

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_envs.game import AnyGame
from arena_trainers.credit import TurnBatch
from arena_wrappers.episodes import Episode, Turn
from arena_wrappers.replay import turn_states


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


OF_STATES = frozenset({"state_key", "action"})  # columns that follow from the rules


@dataclass
class Row:
    """One training sequence: a turn's prompt and reply, token by token as sampled.

    Attributes:
        prompt_ids: what the model saw.
        completion_ids: what it said, its end token included.
        advantage: float64[num_tokens]; None for a dead row, which carries no loss.
        episode_return: weighted reward of the whole trajectory, for logging.
    """

    prompt_ids: Sequence[int]
    completion_ids: Sequence[int]
    advantage: NDArray[np.float64] | None
    episode_return: float


def turn_records(
    episodes: Sequence[Episode],
    games: Sequence[int],
    learners: Sequence[Sequence[bool]],
    rules: Sequence[AnyGame] = (),
    columns: Collection[str] = (),
) -> list[TurnRecord]:
    """The learners' turns, episode by episode, in playing order.

    Args:
        episodes: what was played.
        games: index of each episode's game.
        learners: for each game, which seats learn.
        rules: the games, where `columns` asks for states or actions.
        columns: which optional columns are asked for.
    """
    records = []
    for number, (episode, game) in enumerate(zip(episodes, games, strict=True)):
        last = {turn.seat: turn.index for turn in episode.turns}
        states: Sequence[Any] = [None] * len(episode.turns)
        if not OF_STATES.isdisjoint(columns):
            states = turn_states(episode, rules[game])
        for turn, state in zip(episode.turns, states, strict=True):
            if not learners[game][turn.seat]:
                continue
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
            )
            if state is not None:
                known = rules[game].information_state(state, turn.seat)
                action = None if turn.invalid else turn.action
                record = record._replace(state=known, action=action)
            records.append(record)
    return records


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
) -> TurnBatch:
    """The global batch: the turns of all processes, in the order of the processes.

    Args:
        shares: the records of each process.
        weights: of the reward parts; 1 where none is given.
        game_names: names of the games, by index.
        columns: which optional columns are asked for. States and actions are numbered as
            they come, so that equal numbers mean equal ones.
    """
    turns = [record for share in shares for record in share]
    names = sorted(set[str]().union(*(turn.rewards for turn in turns)))
    parts = {
        name: np.array([turn.rewards.get(name, 0.0) for turn in turns])
        for name in names
    }
    reward = np.zeros(len(turns))
    for name, values in parts.items():
        reward += weights.get(name, 1.0) * values
    starts = np.array([(turn.game, turn.seed) for turn in turns], np.int64)
    episodes = np.array(
        [(rank, t.episode) for rank, share in enumerate(shares) for t in share],
        np.int64,
    )
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
        **_optional_columns(turns, columns),
    )


def _optional_columns(
    turns: Sequence[TurnRecord], columns: Collection[str]
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if "state_key" in columns:
        found["state_key"] = _ranks((t.game, t.seat, t.state) for t in turns)
    if "action" in columns:
        found["action"] = _ranks((t.game, t.action) for t in turns)
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


def training_rows(
    episodes: Sequence[Episode],
    games: Sequence[int],
    learners: Sequence[Sequence[bool]],
    batch: TurnBatch,
    advantage: NDArray[np.float64],
    offset: int,
) -> list[Row]:
    """One row for each of this process's learner turns, in the order of its records.

    Args:
        episodes: what this process played.
        games: index of each episode's game.
        learners: for each game, which seats learn.
        batch: the global batch.
        advantage: float64[N] per turn or float64[num_tokens.sum()] per token, global.
        offset: number of turns of the processes before this one.
    """
    counts = np.zeros(0, np.int64) if batch.num_tokens is None else batch.num_tokens
    ends = np.cumsum(counts)
    per_turn = len(advantage) == len(batch.reward)
    returns: dict[tuple[int, int], float] = {}
    for e, s, reward in zip(batch.episode, batch.seat, batch.reward, strict=True):
        returns[e, s] = returns.get((e, s), 0.0) + float(reward)
    rows: list[Row] = []
    for episode, game in zip(episodes, games, strict=True):
        for turn in episode.turns:
            if not learners[game][turn.seat]:
                continue
            n = offset + len(rows)
            count = int(counts[n])
            own = (
                np.full(count, advantage[n])
                if per_turn
                else advantage[ends[n] - count : ends[n]]
            )
            row = Row(
                prompt_ids=turn.prompt_ids or (),
                completion_ids=turn.token_ids or (),
                advantage=own,
                episode_return=returns[batch.episode[n], batch.seat[n]],
            )
            rows.append(row)
    return rows


def with_dead_rows(rows: Sequence[Row], num_rows: int, end_id: int) -> list[Row]:
    """`rows` filled up to `num_rows` with rows that carry no loss.

    Every process must train the same number of rows, a multiple of its micro-batches.
    """
    template = rows[0] if rows else Row([end_id], [end_id], None, 0.0)
    mean = float(np.mean([row.episode_return for row in rows])) if rows else 0.0
    dead = Row(template.prompt_ids, template.completion_ids, None, mean)
    return [*rows, *[dead] * (num_rows - len(rows))]
