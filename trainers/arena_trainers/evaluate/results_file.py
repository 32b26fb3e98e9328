"""The results of evaluations, beside the file of their episodes.

`mars.jsonl` has the episodes of evaluations, and `mars.results.jsonl` a line for each
evaluation that was finished.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from arena_wrappers.episode_log import append_bytes


def results_path(episodes: Path) -> Path:
    """The file of results of a file of episodes.

    >>> results_path(Path("runs/mars.jsonl")).name
    'mars.results.jsonl'
    """
    return episodes.with_name(f"{episodes.name.removesuffix('.jsonl')}.results.jsonl")


def append_results(episodes: Path, found: Mapping[str, Any]) -> None:
    """Appends `Evaluation.to_dict()` to the file of results.

    Raises:
        OSError: such as a full disk; the file is unchanged.
    """
    append_bytes(results_path(episodes), f"{json.dumps(found)}\n".encode())
