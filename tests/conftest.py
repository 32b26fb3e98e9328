"""Settings of all tests."""

import pytest
from hypothesis import settings

from arena_envs import make_game, registration

# The same examples in every run; no time limit, as the machine may be busy.
settings.register_profile("arena", derandomize=True, database=None, deadline=None)
settings.load_profile("arena")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips a test that has a game without its extra as a parameter, by id."""
    params = item.callspec.params if hasattr(item, "callspec") else {}
    for id in (value for value in params.values() if isinstance(value, str)):
        if id in registration._entries and registration._entries[id].extra:
            try:
                make_game(id)
            except ImportError as error:
                pytest.skip(str(error))
