"""Terms of the loss by name, with their weights: the option `losses`."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from arena_envs.registry import Registry, check_options
from arena_trainers.losses import surrogates, terms
from arena_trainers.losses.inputs import OF_TURNS
from arena_trainers.weight import OF_WEIGHT, Weight

_TERMS: tuple[Callable[..., Any], ...] = (
    terms.kl_to,
    terms.entropy,
    terms.kickstart,
    terms.down_push,
    surrogates.hapo_clip,
    surrogates.aepo_clip,
    surrogates.dpo_drift,
)
losses: Registry[Any] = Registry(
    "loss term",
    "arena.losses",
    {function.__name__: function for function in _TERMS},
    given=("logps", "inputs"),
    kit="arena_trainers.losses.testing:check_term",
)


@dataclass(frozen=True, eq=False)
class Term:
    """A term with its weight.

    Attributes:
        name: its key in the option `losses`.
        function: the term with its options.
        weight: by optimizer step.
        needs: the optional fields of `LossInputs` that it reads.
        surrogate: whether it takes the place of TRL's surrogate.
        teacher: string of a policy, if the term reads one.
        sees_hidden: whether the teacher may know what the seat does not.
    """

    name: str
    function: functools.partial[Any]
    weight: Weight
    needs: frozenset[str]
    surrogate: bool
    teacher: str | None = None
    sees_hidden: bool = False


def terms_of(option: Mapping[str, Any], layout: str = "turn") -> list[Term]:
    """The terms of the option `losses`, without those whose weight is always 0."""
    loss_terms = [
        _term(name, {} if entry is None else entry) for name, entry in option.items()
    ]
    for term in loss_terms:
        of_turns = term.needs & {*OF_TURNS}
        if layout != "turn" and of_turns:
            raise ValueError(
                f"loss term {term.name!r} needs {min(of_turns)!r} of turns, got "
                f"layout={layout!r}; set layout='turn'"
            )
    weighted = [term for term in loss_terms if not term.weight.is_over(0)]
    active_surrogates = [term for term in weighted if term.surrogate]
    has_negative = any(
        min(term.weight.start, term.weight.end) < 0 for term in active_surrogates
    )
    if len(active_surrogates) > 1 or has_negative:
        entries = {term.name: option[term.name] for term in active_surrogates}
        raise ValueError(
            "want one surrogate in losses, and its weight above 0, got "
            f"{entries}; leave the others out"
        )
    return weighted


def _term(name: str, entry: Mapping[str, Any]) -> Term:
    """The term of an entry of the option `losses`."""
    if not isinstance(entry, Mapping):
        raise ValueError(
            f"want a mapping such as {{weight: 0.1}} as losses[{name!r}], got {entry!r}"
        )
    expression = losses.read(name)
    function = losses.find(expression.name)
    options = {**expression.options, **entry}
    weight = Weight.of(f"losses[{name!r}]", options)
    needs, is_surrogate = getattr(function, "loss_needs", (frozenset[str](), False))
    teacher = options.pop("teacher", None)
    if "teacher" in needs and type(teacher) is not str:
        raise ValueError(
            f"want a policy as teacher in losses[{name!r}], got {teacher!r}"
        )
    if "teacher" not in needs and teacher is not None:
        raise ValueError(f"want no teacher in losses[{name!r}], got {teacher!r}")
    sees_hidden = options.pop("sees_hidden", False)
    if type(sees_hidden) is not bool:
        raise ValueError(
            f"want sees_hidden of losses[{name!r}] as true or false, got {sees_hidden!r}"
        )
    check_options(
        f"loss term {name!r}",
        function,
        options,
        losses.given,
        others=(*OF_WEIGHT, "teacher", "sees_hidden"),
    )
    return Term(
        name=name,
        function=functools.partial(function, **options),
        weight=weight,
        needs=needs,
        surrogate=is_surrogate,
        teacher=teacher,
        sees_hidden=sees_hidden,
    )
