"""Training rows: one sequence for each turn or trajectory, and the weights of tokens in the loss.

This module imports neither TRL nor torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from arena_credit import TurnBatch
from arena_trainers.train.records import TurnRecord
from arena_trainers.train.turn_batches import row_numbers
from arena_wrappers.records import Episode

# of TRL: every token weighs 1 / all tokens
PER_TOKEN_LOSSES = ("dapo", "cispo", "vespo")
# of TRL: the mean over rows of means over their tokens
PER_ROW_LOSSES = ("grpo", "sapo")


@dataclass
class TrainingRow:
    """One training sequence: prompt and replies, token by token as sampled.

    Attributes:
        prompt_ids: tokens of the prompt.
        completion_ids: tokens of the reply, its end token included; in a row of a
            trajectory, of all replies and of what the seat read between them.
        advantage: float64[num_tokens]; None for a placeholder row, which has no loss.
        episode_return: weighted reward of the whole trajectory, for logging.
        mask: 1 for tokens of `completion_ids` that the model sampled, 0 for others; None if
            it sampled all of them.
        trajectory: index of the episode in its process, and the seat.
        logprobs: of the tokens of `completion_ids` as they were sampled; 0 for others. Empty
            in a placeholder row.
    """

    prompt_ids: Sequence[int]
    completion_ids: Sequence[int]
    advantage: NDArray[np.float64] | None
    episode_return: float
    mask: Sequence[int] | None = None
    trajectory: tuple[int, int] | None = None
    logprobs: Sequence[float] = ()
    # of the turn among the records of its process; -1 for several or none
    place: int = -1
    role: str = ""  # of the generation, if its turn had several
    learner: int = 0  # index of the adapter that is trained, where there are several

    @property
    def loss_mask(self) -> Sequence[int]:
        """1 for each token of the completion that is trained, else 0."""
        if self.advantage is None:
            return [0] * len(self.completion_ids)
        return self.mask or [1] * len(self.completion_ids)


def training_rows(
    episodes: Sequence[Episode],
    records: Sequence[TurnRecord],
    batch: TurnBatch,
    advantage: NDArray[np.float64],
    in_batch: range,
) -> list[TrainingRow]:
    """One row for each record of this process, in their order.

    Turns that were selected by their return have no row, because they have no advantage.

    Args:
        episodes: what this process played.
        records: its turns.
        batch: the global batch.
        advantage: float64[N] per turn or float64[num_tokens.sum()] per token, global.
        in_batch: where the records are in the global batch, see `rows_of_process`.
    """
    counts = np.zeros(0, np.int64) if batch.num_tokens is None else batch.num_tokens
    if len(advantage) == len(batch.reward):
        advantage = np.repeat(advantage, counts)
    ends = np.cumsum(counts)
    returns: dict[tuple[int, int], float] = {}
    trajectories = [*zip(batch.episode.tolist(), batch.seat.tolist(), strict=True)]
    for trajectory, reward in zip(trajectories, batch.reward.tolist(), strict=True):
        returns[trajectory] = returns.get(trajectory, 0.0) + reward
    unselected = batch.is_unselected.tolist()
    spans = [*zip((ends - counts).tolist(), ends.tolist(), strict=True)]
    rows: list[TrainingRow] = []
    for place, (record, n) in enumerate(zip(records, in_batch, strict=True)):
        if not unselected[n]:
            continue
        turn = episodes[record.episode].turns[record.place]
        generation = turn if record.call < 0 else turn.generations[record.call]
        row = TrainingRow(
            prompt_ids=generation.prompt_ids or (),
            completion_ids=generation.token_ids or (),
            advantage=advantage[slice(*spans[n])],
            episode_return=returns[trajectories[n]],
            trajectory=(record.episode, record.seat),
            logprobs=generation.logprobs or (),
            place=place,
            role=record.role,
        )
        rows.append(row)
    return rows


def with_placeholder_rows(
    rows: Sequence[TrainingRow], num_rows: int, end_id: int
) -> list[TrainingRow]:
    """`rows` filled up to `num_rows` with rows that have no loss.

    Every process must train the same number of rows, a multiple of its micro-batches.

    Args:
        rows: the rows that are trained.
        num_rows: how many rows are returned.
        end_id: the only token of placeholder rows where there are no other rows.
    """
    template = rows[0] if rows else TrainingRow([end_id], [end_id], None, 0.0)
    mean = float(np.mean([row.episode_return for row in rows])) if rows else 0.0
    filler = TrainingRow(template.prompt_ids, template.completion_ids, None, mean)
    return [*rows, *[filler] * (num_rows - len(rows))]


def turn_weights(batch: TurnBatch) -> NDArray[np.float64]:
    """Weights that turn TRL's mean over tokens into the mean of MARS's equation 3.

        wₖ = N / (P · Gₚ · Kᵢ · nₖ)

    for turn k of nₖ tokens, in a trajectory i of Kᵢ turns, of a seat p with Gₚ trajectories,
    with P seats and N tokens in all. Then 1/N Σ w L over tokens is the mean over seats, then
    trajectories, then turns, then tokens. Weights are positive, so a weighted advantage
    keeps its sign in a clipped loss. The mean weight of a token is 1.

    See "MARS: Reinforcing Multi-Agent Reasoning of LLMs through Self-Play in Strategic
    Games" (https://arxiv.org/abs/2510.15414).

    Args:
        batch: the global batch, with `num_tokens`.

    Returns:
        float64[N], one for each turn; 0 for a turn that was selected by its return, which
            is not trained.
    """
    if batch.num_tokens is None:
        raise ValueError("want the column 'num_tokens' in the turn batch, got None")
    unselected = batch.is_unselected
    num_tokens = batch.num_tokens[unselected]
    keys = np.stack([batch.seat, batch.episode], axis=1)[unselected]
    pairs, trajectory = np.unique(keys, axis=0, return_inverse=True)
    trajectory = trajectory.ravel()
    num_turns = np.bincount(trajectory)[trajectory]
    seats, seat = np.unique(pairs[:, 0], return_inverse=True)
    num_trajectories = np.bincount(seat)[seat][trajectory]
    parts = len(seats) * num_trajectories * num_turns * num_tokens
    weights = np.zeros(len(unselected))
    weights[unselected] = num_tokens.sum() / parts
    return weights


def whole_row_lengths(batch: TurnBatch) -> NDArray[np.int64]:
    """int64[N]: length of the row that holds each turn's whole trajectory.

    A turn that was selected by its return has no row. Its entry is its own length.
    """
    if batch.row_length is None:
        raise ValueError("want the column 'row_length' in the turn batch, got None")
    unselected, row = batch.is_unselected, _trajectory_numbers(batch)
    longest = np.zeros(len(row), np.int64)
    np.maximum.at(longest, row[unselected], batch.row_length[unselected])
    lengths: NDArray[np.int64] = np.where(unselected, longest[row], batch.row_length)
    return lengths


def _trajectory_numbers(batch: TurnBatch) -> NDArray[np.int64]:
    """int64[N]: index of each turn's row, if rows hold whole trajectories."""
    return row_numbers(np.stack([batch.episode, batch.seat], axis=1))


