"""What a training row holds, how much its tokens weigh, and how TRL is given it.

Everything here is free of TRL and of torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena_trainers.credit import TurnBatch
from arena_trainers.train.turn_records import trained_turns
from arena_wrappers.episodes import Episode

LAYOUTS = ("turn", "trajectory")
WEIGHTINGS = ("token", "turn")
PER_TOKEN_LOSSES = (
    "dapo",
    "cispo",
    "vespo",
)  # of TRL: every token weighs 1 / all tokens
# of TRL: the mean over rows of means over their tokens
PER_ROW_LOSSES = ("grpo", "sapo")


@dataclass
class Row:
    """One training sequence: prompt and replies, token by token as sampled.

    Attributes:
        prompt_ids: what the model saw.
        completion_ids: what it said, its end token included.
        advantage: float64[num_tokens]; None for a dead row, which carries no loss.
        episode_return: weighted reward of the whole trajectory, for logging.
        mask: 1 for tokens that the model said; None if all of them are.
        logprobs: of the tokens as they were sampled; 0 for those that the model read. Empty
            for a dead row.
    """

    prompt_ids: Sequence[int]
    completion_ids: Sequence[int]
    advantage: NDArray[np.float64] | None
    episode_return: float
    mask: Sequence[int] | None = None
    logprobs: Sequence[float] = ()

    @property
    def loss_mask(self) -> Sequence[int]:
        """1 for each token of the completion that is trained, else 0."""
        if self.advantage is None:
            return [0] * len(self.completion_ids)
        return self.mask or [1] * len(self.completion_ids)


def training_rows(
    episodes: Sequence[Episode],
    games: Sequence[int],
    learners: Sequence[Sequence[bool]],
    batch: TurnBatch,
    advantage: NDArray[np.float64],
    offset: int,
) -> list[Row]:
    """One row for each of this process's learner turns, in the order of its records.

    Turns that were selected by their return have none: they would be trained on nothing.

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
    unselected = batch.is_unselected
    rows: list[Row] = []
    n = offset - 1
    for episode, game in zip(episodes, games, strict=True):
        for place in trained_turns(episode, learners[game]):
            turn = episode.turns[place]
            n += 1
            if not unselected[n]:
                continue
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
                logprobs=turn.logprobs or (),
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


def turn_weights(batch: TurnBatch) -> NDArray[np.float64]:
    """Weights that turn TRL's mean over tokens into the mean of MARS's equation 3.

        wₖ = N / (P · Gₚ · Kᵢ · nₖ)

    for a turn of n tokens, in a trajectory of K turns, of a seat with G trajectories, of P
    seats, of N tokens altogether: 1/N Σ w L over tokens is the mean over seats, then
    trajectories, then turns, then tokens. They are positive, so that they pass through a
    clipped loss, and their mean over tokens is 1.

    See "MARS: Reinforcing Multi-Agent Reasoning of LLMs through Self-Play in Strategic
    Games" (https://arxiv.org/abs/2510.15414).

    Args:
        batch: the global batch, with `num_tokens`.

    Returns:
        float64[N], one for each turn; 0 for one that was selected by its return, and so not trained.
    """
    if batch.num_tokens is None:
        raise ValueError("want the column 'num_tokens' in the turn batch, got None")
    own = batch.is_unselected
    num_tokens = batch.num_tokens[own]
    keys = np.stack([batch.seat, batch.episode], axis=1)[own]
    pairs, trajectory = np.unique(keys, axis=0, return_inverse=True)
    trajectory = trajectory.ravel()
    num_turns = np.bincount(trajectory)[trajectory]
    seats, seat = np.unique(pairs[:, 0], return_inverse=True)
    num_trajectories = np.bincount(seat)[seat][trajectory]
    parts = len(seats) * num_trajectories * num_turns * num_tokens
    weights = np.zeros(len(own))
    weights[own] = num_tokens.sum() / parts
    return weights


def whole_row_lengths(batch: TurnBatch) -> NDArray[np.int64]:
    """int64[N]: length of the row of each turn's trajectory, which ends with its last turn.

    Turns that were selected by their return are in no row; their own length stands there.
    """
    if batch.row_length is None:
        raise ValueError("want the column 'row_length' in the turn batch, got None")
    own, row = batch.is_unselected, _rows_of(batch)
    longest = np.zeros(len(row), np.int64)
    np.maximum.at(longest, row[own], batch.row_length[own])
    lengths: NDArray[np.int64] = np.where(own, longest[row], batch.row_length)
    return lengths


