"""How training rows and their advantages reach TRL."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather_object

from arena_trainers.train.training_rows import Row


def episode_return(episode_return: list[float], **_: Any) -> list[float | None]:
    """TRL's reward function: the return of the row's trajectory, only for TRL's logs."""
    return list(episode_return)


def replay_rows(prompts: list[str], trainer: Any) -> dict[str, Any]:
    """TRL's rollout function: returns the rows, which have already been played."""
    rows = trainer._rows
    return {
        "prompt_ids": [list(row.prompt_ids) for row in rows],
        "completion_ids": [list(row.completion_ids) for row in rows],
        "logprobs": sampling_logprobs(rows),
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


def padded_advantages(
    rows: Sequence[Row], completion_ids: torch.Tensor
) -> torch.Tensor:
    """float32[B, L]: the advantage of each token; 0 at padding and in placeholder rows.

    Args:
        rows: the B rows.
        completion_ids: int64[B, L], the padded completions of the rows.
    """
    advantages = torch.zeros(completion_ids.shape, device=completion_ids.device)
    for i, row in enumerate(rows):
        if row.advantage is not None:
            own = torch.from_numpy(np.asarray(row.advantage, np.float32))
            advantages[i, : len(own)] = own.to(advantages.device)
    return advantages


def relog_advantages(logged: Any, rows: Sequence[Row]) -> None:
    """Replaces the advantages that TRL has just logged by the mean of each row's own.

    Every process has to call it.

    Args:
        logged: the deque of TRL's table of completions.
        rows: this process's rows.
    """
    means = [
        0.0 if row.advantage is None else float(row.advantage.mean()) for row in rows
    ]
    of_all = gather_object(means)
    for _ in range(min(len(of_all), len(logged))):
        logged.pop()
    logged.extend(of_all)
