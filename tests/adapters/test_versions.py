"""A missing framework names the extra; an untested version warns once."""

import importlib
from importlib.util import find_spec

import pytest

from arena_wrappers.adapters import _versions


def test_a_missing_framework_names_the_extra() -> None:
    with pytest.raises(ImportError, match=r"pip install 'arena-envs\[rllib\]'"):
        _versions.check_version("no-such-framework", "rllib", "1", "2")


@pytest.mark.parametrize("found", ["0.9", "2.0", "2.0.1"])
def test_an_untested_version_gets_a_warning(monkeypatch, found: str) -> None:
    monkeypatch.setattr(_versions, "version", lambda _: found)
    with pytest.warns(UserWarning, match="from 1.0 to below 2.0; install one"):
        _versions.check_version("ray", "rllib", "1.0", "2.0")


@pytest.mark.parametrize("found", ["1.0", "1.9.3", "1.0.0rc1"])
def test_a_tested_version_gets_none(monkeypatch, found: str) -> None:
    monkeypatch.setattr(_versions, "version", lambda _: found)
    _versions.check_version("ray", "rllib", "1.0", "2.0")


def test_adapters_without_their_framework_say_what_to_install() -> None:
    modules = {
        "gem": "gem",
        "openenv": "openenv",
        "ray": "rllib",
        "textarena": "textarena",
    }
    absent = [name for module, name in modules.items() if find_spec(module) is None]
    for name in absent:
        with pytest.raises(ImportError, match=rf"pip install 'arena-envs\[{name}\]'"):
            importlib.import_module(f"arena_wrappers.adapters.{name}")
