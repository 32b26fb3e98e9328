"""Files of a checkpoint that hold a state, with the settings that it belongs to."""

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
    content: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
    for name, value in json.loads(json.dumps(owner)).items():
        if content.get(name) != value:
            raise ValueError(
                f"want a checkpoint of {name} {value!r}, got one of "
                f"{content.get(name)!r} in {str(path.parent)!r}; resume with the "
                "settings of that run"
            )
    return content
