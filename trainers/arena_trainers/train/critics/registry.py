"""The critics by name, what their classes declare, and checks of their options.

This module imports neither TRL nor torch: it reads the declarations of a critic of this package
from the critic's file.
"""

import ast
import functools
import math
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from arena_envs.game import check_bool, check_int, check_number
from arena_envs.registry import Registry, check_options, signature_of
from arena_trainers.options import refuse_unknown

# Least and largest value by option; None for no largest one. Integer limits are of integers.
OptionLimits = Mapping[str, tuple[int, int] | tuple[float, float | None]]

_CRITICS = "arena_trainers.train.critics"
critics: Registry[Any] = Registry(
    "critic",
    "arena.critics",
    {
        "features": f"{_CRITICS}.features:FeatureCritic",
        "exact": f"{_CRITICS}.exact:ExactCritic",
        "tokens": f"{_CRITICS}.tokens:TokenCritic",
        "utterances": f"{_CRITICS}.utterances:UtteranceCritic",
    },
    reserved=(
        "games",
        "discount",
        "seed",
        "seats",
        "options",
        "weight",
        "trainer",
        "scores_replies",
        "plays_agent",
    ),
    kit=f"{_CRITICS}:check_critic",
)


@dataclass(frozen=True)
class CriticFacts:
    """What the class of a critic declares; the defaults hold where it is silent.

    Attributes:
        supplies: columns that it gives.
        reads: columns that its records shall hold.
        reads_for_actions: further ones, where credit reads the action values that it supplies.
        reads_by_option: in place of `reads`, by the name and value of an option.
        limits: of its options. An option whose limits are integers is an integer.
        one_process: whether it is refused in runs of several processes.
        reads_model: whether it gets the trainer, with the model that learns.
        defaults: of its options, the parameters of the class that are not the program's.
    """

    supplies: tuple[str, ...] = ("value", "next_value")
    reads: tuple[str, ...] = ()
    reads_for_actions: tuple[str, ...] = ()
    reads_by_option: Mapping[tuple[str, str], tuple[str, ...]] = field(
        default_factory=dict
    )
    limits: OptionLimits = field(default_factory=dict)
    one_process: bool = False
    reads_model: bool = False
    defaults: Mapping[str, Any] = field(default_factory=dict)

    def reads_of(
        self, columns: Collection[str], options: Mapping[str, Any] | None = None
    ) -> tuple[str, ...]:
        """What the records hold for the critic, if credit reads these columns."""
        reads = self.reads
        for name, value in (options or {}).items():
            reads = self.reads_by_option.get((name, str(value)), reads)
        for_actions = self.reads_for_actions if "action_value" in columns else ()
        return (*reads, *for_actions)


_DECLARATIONS = (
    "supplies",
    "reads",
    "reads_for_actions",
    "reads_by_option",
    "limits",
    "one_process",
)


def critic_facts(critic: str | None) -> CriticFacts:
    """What a critic declares; nothing without one."""
    if critic is None:
        return CriticFacts(supplies=())
    path = critics.built_in.get(critic)
    if isinstance(path, str):
        return _facts_in_file(path)
    critic_class = critics.find(critic)
    declared = {
        name: getattr(critic_class, name)
        for name in _DECLARATIONS
        if hasattr(critic_class, name)
    }
    parameters = signature_of(critic_class).parameters
    defaults = {
        name: parameter.default
        for name, parameter in parameters.items()
        if name not in critics.reserved
    }
    return CriticFacts(
        **declared, reads_model="trainer" in parameters, defaults=defaults
    )


@functools.cache
def _facts_in_file(path: str) -> CriticFacts:
    """The declarations of a class by the text of its file, as its module imports torch."""
    module, _, name = path.partition(":")
    spec = find_spec(module)
    source = Path(str(spec and spec.origin)).read_text(encoding="utf-8")
    (critic_class,) = (
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef) and node.name == name
    )
    assignments = [
        (ast.unparse(target), node.value)
        for node in critic_class.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    ]
    declared = {
        name: ast.literal_eval(value)
        for name, value in assignments
        if name in _DECLARATIONS and value is not None
    }
    (parameters,) = (
        node.args
        for node in critic_class.body
        if isinstance(node, ast.FunctionDef) and node.name == "__init__"
    )
    defaults = {
        parameter.arg: ast.literal_eval(default)
        for parameter, default in zip(
            parameters.kwonlyargs, parameters.kw_defaults, strict=True
        )
        if parameter.arg not in critics.reserved and default is not None
    }
    names = [argument.arg for argument in (*parameters.args, *parameters.kwonlyargs)]
    return CriticFacts(**declared, reads_model="trainer" in names, defaults=defaults)


def check_limits(limits: OptionLimits, **values: Any) -> None:
    """Raises ValueError for a value outside of the limits that a critic declares."""
    for name, value in values.items():
        low, high = limits[name]
        if isinstance(low, int):
            check_int(name, value, low, int(high or 0))
        else:
            check_number(name, value, low, math.inf if high is None else high)


def check_critic_options(critic: str | None, options: Mapping[str, Any]) -> None:
    """Raises ValueError for an unknown critic, or for options that it does not take."""
    if critic is None:
        if options:
            raise ValueError(
                f"want critic_args only with a critic, got {dict(options)!r}; set "
                "critic='features'"
            )
        return
    critics.read(critic)  # raises if there is no such critic
    if not isinstance(critics.built_in.get(critic), str):
        name = f"critic {critic!r}"
        check_options(name, critics.find(critic), options, critics.reserved)
        return
    facts = critic_facts(critic)
    refuse_unknown(f"critic {critic!r}", options, facts.defaults)
    for name, value in options.items():
        if isinstance(facts.defaults[name], bool):
            check_bool(name, value)
        elif name in facts.limits and not (value is facts.defaults[name] is None):
            check_limits(facts.limits, **{name: value})


def check_critic_rows(critic: str | None, layout: str, splits_weights: bool) -> None:
    """Raises ValueError for rows or processes in which a critic has not been tested.

    Args:
        critic: its name.
        layout: what a row holds, `"turn"` or `"trajectory"`.
        splits_weights: whether weights are split among processes.
    """
    facts = critic_facts(critic)
    if "tokens.value" in facts.supplies and layout != "turn":
        raise ValueError(
            f"critic {critic!r} does not support layout 'trajectory': its values are of "
            "single turns; leave it out"
        )
    several = int(os.environ.get("WORLD_SIZE", "1")) > 1 or splits_weights
    if facts.one_process and several:
        raise ValueError(
            f"critic {critic!r} does not support several processes: it has not been "
            "tested with them; leave it out"
        )
