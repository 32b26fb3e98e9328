"""What a checkpoint holds of credit: the estimator's state and the critic's weights."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from arena_trainers.config import TurnGRPOConfig
from arena_trainers.critic import FeatureCritic
from arena_trainers.games import GamePlan

CREDIT_STATE = "credit_state.json"
CRITIC = "critic.pt"


def credited_by(args: TurnGRPOConfig, plans: Sequence[GamePlan]) -> dict[str, Any]:
    """What states and critics belong to; states number games as they are listed."""
    names = [plan.name for plan in plans]
    return {"credit": args.credit, "critic": args.critic, "games": names}


def save_credit(
    folder: Path,
    owner: Mapping[str, Any],
    state: Mapping[str, Any] | None,
    critic: Any = None,
) -> None:
    """Writes what the next batch's credit follows from; nothing if nothing is kept.

    Args:
        folder: the checkpoint.
        owner: what `credited_by` says.
        state: of the estimator, if it keeps one.
        critic: the critic, if there is one; only a learned one is written.
    """
    if isinstance(critic, FeatureCritic):
        torch.save(critic.state_dict(), folder / CRITIC)
    if critic is not None or state is not None:
        (folder / CREDIT_STATE).write_text(json.dumps({**owner, "state": state}))


def load_credit(
    folder: Path, owner: Mapping[str, Any], critic: Any = None
) -> Mapping[str, Any] | None:
    """The estimator's state in a checkpoint, if any; a learned critic gets its weights.

    Raises:
        ValueError: the checkpoint is of another estimator, critic or list of games.
    """
    state = None
    if (folder / CREDIT_STATE).is_file():
        found = json.loads((folder / CREDIT_STATE).read_text())
        for key, wanted in owner.items():
            if found[key] != wanted:
                raise ValueError(
                    f"want a checkpoint of {key} {wanted!r}, got one of {found[key]!r}"
                )
        state = found["state"]
    if isinstance(critic, FeatureCritic):
        critic.load_state_dict(torch.load(folder / CRITIC, weights_only=True))
    return state
