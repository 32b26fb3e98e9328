"""Doctests of modules whose framework is not installed are left out."""

from importlib.util import find_spec

NEEDED = {  # below `adapters`
    "inspect.py": "inspect_ai",
    "openspiel": "pyspiel",
    "rllib.py": "ray",
    "trl": "trl",
    "verifiers.py": "verifiers",
}

collect_ignore = [
    f"arena_wrappers/adapters/{path}"
    for path, framework in NEEDED.items()
    if find_spec(framework) is None
]
