"""Settings of all tests."""

from hypothesis import settings

# The same examples in every run; no time limit, as the machine may be busy.
settings.register_profile("arena", derandomize=True, database=None, deadline=None)
settings.load_profile("arena")
