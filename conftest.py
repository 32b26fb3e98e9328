"""What pytest collects: doctests only where there are some, and where their framework is.

The garbage collector rests until the tests are collected, and never looks at what was made
until then: it took a third of the time.
"""

import gc
from collections.abc import Generator
from importlib.util import find_spec
from pathlib import Path

import pytest

gc.disable()

NEEDED = {  # below `adapters`
    "gem.py": "gem",
    "inspect.py": "inspect_ai",
    "openenv.py": "openenv",
    "openspiel.py": "pyspiel",
    "rllib.py": "ray",
    "textarena.py": "textarena",
    "trl.py": "trl",
    "verifiers.py": "verifiers",
}

collect_ignore = [
    f"wrappers/arena_wrappers/adapters/{path}"
    for path, framework in NEEDED.items()
    if find_spec(framework) is None
]


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path,
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Modules without an example are not imported to look for examples."""
    found = yield
    if file_path.suffix != ".py" or ">>> " in file_path.read_text(encoding="utf-8"):
        return found
    return [collector for collector in found if type(collector) is pytest.Module]


def pytest_collection_finish() -> None:
    """Collects garbage from here on, but only of what comes now."""
    gc.freeze()
    gc.enable()
