"""Further figures of recorded turns: other estimators' advantages, values of each legal action."""

import warnings
from collections.abc import Sequence
from typing import Any

from arena_trainers.credit import FlatPoolWarning
from arena_trainers.credit.export import credited
from arena_trainers.evaluate.move_values import Solved
from arena_trainers.report.episodes import Recorded, printable

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
    found: list[Estimates] = [{} for _ in recorded]
    sources: dict[str, list[int]] = {}
    for number, line in enumerate(recorded):
        sources.setdefault(line.source, []).append(number)
    for numbers in sources.values():
        members = [recorded[number] for number in numbers]
        policies = {
            turn.policy
            for line in members
            for turn, earned in zip(
                line.rollout.episode.turns, line.rollout.credit, strict=True
            )
            if earned is not None
        }
        for name in ESTIMATORS if policies else ():
            values = _estimate(members, name, policies)
            for place, number in enumerate(numbers):
                found[number][name] = (
                    values if isinstance(values, str) else values[place]
                )
    return found


def _estimate(
    members: Sequence[Recorded], name: str, policies: set[str]
) -> list[list[float | None]] | str:
    """The advantages by episode and turn, or why there are none."""
    episodes: list[Any] = [line.rollout.episode for line in members]
    try:
        with (
            warnings.catch_warnings()
        ):  # few stored groups have flat pools; zeros show it
            warnings.simplefilter("ignore", FlatPoolWarning)
            trajectories = credited(
                episodes, name, policies=policies, columns=None, within_turn="uniform"
            )
    except ValueError as error:
        return str(error)
    advantages = {
        id(one.turn): one.advantage
        for trajectory in trajectories
        for one in trajectory.turns
    }
    return [[advantages.get(id(turn)) for turn in e.turns] for e in episodes]


def value_lines(solved: Solved, place: int) -> list[str]:
    """The values at a turn as lines of text, largest first; the action played has a star."""
    moves = solved.turns[place]
    if moves is None:
        return [f"  values    none: {printable(solved.fault or '')}"]
    order = sorted(range(len(moves.values)), key=lambda i: -moves.values[i])
    texts = [
        f"{'*' if i == moves.played else ''}{printable(moves.actions[i])} "
        f"{moves.values[i]:+.4g}"
        for i in order
    ]
    lines = [f"  values    {', '.join(texts)}"]
    if moves.regret is not None:
        lines.append(f"  regret    {moves.regret:.4g}")
    return [*lines, f"{' ' * 12}expected returns if {solved.reference}"]
