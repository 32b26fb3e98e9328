"""What the tests of solvers share."""

import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest


@pytest.fixture(scope="session")
def spiel_game() -> Any:
    """The class `SpielGame` of `openspiel.py` beside this file; skips without OpenSpiel."""
    pytest.importorskip("pyspiel")
    return runpy.run_path(str(Path(__file__).with_name("openspiel.py")))["SpielGame"]


@pytest.fixture(scope="session")
def toys() -> SimpleNamespace:
    """The module `toys.py` beside this file."""
    return SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("toys.py"))))
