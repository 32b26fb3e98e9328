"""Advantages of recorded episodes by several estimators."""

import warnings
from collections.abc import Sequence
from typing import Any

from arena_credit import FlatPoolWarning
from arena_credit.export import credited
from arena_studio.report.episodes import Recorded

# they need no columns but those of records
ESTIMATORS = ("random_effects", "mars", "mars_loo", "grpo", "dr_grpo", "rloo", "rae")
Estimates = dict[str, list[float | None] | str]


def estimates_of(recorded: Sequence[Recorded]) -> list[Estimates]:
    """The advantages of each episode's turns by each of `ESTIMATORS`, with default options.

    The episodes of a source are one batch. Training compared whole batches, of which a run
    stores a few groups: estimators whose pools are larger than a group give other values
    here than in training.

    Returns:
        For each episode, by name of the estimator: one advantage per turn, None for turns
        of policies without credit; or why the estimator refuses the episodes. Empty for
        episodes of a source without credit.
    """
    estimates: list[Estimates] = [{} for _ in recorded]
    sources: dict[str, list[int]] = {}
    for number, line in enumerate(recorded):
        sources.setdefault(line.source, []).append(number)
    for numbers in sources.values():
        members = [recorded[number] for number in numbers]
        policies = {
            turn.policy
            for line in members
            for turn, turn_credit in zip(
                line.rollout.episode.turns, line.rollout.credit, strict=True
            )
            if turn_credit is not None
        }
        for name in ESTIMATORS if policies else ():
            values = _estimate(members, name, policies)
            for place, number in enumerate(numbers):
                estimates[number][name] = (
                    values if isinstance(values, str) else values[place]
                )
    return estimates


def _estimate(
    members: Sequence[Recorded], name: str, policies: set[str]
) -> list[list[float | None]] | str:
    """The advantages by episode and turn, or why there are none."""
    episodes: list[Any] = [line.rollout.episode for line in members]
    try:
        with warnings.catch_warnings():
            # few stored groups have flat pools; zeros show it
            warnings.simplefilter("ignore", FlatPoolWarning)
            trajectories = credited(
                episodes, name, policies=policies, columns=None, within_turn="uniform"
            )
    except ValueError as error:
        return str(error)
    advantages = {
        id(turn_credit.turn): turn_credit.advantage
        for trajectory in trajectories
        for turn_credit in trajectory.turns
    }
    return [[advantages.get(id(turn)) for turn in e.turns] for e in episodes]
