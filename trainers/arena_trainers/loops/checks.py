"""Whether the stages of a loop fit together, before the first of them runs."""

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_type_hints

from arena_trainers.data.registry import run_selector, selector_of
from arena_trainers.evaluate.baselines import prepared
from arena_trainers.loops.settings import LEARNER, Loop
from arena_trainers.offline.registry import row_trainer
from arena_trainers.offline.settings import row_config, trainer_args
from arena_trainers.train.game_plans import GamePlan
from arena_wrappers import make_policy

NEED_TREES = ("branch_pairs", "revisions")  # selectors that compare siblings
_KINDS = {"Completion": "completions", "Label": "labels", "Pair": "pairs"}


def check_select(loop: Loop) -> dict[str, Any]:
    """The options of the selector.

    Where it has the option `policies` and the recipe leaves it out, those who play by
    `rounds.play.policies` are chosen.

    Raises:
        ValueError: an unknown selector or option, or one that needs turn trees without them.
    """
    options = dict(loop.select)
    name = options.pop("selector")
    if name in NEED_TREES and loop.play.branch is None:
        raise ValueError(
            f"selector {name!r} needs turn trees, and rounds.play has no branch; give "
            "branch: {num_candidates: 4}"
        )
    if "policies" in inspect.signature(selector_of(name)).parameters:
        options.setdefault("policies", _names(loop.play.policies))
    for _ in run_selector(name, [], 0, options):
        pass  # of no episodes: raises where options do not fit
    return options


def _names(policies: Sequence[str]) -> list[str]:
    """How records call those who play."""
    return [p if p == LEARNER else make_policy(p).name for p in policies]


def check_train(loop: Loop, folder: Path, is_tiny: bool) -> dict[str, Any]:
    """The settings of the trainer, without its model, its rows and its seed.

    Raises:
        ValueError: an unknown trainer or option, rows of another kind than the selector's, or
            a trainer of models that do not play.
    """
    settings = (
        {"gradient_checkpointing": False, **loop.train} if is_tiny else loop.train
    )
    trainer, selector = settings["trainer"], loop.select["selector"]
    kind = row_trainer(trainer)
    if not kind.plays:
        raise ValueError(
            f"trainer {trainer!r} trains a model that chooses no replies, so that no further "
            "round could be played; give another rounds.train.trainer"
        )
    found = rows_of(selector)
    if found is not None and found != kind.rows:
        raise ValueError(
            f"trainer {trainer!r} learns from {kind.rows}, and selector {selector!r} gives "
            f"{found}; give another trainer or selector"
        )
    row_config({**settings, "data": "rows.parquet"})
    trainer_args(kind.config, settings, folder, is_tiny)
    return dict(settings)


def rows_of(selector: str) -> str | None:
    """The kind of rows that a selector gives by its annotation; None if it does not say.

    >>> rows_of("wins"), rows_of("branch_pairs"), rows_of("rule_labels")
    ('completions', 'pairs', 'labels')
    """
    said = str(get_type_hints(selector_of(selector)).get("return"))
    found = {kind for name, kind in _KINDS.items() if f".{name}" in said}
    return found.pop() if len(found) == 1 else None


def check_policies(loop: Loop, plans: Sequence[GamePlan]) -> None:
    """Raises ValueError for a policy that is unknown or refuses a game."""
    play = *loop.play.policies, *loop.play.opponents
    named = {*play, *loop.evaluate.opponents} - {LEARNER, "self"}
    if LEARNER in loop.evaluate.opponents:
        raise ValueError(
            "want self in place of learner in rounds.evaluate.opponents, or another policy"
        )
    for plan in plans:
        if plan.has_own:
            raise ValueError(
                f"want opponents of {plan.id} in rounds.play, got them in games; move them"
            )
        for policy in sorted(named):
            prepared(policy, plan.game)
