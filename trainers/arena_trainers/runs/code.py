"""The code that the text of a recipe names."""

import importlib.util
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.machinery import PathFinder

from arena_envs.registry import expression
from arena_envs.trust import require_operator_of_code
from arena_trainers.runs.recipe import load_recipe, recipes

_PATH = re.compile(r"""([A-Za-z_][\w.]*)\s*:\s*["']?\s*([A-Za-z_]\w*)""")
# options of transformers and TRL that download code and run it
_MODEL_CODE_OPTIONS = ("trust_remote_code", "use_kernels")


def named_code(settings: object) -> list[str]:
    """Each `module:name`, at any depth, whose module is installed or in the working directory.

    An option that runs the code of models counts, too, by its name. Imports nothing.

    >>> named_code({"games": ["os:system(kuhn_poker)"], "opponents": "mcts:100"})
    ['os:system']
    >>> named_code({"model_init_kwargs": {"trust_remote_code": True}})
    ['trust_remote_code']
    """
    names = []
    for text in _texts(settings):
        for module, name in _PATH.findall(text):
            if _is_module(module.partition(".")[0]):
                names.append(f"{module}:{name}")
        names += [option for option in _MODEL_CODE_OPTIONS if option in text]
    return list(dict.fromkeys(names))


def allow(settings: object) -> None:
    """Lets the code that an operator's settings name be named by files, too."""
    for path in named_code(settings):
        require_operator_of_code("code", path)


def allow_embedded() -> None:
    """Lets files name the code that embedded recipes name, which ships with this package."""
    for name in recipes():
        allow(load_recipe(name))


def _texts(value: object) -> Iterator[str]:
    """The texts and keys at any depth, also those within expressions."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if inner is not False:  # such as trust_remote_code: false
                yield from _texts(key)
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)
    elif isinstance(value, str):
        yield value
        with suppress(ValueError):
            part = expression(value)
            if part.options or part.inner:  # a quoted value hides its text from `value`
                yield from _texts([*part.inner, dict(part.options)])


def _is_module(name: str) -> bool:
    with suppress(ImportError, ValueError):
        if importlib.util.find_spec(name) is not None:
            return True
    return PathFinder.find_spec(name, [os.getcwd()]) is not None
