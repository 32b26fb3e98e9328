"""`past:RUN`: the snapshots of a finished run as policies, for evaluation and tournaments."""

import re
from pathlib import Path
from typing import Any

from safetensors import safe_open

from arena_trainers.lm.policy import LMPolicy
from arena_trainers.matchmaking.protocol import PAST
from arena_trainers.matchmaking.snapshots import FOLDER, SnapshotStore

MAX_LIVE = 4  # snapshots in memory


def past_policies(spec: str, **sampling: Any) -> list[LMPolicy]:
    """The policies of `past:RUN`, all snapshots in their order, or of `past:RUN@STEP`, one.

    They share one model. Their prompts and sampling are those of the run's `model/`.

    Args:
        spec: the string.
        **sampling: options that replace those of the run, as for `LMPolicy`.

    Raises:
        ValueError: the run has no model or no such snapshots, or they are of another run or
            base model than the others.
    """
    run, one = _parts(spec)
    folder = Path(run) / FOLDER
    found = {int(p.stem[5:]): p for p in folder.glob("step-*.safetensors")}
    steps = sorted(found) if one is None else [one]
    if not found or not {*steps} <= {*found}:
        known = (
            f"it has those of steps {sorted(found)}; name one of them"
            if found
            else "it has none; train with a matchmaker that takes snapshots, such as "
            "--opponents past_selves"
        )
        raise ValueError(f"want snapshots in {str(folder)!r} for {spec!r}, {known}")
    if not (Path(run) / "model").is_dir():
        raise ValueError(
            f"want a finished run with a folder model for {spec!r}, got none in {run!r}; "
            f"finish it with arena train --resume {run}"
        )
    policy = LMPolicy.from_pretrained(Path(run) / "model", **sampling)
    with safe_open(found[steps[0]], framework="pt") as file:
        names, mark = set(file.keys()), (file.metadata() or {}).get("run", "")
    for name, parameter in policy.model.named_parameters():
        parameter.requires_grad_(name in names)
    store = SnapshotStore(policy, folder, MAX_LIVE, writes=False)
    store.resume(steps, mark, folder)
    made = [store.policy(step) for step in steps]
    for step, snapshot in zip(steps, made, strict=True):
        snapshot.name = f"{PAST}{run}@{step}"
    return made


def _parts(spec: str) -> tuple[str, int | None]:
    """The run and the step of a string."""
    argument = spec.removeprefix(PAST)
    found = re.fullmatch(r"(.+)@(\d+)", argument)
    run, step = (found[1], int(found[2])) if found else (argument, None)
    if not run or not Path(run).is_dir():
        raise ValueError(f"want past:RUN with the folder of a run, got {spec!r}")
    return run, step
