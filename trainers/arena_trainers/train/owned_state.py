"""States in checkpoints that belong to the settings of a run."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def read_owned(path: Path, owner: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a state's file.

    Args:
        path: the file, in a checkpoint.
        owner: the settings that the file must have, by name. Tuples equal lists.

    Raises:
        ValueError: there is no file, or it is one of other settings.
    """
    found: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
    for name, wanted in json.loads(json.dumps(owner)).items():
        if found.get(name) != wanted:
            raise ValueError(
                f"want a checkpoint of {name} {wanted!r}, got one of "
                f"{found.get(name)!r} in {str(path.parent)!r}; resume with the settings "
                "of that run"
            )
    return found
