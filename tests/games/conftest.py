"""What the tests of single games share."""

import runpy
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from arena_envs.testing import check_game


@pytest.fixture(scope="session")
def check_contract() -> Callable[[Any], None]:
    """Holds a game with any parameters to the contract; registered ids get more episodes."""
    return partial(check_game, num_episodes=6)


@pytest.fixture(scope="session")
def oracle() -> SimpleNamespace:
    """The module `oracle.py` beside this file; skips without OpenSpiel."""
    pytest.importorskip("pyspiel")
    return SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("oracle.py"))))
