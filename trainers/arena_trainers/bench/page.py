"""Page."""

from pathlib import Path

from arena_trainers.bench.experiment import Runs


def write(directory: Path, runs: Runs) -> list[Path]:
    """Page."""
    return []
