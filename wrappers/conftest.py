"""Doctests of modules whose framework is not installed are left out."""

from importlib.util import find_spec

NEEDED = {"openspiel": "pyspiel", "rllib.py": "ray"}  # below `adapters`

collect_ignore = [
    f"arena_wrappers/adapters/{path}"
    for path, framework in NEEDED.items()
    if find_spec(framework) is None
]
