"""The options of `TurnGRPOConfig` without importing TRL, which takes seconds.

TRL's own are listed in `options.json`, with the versions of TRL and transformers that they come from;
`docs/build_trl_options.py` writes the list, and a test compares it with the installed TRL.
"""

import json
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from arena_trainers.options import Option, options_of
from arena_trainers.train.settings import SelfPlay

LIST = Path(__file__).with_name("options.json")
SOURCES = ("trl", "transformers")  # packages of the inherited fields


@cache
def _list() -> Mapping[str, Any]:
    content: dict[str, Any] = json.loads(LIST.read_text(encoding="utf-8"))
    return content


def listed_options() -> dict[str, Option]:
    """The fields of `TurnGRPOConfig`, those of TRL from the list, without importing TRL."""
    trl_options = [
        Option(
            **{
                **fields,
                "types": tuple(fields["types"]),
                "choices": tuple(fields["choices"]),
            }
        )
        for fields in _list()["options"]
    ]
    return {option.name: option for option in trl_options} | options_of(SelfPlay)


def installed_versions() -> dict[str, str | None]:
    """The installed versions of TRL and transformers; None if one is missing."""
    versions: dict[str, str | None] = {}
    for package in SOURCES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = None
    return versions


def is_of_installed_versions() -> bool:
    """Whether the list was made with the installed versions."""
    return dict(_list()["made_with"]) == installed_versions()
