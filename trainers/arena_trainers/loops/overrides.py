"""Options of a command line that change one option of the stages of a loop."""

from collections.abc import Mapping, Sequence
from typing import Any

from arena_trainers.loops.settings import ROUNDS


def overridden(settings: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a recipe with the options of a command line.

    In a recipe with `rounds`, a name such as `rounds.play.episodes` is a path. Where a stage is
    a list, all its elements change, or the one whose number the path has. `rounds` with a number
    is `rounds.num`.

    Args:
        settings: those of the recipe.
        given: options by name.

    Raises:
        ValueError: a path leads into a value without options, or beyond a list.

    >>> recipe = {"rounds": {"num": 4, "train": [{"beta": 0.1}, {"beta": 0.5}]}}
    >>> overridden(recipe, {"seed": 1, "rounds": 2, "rounds.train.1.beta": 0.9})
    {'rounds': {'num': 2, 'train': [{'beta': 0.1}, {'beta': 0.9}]}, 'seed': 1}
    """
    found = dict(settings)
    for name, value in given.items():
        path = name.split(".")
        if name == ROUNDS and ROUNDS in found and type(value) is int:
            path = [ROUNDS, "num"]
        if ROUNDS in found and path[0] == ROUNDS:
            found[ROUNDS] = _changed(found[ROUNDS], path, 1, value)
        else:
            found[name] = value
    return found


def _changed(old: Any, path: Sequence[str], depth: int, value: Any) -> Any:
    """`old`, which stands at the first `depth` names of a path, with a new value at its end."""
    if depth == len(path):
        return value
    name, where = path[depth], ".".join(path[:depth])
    if isinstance(old, list):
        if not name.isdecimal():
            return [_changed(one, path, depth, value) for one in old]
        if int(name) >= len(old):
            raise ValueError(
                f"{where} is a list of {len(old)}, counted from 0; it has no {name}, got "
                f"--{'.'.join(path)}"
            )
        new = _changed(old[int(name)], path, depth + 1, value)
        return [new if k == int(name) else one for k, one in enumerate(old)]
    if old is not None and not isinstance(old, Mapping):
        raise ValueError(
            f"{where} is {old!r:.60} and has no options, got --{'.'.join(path)}; give "
            f"--{where} VALUE"
        )
    inner = dict(old or {})
    return inner | {name: _changed(inner.get(name), path, depth + 1, value)}
