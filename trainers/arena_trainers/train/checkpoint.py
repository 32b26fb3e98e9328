"""Credit in a checkpoint: its owner, the estimator's state and the critic's weights."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from arena_trainers.credit.by_name import find_estimator
from arena_trainers.credit.needs import keeps_state
from arena_trainers.train import CREDIT_STATE
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.critics import FeatureCritic
from arena_trainers.train.games import GamePlan

CRITIC = "critic.pt"


def credited_by(args: TurnGRPOConfig, plans: Sequence[GamePlan]) -> dict[str, Any]:
    """The owner of a state or critic: estimator, critic, and games in their order."""
    names = [plan.name for plan in plans]
    return {"credit": args.credit, "critic": args.critic, "games": names}


def save_credit(
    folder: Path,
    owner: Mapping[str, Any],
    state: Mapping[str, Any] | None,
    critic: Any = None,
) -> None:
    """Writes the state from which the next batch's credit follows, and its owner.

    Args:
        folder: the checkpoint.
        owner: the result of `credited_by`.
        state: the estimator's state, if it keeps one.
        critic: the critic, if there is one; only a `FeatureCritic` is written.
    """
    if isinstance(critic, FeatureCritic):
        torch.save(critic.state_dict(), folder / CRITIC)
    (folder / CREDIT_STATE).write_text(json.dumps({**owner, "state": state}))


def load_credit(
    folder: Path, owner: Mapping[str, Any], critic: Any = None
) -> Mapping[str, Any] | None:
    """The estimator's state in a checkpoint, if any; a `FeatureCritic` gets its weights.

    A run may go on with another estimator if neither of the two keeps a state or has a
    `FeatureCritic`.

    Raises:
        ValueError: the checkpoint has another owner or none, and its state or critic would
            be needed or lost.
    """
    file = folder / CREDIT_STATE
    found = json.loads(file.read_text()) if file.is_file() else None
    learns = isinstance(critic, FeatureCritic)
    kept = learns or keeps_state(find_estimator(owner["credit"]))
    if found is None:
        if kept:
            raise ValueError(
                f"want a checkpoint of credit {owner['credit']!r} with critic "
                f"{owner['critic']!r}, got one without {CREDIT_STATE}"
            )
        return None
    if kept or found["state"] is not None or found["critic"] == "features":
        for key, wanted in owner.items():
            if found[key] != wanted:
                raise ValueError(
                    f"want a checkpoint of {key} {wanted!r}, got one of {found[key]!r}"
                )
    if learns:
        critic.load_state_dict(torch.load(folder / CRITIC, weights_only=True))
    state: Mapping[str, Any] | None = found["state"]
    return state
