"""Parts of the reward by name, with weights or multipliers: the option `rewards`."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from arena_envs.checks import is_number
from arena_envs.game import (
    AnyGame,
    AnyState,
)
from arena_envs.registry import Registry, check_options
from arena_trainers.rewards.calls import Call
from arena_trainers.weight import OF_WEIGHT, Weight
from arena_wrappers import Episode, Turn

_HERE = "arena_trainers.rewards"

NUM_TRIED = 4  # turns of a game, before training

rewards: Registry[float] = Registry(
    "reward",
    "arena.rewards",
    {
        "milestones": f"{_HERE}.progress:milestones",
        "expert_match": f"{_HERE}.expert:expert_match",
        "length": f"{_HERE}.tokens:length",
        "judge": f"{_HERE}.judged:judge",
        # they enumerate the game
        "belief_gain": "arena_eval.measures.gains:belief_gain",
        "partner_gain": "arena_eval.measures.gains:partner_gain",
    },
    reserved=("episode", "turn", "state", "game", "calls"),
    kit=f"{_HERE}.testing:check_reward",
)


@dataclass(frozen=True)
class Part:
    """A part of the reward with its weight, or the sign and the limit of its multiplier."""

    name: str
    function: Callable[..., Any]  # a number, or one for each call
    weight: Weight
    sign: int = 0
    limit: float = 0.0
    rate: float = 0.0

    def __call__(
        self, episode: Episode, turn: Turn, state: AnyState, game: AnyGame
    ) -> float:
        value: float = self.function(episode, turn, state, game)
        return value

    def of_calls(self, calls: Sequence[Call]) -> Sequence[float]:
        """What each call is paid, by a function that `reads_calls`."""
        values: Sequence[float] = self.function(calls)
        return values

    def weight_at(self, step: int, multiplier: float) -> float:
        """What the part is multiplied by."""
        return self.sign * multiplier if self.sign else self.weight.at(step)

    def moved(self, multiplier: float, mean: float) -> float:
        """The multiplier after a batch in which the part had this mean over turns."""
        return max(0.0, multiplier - self.sign * self.rate * (mean - self.limit))


def parts_of(option: Mapping[str, Any]) -> dict[str, Part]:
    """The parts of the option `rewards`, by the name of their column."""
    return {f"rewards.{name}": _part(name, entry) for name, entry in option.items()}


def _part(name: str, entry: Mapping[str, Any] | None) -> Part:
    """The part of an entry of the option `rewards`."""
    place = f"rewards[{name!r}]"
    if not isinstance(entry, Mapping | None):
        raise ValueError(
            f"want a mapping such as {{weight: 0.1}} as {place}, got {entry!r}"
        )
    expression = rewards.read(name)
    function = rewards.find(expression.name)
    options = {**expression.options, **(entry or {})}
    bounds = {
        key: options.pop(key) for key in ("at_most", "at_least") if key in options
    }
    rate = options.pop("rate", None)
    has_weight = bool(options.keys() & {*OF_WEIGHT})
    weight = Weight.of(place, options)
    check_options(
        f"reward {name!r}",
        function,
        options,
        rewards.reserved,
        others=(*OF_WEIGHT, "at_most", "at_least", "rate"),
    )
    part = Part(name, functools.partial(function, **options), weight)
    if not bounds and rate is None:
        return part
    numbers = [*bounds.values(), rate]
    if len(bounds) != 1 or has_weight or not all(map(is_number, numbers)) or rate <= 0:
        raise ValueError(
            f"want a weight, or one of at_most and at_least with a rate above 0, in {place}, got "
            f"{entry!r:.200}"
        )
    ((key, limit),) = bounds.items()
    sign = -1 if key == "at_most" else 1
    return replace(part, sign=sign, limit=float(limit), rate=float(rate))
