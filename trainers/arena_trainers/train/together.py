"""What cannot be trained together: one table, for the dry run, the preflight and the trainer.

`FEATURES` says whether the settings have a feature, and what a user calls it. `CLASHES` has the pairs
that are refused. A new feature of who plays or what learns needs a line in the first, a pair that it does
not support one in the second.

This module imports neither TRL nor torch.
"""

import operator
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, NamedTuple

from arena_trainers.curricula import curricula
from arena_trainers.losses import terms_of
from arena_trainers.matchmaking import make_matchmaker
from arena_trainers.matchmaking.by_name import names_matchmaker
from arena_trainers.train.columns import RewardColumn, pays_calls
from arena_trainers.train.critics.registry import critic_facts
from arena_trainers.train.settings import SelfPlay

VALUES = ("value", "action_value")
CALLS = "each turn of an agent is several calls of models"
LATE = "results of a batch are known after the next one began"
OWN_MODELS = "each role has weights of its own"
SHARED = "the candidates of a turn tree share the turns before them"


class Setup(NamedTuple):
    """The settings of a run, and what supplies columns of its turn batch.

    Attributes:
        args: the trainer's settings.
        columns: names of the columns that credit reads.
        suppliers: functions and reward models by column, or what names them.
        is_adapted: whether a LoRA adapter is trained; None where the settings do not say.
        plays_agent: whether turns have several calls of models, whatever `args` says.
    """

    args: SelfPlay
    columns: Collection[str]
    suppliers: Mapping[str, Any]
    is_adapted: bool | None
    plays_agent: bool


def _agent(setup: Setup) -> str | None:
    if setup.args.agent is not None:
        return f"agent {setup.args.agent!r}"
    return "an agent" if setup.plays_agent else None


def _matchmaker(setup: Setup) -> str | None:
    opponents = setup.args.opponents
    return f"opponents {opponents!r}" if names_matchmaker(opponents) else None


def _snapshots(setup: Setup) -> str | None:
    name = _matchmaker(setup)
    return name if name and make_matchmaker(setup.args.opponents).max_live else None


def _taught(setup: Setup) -> str | None:
    name = setup.args.curriculum
    reads = name is not None and curricula.make(name).reads_success
    return f"curriculum {name!r}" if reads else None


def _teacher(setup: Setup) -> str | None:
    for term in terms_of(setup.args.losses, setup.args.layout):
        if "teacher" in term.needs:
            return f"losses {term.name!r}, which has a teacher"
    return None


def _critic(setup: Setup) -> str | None:
    name = setup.args.critic
    return None if name is None else f"critic {name!r}"


def _reading_critic(setup: Setup) -> str | None:
    """A critic that reads the model that learns."""
    return _critic(setup) if critic_facts(setup.args.critic).reads_model else None


def _current(setup: Setup) -> str | None:
    """A critic that reads the policy's probabilities of all actions."""
    name = setup.args.critic
    scores = "reply_probs" in critic_facts(name).reads_of(setup.columns)
    return _critic(setup) if name == "exact" or scores else None


def _values(setup: Setup) -> str | None:
    suppliers = setup.suppliers
    for name in VALUES:
        # what is named by a text is checked when it is imported
        is_imported = name in suppliers and not isinstance(suppliers[name], str)
        if is_imported and not pays_calls(suppliers[name]):
            return f"columns {name!r}"
    return None


def _scores(setup: Setup) -> str | None:
    for name, supplier in setup.suppliers.items():
        if isinstance(supplier, RewardColumn | Mapping):
            return f"columns {name!r} by a reward model"
    return None


def _asynchronous(setup: Setup) -> str | None:
    options = setup.args.asynchronous
    is_on = options is not None and options.get("max_staleness", 1)
    return "asynchronous" if is_on else None


def _adapter(setup: Setup) -> str | None:
    has_rank = any("lora_r" in options for options in setup.args.roles.values())
    return "lora_r" if setup.is_adapted or has_rank else None


def _whole(setup: Setup) -> str | None:
    is_whole = setup.args.roles and setup.is_adapted is False and not _adapter(setup)
    return "a whole model for each role" if is_whole else None


def _engine_of_roles(args: SelfPlay) -> str | None:
    return "roles with use_vllm" if args.roles and args.use_vllm else None


def _is(value: str) -> Callable[[Any], object]:
    return partial(operator.eq, value)


