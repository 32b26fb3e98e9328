"""From played episodes to the turn batch that credit reads and the rows that are trained.

Everything here is free of TRL and of torch.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_trainers.credit import TurnBatch
from arena_trainers.positions import Position
from arena_wrappers.episodes import Episode, Turn


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
    parent: int = -1  # index within its process, as `episode`
    branch: int = -1
    action: Hashable = None
    state_key: Hashable = None
    features: NDArray[np.float32] | None = None
    next_features: NDArray[np.float32] | None = None


@dataclass
class Row:
    """One training sequence: prompt and replies, token by token as sampled.

    Attributes:
        prompt_ids: what the model saw.
        completion_ids: what it said, its end token included.
        advantage: float64[num_tokens]; None for a dead row, which carries no loss.
        episode_return: weighted reward of the whole trajectory, for logging.
        mask: 1 for tokens that the model said; None if all of them are.
    """

    prompt_ids: Sequence[int]
    completion_ids: Sequence[int]
    advantage: NDArray[np.float64] | None
    episode_return: float
    mask: Sequence[int] | None = None

    @property
    def loss_mask(self) -> Sequence[int]:
        """1 for each token of the completion that is trained, else 0."""
        if self.advantage is None:
            return [0] * len(self.completion_ids)
        return self.mask or [1] * len(self.completion_ids)


def turn_records(
    episodes: Sequence[Episode],
    games: Sequence[int],
    learners: Sequence[Sequence[bool]],
    known: Sequence[Sequence[Position]] | None = None,
) -> list[TurnRecord]:
    """The learners' turns, episode by episode, in playing order.

    What an episode shares with the one that it branched from is that one's.

    Args:
        episodes: what was played.
        games: index of each episode's game.
        learners: for each game, which seats learn.
        known: for each episode the position of each turn, where credit reads them.
    """
    records = []
    for number, (episode, game) in enumerate(zip(episodes, games, strict=True)):
        last = {turn.seat: turn.index for turn in episode.turns}
        for at, turn in own_turns(episode):
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
                parent=-1 if episode.parent is None else episode.parent,
                branch=-1 if episode.branch is None else episode.branch,
                action=turn.action,
            )
            if known is not None:
                record = record._replace(**known[number][at]._asdict())
            records.append(record)
    return records


def own_turns(episode: Episode) -> list[tuple[int, Turn]]:
    """The turns of an episode that it does not share with its parent, with their numbers."""
    return list(enumerate(episode.turns))[episode.branch or 0 :]


def games_of(episodes: Sequence[Episode], games: Sequence[int]) -> list[int]:
    """The game of each episode: that of its plan, which those that branched follow.

    Args:
        episodes: what was played.
        games: index of each plan's game.
    """
    plans = np.cumsum([episode.parent is None for episode in episodes]) - 1
    return [games[plan] for plan in plans]


def turn_batch(
    shares: Sequence[Sequence[TurnRecord]],
    weights: Mapping[str, float],
    game_names: Sequence[str],
) -> TurnBatch:
    """The global batch: the turns of all processes, in the order of the processes.

    Args:
        shares: the records of each process.
        weights: of the reward parts; 1 where none is given.
        game_names: names of the games, by index.
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
        **_tree_columns(turns, episodes),
        **_state_columns(turns),
    )


def _tree_columns(
    turns: Sequence[TurnRecord], episodes: NDArray[np.int64]
) -> dict[str, Any]:
    """Columns `parent` and `branch`, if any episode branched from another."""
    parent = _integers(turn.parent for turn in turns)
    if not (parent >= 0).any():
        return {}
    # an episode that branched has a parent with turns of its own
    number_of = {
        (int(rank), int(episode)): int(number)
        for (rank, episode), number in zip(episodes, _numbered(episodes), strict=True)
    }
    numbers = (
        number_of.get((int(rank), int(p)), -1)
        for rank, p in zip(episodes[:, 0], parent, strict=True)
    )
    return {
        "parent": _integers(numbers),
        "branch": _integers(turn.branch for turn in turns),
    }


def _state_columns(turns: Sequence[TurnRecord]) -> dict[str, Any]:
    """Columns `state_key` and `action`, if the turns have positions."""
    if not turns or turns[0].state_key is None:
        return {}
    states: dict[Hashable, int] = {}
    actions: dict[Hashable, int] = {}
    return {
        "state_key": _integers(
            states.setdefault((t.game, t.seat, t.state_key), len(states)) for t in turns
        ),
        "action": _integers(actions.setdefault(t.action, len(actions)) for t in turns),
    }


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
        for _, turn in own_turns(episode):
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