def _rows_of(batch: TurnBatch) -> NDArray[np.int64]:
    """int64[N]: which row whole trajectories give a turn."""
    keys = np.stack([batch.episode, batch.seat], axis=1)
    _, row = np.unique(keys, axis=0, return_inverse=True)
    return row.ravel().astype(np.int64)


def weighted(advantage: NDArray[np.float64], batch: TurnBatch) -> NDArray[np.float64]:
    """Advantages, one per turn or one per token, times the weights of their turns."""
    return _times(advantage, turn_weights(batch), batch)


def loss_weighted(
    advantage: NDArray[np.float64], batch: TurnBatch, loss_type: str, layout: str
) -> NDArray[np.float64]:
    """Advantages times what their tokens weigh in TRL's loss, up to a common factor.

    Args:
        advantage: as it is trained, one per turn or one per token.
        batch: the global batch, with `num_tokens`.
        loss_type: of TRL; those of `PER_ROW_LOSSES` divide by the tokens of the row.
        layout: what a row holds.
    """
    if loss_type not in PER_ROW_LOSSES or batch.num_tokens is None:
        return advantage
    tokens = batch.num_tokens
    if layout == "trajectory":
        own, row = batch.is_unselected, _rows_of(batch)
        trained = np.bincount(row, np.where(own, tokens, 0))[row]
        tokens = np.where(own, trained, tokens)
    return _times(advantage, 1 / tokens, batch)


def _times(
    advantage: NDArray[np.float64], weights: NDArray[np.float64], batch: TurnBatch
) -> NDArray[np.float64]:
    if len(advantage) != len(weights):
        weights = np.repeat(weights, batch.num_tokens)  # type: ignore[arg-type] # checked
    product: NDArray[np.float64] = advantage * weights
    return product


def trajectory_rows(rows: Sequence[Row], keys: Sequence[tuple[int, int]]) -> list[Row]:
    """One row for each seat and episode: its turns, and between them what it read.

    What other seats and the environment said is masked. Tokens are those that were sampled,
    so each turn's prompt has to begin with the turn before, as in a transcript.

    Args:
        rows: of single turns, in playing order.
        keys: episode and seat of each.

    Raises:
        ValueError: a prompt does not begin with the turn before.
    """
    joined: dict[tuple[int, int], Row] = {}
    for row, key in zip(rows, keys, strict=True):
        joined[key] = _joined(joined[key], row, key) if key in joined else row
    return list(joined.values())


def _joined(before: Row, row: Row, key: tuple[int, int]) -> Row:
    """A row that goes on with the next turn of the same seat."""
    if before.advantage is None or row.advantage is None:
        raise ValueError("want rows that carry a loss, got a dead one")
    known = [*before.prompt_ids, *before.completion_ids]
    if list(row.prompt_ids[: len(known)]) != known:
        raise ValueError(
            f"layout='trajectory' needs prompts that begin with the turn before, token for "
            f"token; a turn of seat {key[1]} in episode {key[0]} does not"
        )
    read = list(row.prompt_ids[len(known) :])
    return Row(
        prompt_ids=before.prompt_ids,
        completion_ids=[*before.completion_ids, *read, *row.completion_ids],
        advantage=np.concatenate(
            [before.advantage, np.zeros(len(read)), row.advantage]
        ),
        episode_return=before.episode_return,
        mask=[*before.loss_mask, *[0] * len(read), *row.loss_mask],
        logprobs=[*before.logprobs, *[0.0] * len(read), *row.logprobs],
    )


def episode_return(episode_return: list[float], **_: Any) -> list[float | None]:
    """TRL's reward function: the return of the row's trajectory, for its logs alone."""
    return list(episode_return)


def replay_rows(prompts: list[str], trainer: Any) -> dict[str, Any]:
    """TRL's rollout function: hands over the rows that were already played."""
    rows = trainer._rows
    return {
        "prompt_ids": [list(row.prompt_ids) for row in rows],
        "completion_ids": [list(row.completion_ids) for row in rows],
        "logprobs": sampling_logprobs(rows) if trainer.use_vllm else None,
        "env_mask": [list(row.loss_mask) for row in rows],
        "episode_return": [row.episode_return for row in rows],
    }


def sampling_logprobs(rows: Sequence[Row]) -> list[list[float]]:
    """For each row the log-probabilities of its tokens as sampled; 0 where it has no loss."""
    return [
        [x if own else 0.0 for x, own in zip(row.logprobs, row.loss_mask, strict=True)]
        if row.logprobs
        else [0.0] * len(row.completion_ids)
        for row in rows
    ]
