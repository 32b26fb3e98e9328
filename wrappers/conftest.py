"""Doctests of modules whose framework is not installed are left out."""

from importlib.util import find_spec

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
    f"arena_wrappers/adapters/{path}"
    for path, framework in NEEDED.items()
    if find_spec(framework) is None
]
