"""Measures by name: the registry `arena.measures`."""

from typing import Any

from arena_envs.game import (
    AnyGame,
)
from arena_envs.registry import Registry
from arena_eval.measures.protocol import Measure

_HERE = "arena_eval.measures"
_MODULES = {
    "action_entropy": "replies",
    "choice_bias": "replies",
    "cost": "replies",
    "mutual_information": "replies",
    "profile_accuracy": "regret",
    "regret": "regret",
    "serial_dependence": "replies",
}
measures: Registry[Any] = Registry(
    "measure",
    "arena.measures",
    {name: f"{_HERE}.{module}:{name}" for name, module in _MODULES.items()}
    | {"belief": f"{_HERE}.belief:Belief", "profile": f"{_HERE}.profile:Profile"},
    reserved=("episodes", "game", "seat"),
    kit=f"{_HERE}.testing:check_measure",
)


def measure_of(spec: str, game: AnyGame) -> Measure:
    """The measure that a string of the grammar names, such as `mutual_information(of=action)`.

    Raises:
        ValueError: an unknown measure or option, or one that does not suit the game.
        ImportError: it cannot be imported.
    """
    maker = measures.find(measures.read(spec).name)
    measure: Measure = lambda episodes, game, seat: measures.make(  # noqa: E731 # or a class
        spec, episodes=episodes, game=game, seat=seat
    )
    if isinstance(maker, type):
        measure = measures.make(spec)
    measure([], game, 0)
    return measure
