"""The programs of docs/plugins.md pass their tests."""

import importlib
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "docs" / "plugins"


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.py")))
def test_the_program_of_a_plug_in_passes_its_own_tests(name, monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.delitem(sys.modules, name, raising=False)  # another test's
    module = importlib.import_module(name)
    tests = [value for key, value in vars(module).items() if key.startswith("test_")]
    assert tests
    for test in tests:
        test()
    del sys.modules[name]
