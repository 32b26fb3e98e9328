"""Terms of the loss by name, with their weights: the option `losses`."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from arena_envs.doors import Door, check_options
from arena_trainers.losses.inputs import OF_TURNS
from arena_trainers.options import OF_WEIGHT, Weight

_HERE = "arena_trainers.losses"

losses: Door[Any] = Door(
    "loss term",
    "arena.losses",
    {
        "kl_to": f"{_HERE}.terms:kl_to",
        "entropy": f"{_HERE}.terms:entropy",
        "kickstart": f"{_HERE}.terms:kickstart",
        "down_push": f"{_HERE}.terms:down_push",
        "hapo_clip": f"{_HERE}.surrogates:hapo_clip",
        "aepo_clip": f"{_HERE}.surrogates:aepo_clip",
        "dpo_drift": f"{_HERE}.surrogates:dpo_drift",
    },
    given=("logps", "seen"),
    kit=f"{_HERE}.testing:check_term",
)


@dataclass(frozen=True, eq=False)
class Term:
    """A term with its weight."""

    name: str
    function: functools.partial[Any]
    weight: Weight
    needs: frozenset[str]
    surrogate: bool
    teacher: Any = None
    sees_hidden: bool = False


def terms_of(given: Mapping[str, Any], layout: str = "turn") -> list[Term]:
    """The terms of the option `losses`, without those whose weight is always 0."""
    found = [_term(name, {} if o is None else o) for name, o in given.items()]
    for term in found:
        if layout != "turn" and (of_turns := term.needs & {*OF_TURNS}):
            raise ValueError(
                f"loss term {term.name!r} needs {min(of_turns)!r} of turns, got "
                f"layout={layout!r}; set layout='turn'"
            )
    live = [term for term in found if not term.weight.is_over(0)]
    own = {term.name: term.weight for term in live if term.surrogate}
    if len(own) > 1 or any(
        min(weight.start, weight.end) < 0 for weight in own.values()
    ):
        raise ValueError(
            "want one surrogate in losses, and its weight above 0, got "
            f"{ {name: given[name] for name in own} }; leave the others out"
        )
    return live


def _term(name: str, given: Any) -> Term:
    if not isinstance(given, Mapping):
        raise ValueError(
            f"want a mapping such as {{weight: 0.1}} as losses[{name!r}], got {given!r}"
        )
    one = losses.read(name)
    function, options = losses.find(one.name), {**one.options, **given}
    weight = Weight.of(f"losses[{name!r}]", options)
    reads, surrogate = getattr(function, "loss_needs", (frozenset[str](), False))
    teacher, sees = options.pop("teacher", None), options.pop("sees_hidden", False)
    if type(teacher) is not (str if "teacher" in reads else type(None)):
        wanted = "a policy as teacher" if "teacher" in reads else "no teacher"
        raise ValueError(f"want {wanted} in losses[{name!r}], got {teacher!r}")
    if type(sees) is not bool:
        raise ValueError(
            f"want sees_hidden of losses[{name!r}] as true or false, got {sees!r}"
        )
    others = (*OF_WEIGHT, "teacher", "sees_hidden")
    what = f"loss term {name!r}"
    check_options(what, function, options, losses.given, others=others)
    made = functools.partial(function, **options)
    return Term(name, made, weight, reads, surrogate, teacher, sees)
