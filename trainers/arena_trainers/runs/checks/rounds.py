"""Checks of the stages of rounds before the first one: selectors, trainers, policies."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_type_hints

from arena_envs.registry import broken
from arena_eval.baselines import prepared
from arena_trainers.data import joined, selectors
from arena_trainers.data.rows import AnyRow, Dropped
from arena_trainers.data.selection import run_selector
from arena_trainers.offline.protocol import row_trainer
from arena_trainers.runs.round_settings import LEARNER, Loop, PlayStage, RoundStages
from arena_trainers.runs.row_settings import row_config, trainer_args
from arena_trainers.train.games import GamePlan
from arena_trainers.trial import trial
from arena_wrappers import make_policy, play

SIBLING_SELECTORS = ("branch_pairs", "revisions")  # selectors
_KINDS = {"Completion": "completions", "Label": "labels", "Pair": "pairs"}


def check_stages(
    stages: RoundStages,
    folder: Path,
    shared: Mapping[str, Any],
    *,
    retries: bool = False,
) -> RoundStages:
    """The stages of a round with all their options.

    The selector's option `policies` is by default the names of `rounds.play.policies`, and `judge`
    the model that plays.

    Args:
        stages: as the recipe has them.
        folder: the run folder.
        shared: settings of the trainer where the recipe has none.
        retries: whether a seat is asked again after an invalid reply.

    Raises:
        ValueError: an unknown selector, trainer or option; a selector that needs turn trees
            without them; rows of another kind than the trainer's; a trainer of models that do
            not play.
    """
    train = {**shared, **stages.train}
    select = _selector(stages.play, stages.select, retries)
    stages_with_options = replace(stages, select=select, train=train)
    _check_train(stages_with_options, folder)
    return stages_with_options


def _selector(
    play: PlayStage, select: Mapping[str, Mapping[str, Any]], retries: bool
) -> dict[str, dict[str, Any]]:
    """The selector with its options."""
    ((name, options_in_recipe),) = select.items()
    options = dict(options_in_recipe)
    has_corrections = name == "revisions" and retries  # it also reads those
    if name in SIBLING_SELECTORS and play.branch is None and not has_corrections:
        advice = ""
        if name == "revisions":
            advice = ", or on_invalid: retry beside rounds"
        raise ValueError(
            f"selector {name!r} needs turn trees, and rounds.play has no branch; give "
            f"branch: {{num_candidates: 4}}{advice}"
        )
    parameters = inspect.signature(selectors.find(name)).parameters
    if "policies" in parameters:
        names = [p if p == LEARNER else make_policy(p).name for p in play.policies]
        options.setdefault("policies", names)
    if "judge" in parameters:
        options.setdefault("judge", LEARNER)
    stand_in = {"judge": "random"} if options.get("judge") == LEARNER else {}
    for _ in run_selector(name, [], 0, {**options, **stand_in}):
        pass  # of no episodes: raises where options do not fit
    return {name: options}


def try_selectors(stages: Sequence[RoundStages], plans: Sequence[GamePlan]) -> None:
    """Has selectors of the user choose rows from random play of the run's games.

    Raises:
        ValueError: one raises, or yields something other than rows and `Dropped`.
    """
    selections = [pair for of_round in stages for pair in of_round.select.items()]
    for name, options in selections:
        if selectors.read(name).name in selectors.built_in:
            continue
        if options.get("judge") == LEARNER:
            options = {**options, "judge": "random"}
        episodes = joined([play(p.env_fn, "random", range(4)) for p in plans])
        with trial(f"selector {name!r}", "one that check_selector passes"):
            for row in run_selector(name, episodes, 0, options):
                if not isinstance(row, AnyRow | Dropped):
                    broken("rows", f"want rows and Dropped, got {row!r:.80}")


def _check_train(stages: RoundStages, folder: Path) -> None:
    trainer, selector = stages.train["trainer"], next(iter(stages.select))
    kind = row_trainer(trainer)
    if not kind.plays:
        raise ValueError(
            f"trainer {trainer!r} trains a model that chooses no replies, so that no "
            "further round could be played; give another rounds.train.trainer"
        )
    selector_rows = kind_of_rows(selector)
    if selector_rows is not None and selector_rows != kind.rows:
        raise ValueError(
            f"trainer {trainer!r} learns from {kind.rows}, and selector {selector!r} "
            f"gives {selector_rows}; give another trainer or selector"
        )
    row_config({**stages.train, "data": "rows.parquet"})
    trainer_args(kind.config, stages.train, folder, is_tiny=False)


def kind_of_rows(selector: str) -> str | None:
    """The kind of rows that a selector gives by its annotation; None if it does not say.

    >>> kind_of_rows("wins"), kind_of_rows("branch_pairs"), kind_of_rows("rule_labels")
    ('completions', 'pairs', 'labels')
    """
    annotation = str(get_type_hints(selectors.find(selector)).get("return"))
    kinds = {kind for name, kind in _KINDS.items() if f".{name}" in annotation}
    return kinds.pop() if len(kinds) == 1 else None


def check_round_policies(loop: Loop, plans: Sequence[GamePlan]) -> None:
    """Raises ValueError for a policy that is unknown or refuses a game."""
    policies = {*loop.evaluate.opponents}
    for stages in loop.stages:
        policies |= {*stages.play.policies, *stages.play.opponents}
    policies -= {LEARNER, "self"}
    if LEARNER in loop.evaluate.opponents:
        raise ValueError(
            "want self in place of learner in rounds.evaluate.opponents, or another "
            "policy"
        )
    for plan in plans:
        if plan.has_own:
            raise ValueError(
                f"want opponents of {plan.id} in rounds.play, got them in games; move "
                "them"
            )
        for policy in sorted(policies):
            prepared(policy, plan.game)
