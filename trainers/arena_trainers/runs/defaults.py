"""What a recipe only defaults yields to the options of the command line.

| the command line gives | what yields |
|---|---|
| `lora`, `roles`, or `beta` 0, so that nothing reads a reference that moves | `sync_ref_model` |
| a `credit` that reads no values | `critic` |
| a `credit` or an `agent` that takes no turn trees | `branch` |
| `branch` | `flat_groups`, `oversample` |
| `asynchronous` | `max_replays` |
| games or a format of replies, for a new tiny model | `max_completion_length`: then the longest legal reply |
| sizes of batches | `episodes_per_step` and `save_steps`: the nearest numbers that fit |

A command line that contradicts itself is refused, and so is a recipe.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import arena_credit as credit
from arena_credit.by_name import find_estimator, with_options
from arena_credit.needs import needs_of
from arena_trainers.runs.mappings import typed_name
from arena_trainers.train.critics.registry import critic_facts
from arena_trainers.train.listed_options import listed_options
from arena_trainers.train.settings import Draft


class YieldingOptions(NamedTuple):
    """Options of a recipe that yield.

    Attributes:
        winners: options of the command line; one of them is given.
        losers: those of the recipe, the main one first.
        conflicts: whether the settings cannot have both.
    """

    winners: tuple[str, ...]
    losers: tuple[str, ...]
    conflicts: Callable[[Draft], object]


def _reads_no_values(draft: Draft) -> bool:
    name = with_options(draft.credit, {})[0]
    columns = credit.needed_columns(name, draft.within_turn)
    return not {*critic_facts(draft.critic).supplies} & {*columns}


def _takes_no_trees(draft: Draft) -> bool:
    needs = needs_of(find_estimator(with_options(draft.credit, {})[0]))
    return needs.compares_trajectories or "state_key" not in needs.columns


_MOVING_REFERENCE = ("sync_ref_model", "ref_model_sync_steps", "ref_model_mixup_alpha")
RULES = (
    YieldingOptions(("roles",), _MOVING_REFERENCE, lambda draft: draft.roles),
    YieldingOptions(("lora_r",), _MOVING_REFERENCE, lambda draft: True),
    YieldingOptions(
        ("beta", "losses"), _MOVING_REFERENCE, lambda draft: not draft.reads_reference
    ),
    YieldingOptions(("credit",), ("critic", "critic_args"), _reads_no_values),
    YieldingOptions(("credit",), ("branch",), _takes_no_trees),
    YieldingOptions(("agent",), ("branch",), lambda draft: draft.agent),
    YieldingOptions(
        ("branch",), ("flat_groups", "max_replays"), lambda draft: draft.branch
    ),
    YieldingOptions(("branch",), ("oversample",), lambda draft: draft.branch),
    YieldingOptions(
        ("asynchronous",), ("max_replays",), lambda draft: draft.asynchronous
    ),
)
_REPLY_OPTIONS = ("games", "reply_format", "vocab_size", "warm_start_games")
_BATCH_OPTIONS = (
    "episodes_per_step",
    "num_generations",
    "num_iterations",
    "gradient_accumulation_steps",
    "steps_per_generation",
    "generation_batch_size",
)


def drop_yielding_options(
    settings: Mapping[str, Any], overrides: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """The settings without the options of the recipe that yield, and notes that say which.

    Args:
        settings: of the recipe and the command line together.
        overrides: of the command line.
    """
    settings, notes = dict(settings), list[str]()
    is_tiny = settings.get("model", "tiny") == "tiny"
    if (
        is_tiny
        and {*_REPLY_OPTIONS} & {*overrides}
        and "max_completion_length" not in overrides
    ):
        settings.pop("max_completion_length", None)
    with suppress(ValueError, ImportError):  # the checks of the run say what is wrong
        for rule in RULES:
            winners = [name for name in rule.winners if name in overrides]
            main = rule.losers[0]
            if not winners or main in overrides or not settings.get(main):
                continue
            if rule.conflicts(_draft(settings)):
                for name in {*rule.losers} - {*overrides}:
                    settings.pop(name, None)
                notes.append(
                    f"note: {typed_name(winners[0]).rstrip('=')} leaves out the recipe's {main}"
                )
        if {*_BATCH_OPTIONS} & {*overrides}:
            notes += _fit_batches(settings, overrides)
    return settings, notes


def _draft(settings: Mapping[str, Any]) -> Draft:
    """The trainer's options, without those of the job.

    Raises:
        ValueError: one is of another type.
    """
    options = listed_options()
    values = {name: option.default for name, option in options.items()}
    for name, value in settings.items():
        if name in options:
            values[name] = options[name].converted(value)
    return Draft(values)


def _fit_batches(settings: dict[str, Any], overrides: Mapping[str, Any]) -> list[str]:
    """Changes the recipe's sizes to the nearest that fit; notes say which."""
    notes = []
    for name, unit in (
        ("episodes_per_step", "episodes_unit"),
        ("save_steps", "window"),
    ):
        number, size = settings.get(name), getattr(_draft(settings), unit)
        if name in overrides or type(number) is not int or size < 1:
            continue
        nearest = max(round(number / size), 1) * size
        if nearest != number:
            settings[name] = nearest
            notes.append(
                f"note: the recipe's {name} {number} becomes {nearest}, to fit"
            )
    return notes
