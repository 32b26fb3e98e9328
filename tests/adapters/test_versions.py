"""A missing framework names the extra; an untested version warns once."""

import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec

import pytest

from arena_wrappers import adapters


def test_a_missing_framework_names_the_extra() -> None:
    with pytest.raises(ImportError, match=r"pip install '\.\[rllib\]'"):
        adapters.check_version("no-such-framework", "rllib", "1", "2")


@pytest.mark.parametrize("found", ["0.9", "2.0", "2.0.1"])
def test_an_untested_version_gets_a_warning(monkeypatch, found: str) -> None:
    monkeypatch.setattr(adapters, "version", lambda _: found)
    with pytest.warns(UserWarning, match="from 1.0 to below 2.0; install one"):
        adapters.check_version("ray", "rllib", "1.0", "2.0")


@pytest.mark.parametrize("found", ["1.0", "1.9.3", "1.0.0rc1"])
def test_a_tested_version_gets_none(monkeypatch, found: str) -> None:
    monkeypatch.setattr(adapters, "version", lambda _: found)
    adapters.check_version("ray", "rllib", "1.0", "2.0")


@pytest.mark.skipif(find_spec("ray") is not None, reason="ray is installed")
def test_an_adapter_without_its_framework_says_what_to_install() -> None:
    command = [sys.executable, "-c", "import arena_wrappers.adapters.rllib"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (
        "ray is not installed; install it in a clone of arena-envs: pip" in done.stderr
    )


@pytest.mark.parametrize(
    ("name", "module", "package"),
    [
        ("gem", "gem", "gem-llm"),
        ("inspect", "inspect_ai", "inspect-ai"),
        ("openenv", "openenv", "openenv"),
        ("textarena", "textarena", "textarena"),
        ("verifiers", "verifiers", "verifiers"),
    ],
)
def test_a_language_adapter_names_its_extra(name, module, package) -> None:
    if find_spec(module) is not None:
        pytest.skip(f"{package} is installed")
    wanted = f"{package} is not installed; .*\\.\\[{name}\\]"
    with pytest.raises(ImportError, match=wanted):
        import_module(f"arena_wrappers.adapters.{name}")
