"""Doctests of modules whose framework is not installed are left out."""

from importlib.util import find_spec

NEEDED = {  # below `adapters`
    "gem.py": "gem",
    "inspect.py": "inspect_ai",
    "openenv.py": "openenv",
    "openspiel": "pyspiel",
    "rllib.py": "ray",
    "textarena": "textarena",
    "trl": "trl",
    "verifiers.py": "verifiers",
}

collect_ignore = [
    f"arena_wrappers/adapters/{path}"
    for path, framework in NEEDED.items()
    if find_spec(framework) is None
]
