"""What a run was made of: settings, versions, commit, command line and cost."""

import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import yaml
from transformers import TrainingArguments

import arena_envs
from arena_trainers.runs.mappings import nested
from arena_trainers.runs.settings import JobConfig
from arena_trainers.train.games import GamePlan

PACKAGES = ("arena-envs", "torch", "transformers", "trl", "accelerate", "numpy")
# options that change the results, and whose defaults depend on the machine or the games
RESOLVED_OPTIONS = ("seed", "bf16", "max_completion_length")


class _WithoutAliases(yaml.SafeDumper):
    """Writes a value in full wherever it stands, without aliases."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def config_text(
    settings: Mapping[str, Any], args: TrainingArguments, adapter: Path | None = None
) -> str:
    """`config.yaml`: the settings, with the values of `RESOLVED_OPTIONS`.

    `arena train config.yaml` repeats the run, unless an adapter goes on training.

    Args:
        settings: options by name, of the recipe and of the command line.
        args: the trainer's settings that follow from them.
        adapter: folder of the adapter that goes on training, which no option names.
    """
    resolved = {
        name: getattr(args, name) for name in RESOLVED_OPTIONS if hasattr(args, name)
    }
    values = nested({**resolved, **settings})
    text = yaml.dump(values, Dumper=_WithoutAliases, sort_keys=False)
    comment = "arena train config.yaml repeats this run"
    if adapter is not None:
        comment = f"part of a loop: goes on from the adapter in {str(adapter)!r}, which no option names"
    return f"# {comment}\n{text}"


def provenance(
    job: JobConfig, args: TrainingArguments, plans: Sequence[GamePlan]
) -> dict[str, Any]:
    """Games, model, versions, commit, command line and cost, for `results.json`."""
    return {
        "games": [plan.name for plan in plans],
        "model": job.model,
        "seed": args.seed,
        "command": shlex.join(["arena", *sys.argv[1:]]),
        "commit": git_commit(),
        "processes": args.world_size,
        "device": str(args.device),
        "versions": versions(),
        "cost": process_cost(),
    }


def process_cost() -> dict[str, float]:
    """The cost of this process so far: CPU seconds, and its largest memory in bytes.

    Windows does not tell a process's largest memory in this way; it is left out there.
    """
    figures: dict[str, float] = {"cpu_seconds": round(time.process_time(), 1)}
    if sys.platform != "win32":
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        figures["peak_memory_bytes"] = peak if sys.platform == "darwin" else peak * 1024
    return figures


def versions() -> dict[str, str | None]:
    """Versions of Python and of the packages that the results depend on."""
    versions_by_package: dict[str, str | None] = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions_by_package[name] = version(name)
        except PackageNotFoundError:  # arena-envs from its sources
            versions_by_package[name] = None
    return versions_by_package


def git_commit(source: Path = Path(arena_envs.__file__)) -> str | None:
    """The commit of arena-envs, with "+" if files differ from it.

    None if the package is not in a git repository of its own, such as an installed wheel.
    """
    try:
        _git(source, "ls-files", "--error-unmatch", source.name)
        commit = _git(source, "rev-parse", "HEAD")
        return f"{commit}+" if _git(source, "status", "--porcelain") else commit
    except (OSError, subprocess.SubprocessError):
        return None


def _git(source: Path, *arguments: str) -> str:
    command = ["git", "-C", str(source.parent), *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=10
    )
    return done.stdout.strip()