def _option(name: str, test: Callable[[Any], object], text: str = "") -> "Feature":
    """A feature that one option has, if its value passes a test."""
    return lambda setup: text or name if test(getattr(setup.args, name, None)) else None


Feature = Callable[[Setup], str | None]
FEATURES: dict[str, Feature] = {
    "agent": _agent,
    "roles": _option("roles", bool),
    "roles_engine": lambda setup: _engine_of_roles(setup.args),
    "sequential": _option("update", _is("sequential"), "update sequential"),
    "matchmaker": _matchmaker,
    "snapshots": _snapshots,
    "taught": _taught,
    "teacher": _teacher,
    "reading_critic": _reading_critic,
    "exact": lambda setup: _critic(setup) if setup.args.critic == "exact" else None,
    "current": _current,
    "values": _values,
    "scores": _scores,
    "asynchronous": _asynchronous,
    "adapter": _adapter,
    "whole": _whole,
    "compiled": _option("torch_compile", bool),
    "cast": _option("cast_lm_head_to_fp32", bool),
    "branch": _option("branch", bool),
    "trajectory": _option("layout", _is("trajectory"), "layout trajectory"),
    "reference": _option("reference", bool),
    "reference_prompt": _option("reference_prompt", bool, "reference with a prompt"),
    "moving_reference": _option("sync_ref_model", bool),
    "best": _option("load_best_model_at_end", bool),
    "replays": _option("max_replays", bool),
    "flat": _option("flat_groups", _is("drop"), "flat_groups='drop'"),
    "oversample": _option("oversample", lambda times: times > 1),
}


class Clash(NamedTuple):
    """Two features that are refused together, and why."""

    first: str
    second: str
    why: str


FROZEN = "the reference is the model before training, which does not change"
CLASHES = (
    Clash("agent", "exact", f"its values are of whole turns, and {CALLS}"),
    Clash("agent", "current", f"its values are of moves, and {CALLS}"),
    Clash("agent", "values", f"values are of whole turns, and {CALLS}"),
    Clash("agent", "scores", f"scores are of whole turns, and {CALLS}"),
    Clash("agent", "branch", f"trees have a branch for each turn, and {CALLS}"),
    Clash("agent", "teacher", f"it names the move of a turn, and {CALLS}"),
    Clash("agent", "reference_prompt", f"it reads the prompts of turns, and {CALLS}"),
    Clash("agent", "trajectory", "calls of models have prompts of their own"),
    Clash("roles", "reading_critic", "it reads one model"),
    Clash("roles", "reference", OWN_MODELS),
    Clash("roles", "best", OWN_MODELS),
    Clash("roles_engine", "snapshots", "an engine holds one adapter of each name"),
    Clash("adapter", "moving_reference", FROZEN),
    Clash("roles", "moving_reference", FROZEN),
    Clash("whole", "compiled", "it has not been tested with it"),
    Clash("whole", "cast", "it changes one model"),
    Clash("sequential", "trajectory", "a row holds several turns"),
    Clash("sequential", "branch", "candidates share their earlier turns"),
    Clash("asynchronous", "roles", "one learner plays"),
    Clash("asynchronous", "snapshots", "snapshots would have trained later"),
    Clash("asynchronous", "taught", LATE),
    Clash("asynchronous", "replays", LATE),
    Clash(
        "asynchronous",
        "current",
        "it reads the policy that trains, and another one played",
    ),
    Clash("exact", "branch", "its values are of whole episodes"),
    Clash("flat", "branch", SHARED),
    Clash("oversample", "branch", SHARED),
)


def check_together(
    args: SelfPlay,
    columns: Collection[str] = (),
    suppliers: Mapping[str, Any] | None = None,
    *,
    is_adapted: bool | None = None,
    plays_agent: bool = False,
) -> None:
    """Raises ValueError for two features that cannot be trained together.

    Args:
        args: the trainer's settings, as far as they are read: of a dry run, too.
        columns: see `Setup`, as the others.
        suppliers: see `Setup`.
        is_adapted: see `Setup`.
        plays_agent: see `Setup`.
    """
    setup = Setup(args, columns, suppliers or {}, is_adapted, plays_agent)
    names = {key: feature(setup) for key, feature in FEATURES.items()}
    for clash in CLASHES:
        first, second = names[clash.first], names[clash.second]
        if first and second:
            raise ValueError(
                f"{first} does not support {second}: {clash.why}; leave one of the two out"
            )