def weighted(advantage: NDArray[np.float64], batch: TurnBatch) -> NDArray[np.float64]:
    """Advantages, one per turn or one per token, times the weights of their turns."""
    return _weighted_by_turn(advantage, turn_weights(batch), batch)


def loss_weighted(
    advantage: NDArray[np.float64], batch: TurnBatch, loss_type: str, layout: str
) -> NDArray[np.float64]:
    """Advantages times the weights of their tokens in TRL's loss, up to a common factor.

    Args:
        advantage: as it is trained, one per turn or one per token.
        batch: the global batch, with `num_tokens`.
        loss_type: of TRL; those of `PER_ROW_LOSSES` divide by the tokens of the row.
        layout: what a row holds, `"turn"` or `"trajectory"`.
    """
    if loss_type not in PER_ROW_LOSSES or batch.num_tokens is None:
        return advantage
    tokens = batch.num_tokens
    if layout == "trajectory":
        unselected, row = batch.is_unselected, _trajectory_numbers(batch)
        trained = np.bincount(row, np.where(unselected, tokens, 0))[row]
        tokens = np.where(unselected, trained, tokens)
    return _weighted_by_turn(advantage, 1 / tokens, batch)


def _weighted_by_turn(
    advantage: NDArray[np.float64], weights: NDArray[np.float64], batch: TurnBatch
) -> NDArray[np.float64]:
    if len(advantage) != len(weights):
        weights = np.repeat(weights, batch.num_tokens)  # type: ignore[arg-type] # checked
    product: NDArray[np.float64] = advantage * weights
    return product


def trajectory_rows(rows: Sequence[TrainingRow]) -> list[TrainingRow]:
    """One row for each trajectory: a seat's turns, and between them what it read.

    Tokens that the seat read are masked. Tokens are exactly those that were sampled, so
    each turn's prompt has to begin with the turn before, as in a transcript.

    Args:
        rows: of single turns, in playing order.

    Raises:
        ValueError: a prompt does not begin with the turn before, or a row names no
            trajectory.
    """
    joined: dict[tuple[int, int], TrainingRow] = {}
    for row in rows:
        key = row.trajectory
        if key is None:
            raise ValueError("want rows of turns with their trajectory, got None")
        joined[key] = _with_next_turn(joined[key], row, key) if key in joined else row
    return list(joined.values())


def _with_next_turn(
    before: TrainingRow, row: TrainingRow, key: tuple[int, int]
) -> TrainingRow:
    """The row with the next turn of the same seat appended."""
    if before.advantage is None or row.advantage is None:
        raise ValueError("want rows that have a loss, got a placeholder row")
    earlier_ids = [*before.prompt_ids, *before.completion_ids]
    if list(row.prompt_ids[: len(earlier_ids)]) != earlier_ids:
        raise ValueError(
            "layout='trajectory' needs prompts that begin with the turn before, token "
            f"for token; a turn of seat {key[1]} in episode {key[0]} does not"
        )
    read_ids = list(row.prompt_ids[len(earlier_ids) :])
    return TrainingRow(
        prompt_ids=before.prompt_ids,
        completion_ids=[*before.completion_ids, *read_ids, *row.completion_ids],
        advantage=np.concatenate(
            [before.advantage, np.zeros(len(read_ids)), row.advantage]
        ),
        episode_return=before.episode_return,
        mask=[*before.loss_mask, *[0] * len(read_ids), *row.loss_mask],
        trajectory=key,
        logprobs=[*before.logprobs, *[0.0] * len(read_ids), *row.logprobs],
    )
