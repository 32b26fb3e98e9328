"""Snapshots of the policy that learns: their weights in memory, on disk, and in play.

A snapshot holds the weights that the run trains: those of the LoRA adapter, or all. While it
plays, its tensors take the place of the learner's, without a copy. Where vLLM generates, a
snapshot is also an adapter of the engine for as long as it is in memory. This module needs
torch. `past_policies` plays those of a finished run, for evaluation and tournaments.
"""

import copy
import hashlib
import re
import shutil
from collections import OrderedDict
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from transformers import PreTrainedModel

from arena_trainers.finite import check_finite_weights
from arena_trainers.lm.backends.cached import CachedBackend
from arena_trainers.lm.backends.vllm import EngineAdapters, VLLMBackend
from arena_trainers.lm.loading import NamedTensors
from arena_trainers.lm.policy import LMPolicy
from arena_trainers.matchmaking.protocol import PAST, snapshot_name

if TYPE_CHECKING:
    from vllm.lora.request import LoRARequest

MAX_LIVE = 4  # snapshots in memory
FOLDER = "snapshots"  # of a run folder


class SnapshotStore:
    """The snapshots of a run: at most `max_live` in memory, all of them on disk.

    Args:
        learner: the policy that learns.
        folder: where files are written; every process reads them.
        max_live: most snapshots in memory; the one that was used longest ago goes first.
        writes: whether this process writes and deletes files.
        adapters: of the engine that generates for the learner; None if transformers does.

    Attributes:
        steps: the steps of the snapshots that can be played.
        run: marks the files of this run.
    """

    def __init__(
        self,
        learner: LMPolicy,
        folder: Path,
        max_live: int,
        *,
        writes: bool,
        adapters: EngineAdapters | None = None,
    ) -> None:
        self.learner, self.folder, self.max_live = learner, folder, max_live
        self.writes, self.adapters = writes, adapters
        self.steps: set[int] = set()
        self.run = ""
        self._live: OrderedDict[int, NamedTensors] = OrderedDict()

    @property
    def num_bytes(self) -> int:
        """Memory of the snapshots that are not on disk alone, without that of an engine."""
        return sum(
            tensor.nbytes
            for weights in self._live.values()
            for tensor in weights.values()
        )

    def begin(self, run: str) -> None:
        """Starts a new run.

        Raises:
            ValueError: the folder has snapshots of another run.
        """
        old = sorted(self.folder.glob("step-*.safetensors"))
        if old and self.writes:  # the files that others see may be new
            raise ValueError(
                "want an output_dir without snapshots of another run, got "
                f"{str(old[0])!r}; give another output_dir, or resume that run"
            )
        self.run = run

    def resume(self, steps: Collection[int], run: str, source: Path) -> None:
        """Goes on with the snapshots that a checkpoint names.

        Args:
            steps: their steps.
            run: marks their files.
            source: the folder where they are; this run gets copies if it is another's.

        Raises:
            ValueError: a file is missing, of another run, or of another base model.
        """
        for step in sorted(steps):
            path = source / self.path(step).name
            if not path.is_file():
                raise ValueError(
                    f"want the snapshot {str(path)!r}, which the checkpoint names, got "
                    "no such file; restore it, or start a new run"
                )
            with safe_open(path, framework="pt") as file:
                metadata = file.metadata() or {}
            if metadata.get("base") != self.base:
                raise ValueError(
                    f"the snapshot {str(path)!r} is of another base model than the one "
                    "that learns; resume the run with its own model"
                )
            if metadata.get("run") != run:
                raise ValueError(
                    f"the snapshot {str(path)!r} is of another run than the results in "
                    "the checkpoint; resume the run that wrote both"
                )
            if self.writes and source.absolute() != self.folder.absolute():
                self.folder.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, self.path(step))
        self.steps, self.run = set(steps), run
        for step in list(self._live):
            self._forget(step)

    def take(self, step: int) -> None:
        """Keeps the learner's weights of this moment."""
        self._make_room(step)
        weights = {
            name: weight.detach().clone()
            for name, weight in self._trained_parameters.items()
        }
        check_finite_weights(weights.items(), f"the snapshot of step {step}")
        self._live[step] = weights
        self.steps.add(step)
        if self.writes:
            self.folder.mkdir(parents=True, exist_ok=True)
            unfinished = self.path(step).with_suffix(".part")
            save_file(weights, unfinished, {"run": self.run, "base": self.base})
            unfinished.replace(self.path(step))

    def keep(self, steps: Collection[int], on_disk: Collection[int]) -> None:
        """Forgets all snapshots but these; deletes the files of those not in `on_disk` too."""
        self.steps &= set(steps)
        for step in set(self._live) - set(steps):
            self._forget(step)
        for path in self.folder.glob("step-*.safetensors") if self.writes else ():
            match = re.fullmatch(r"step-(\d+)", path.stem)
            if match and int(match[1]) not in {*steps, *on_disk}:
                path.unlink()

    def policy(self, step: int) -> LMPolicy:
        """The snapshot as a policy: it samples as the learner does.

        It shares the learner's model, tokenizer and prompts, and uses its own weights while
        it generates or scores. Unless vLLM generates, it remembers what it computed, see
        `CachedBackend`.
        """
        policy = copy.copy(self.learner)
        policy.name = snapshot_name(step)
        policy.sampling = replace(self.learner.sampling, with_entropy=False)

        @contextmanager
        def context() -> Iterator[PreTrainedModel]:
            with self.learner.context() as model, self._snapshot_in_place(step):
                yield model

        policy.backend = CachedBackend(policy.run_on(self.learner.model, context))
        if self.adapters is not None:
            engine, name = self.adapters, snapshot_name(step)

            def refresh() -> "LoRARequest":  # the engine loads it unless it is there
                weights = self._weights(step)
                return engine.get(name) or engine.put(name, weights)

            policy.backend = VLLMBackend(engine.requests, refresh)
        return policy

    def path(self, step: int) -> Path:
        """The file of a snapshot."""
        return self.folder / f"step-{step}.safetensors"

    @cached_property
    def base(self) -> str:
        """A hash of what snapshots do not hold, and of the names and shapes that they hold.

        Of each weight that is not trained it reads the first 64 numbers.
        """
        digest = hashlib.sha256()
        for name, weight in self.learner.model.named_parameters():
            line = f"{name} {tuple(weight.shape)} {weight.requires_grad}\n"
            digest.update(line.encode())
            if not weight.requires_grad:
                first = weight.detach().flatten()[:64].float()
                digest.update(first.cpu().numpy().tobytes())
        return digest.hexdigest()

    @cached_property
    def _trained_parameters(self) -> dict[str, torch.nn.Parameter]:
        parameters = self.learner.model.named_parameters()
        return {
            name: parameter for name, parameter in parameters if parameter.requires_grad
        }

    def _weights(self, step: int) -> NamedTensors:
        """The weights of a snapshot, read from disk unless they are in memory."""
        if step not in self._live:
            self._make_room(step)
            with safe_open(self.path(step), framework="pt") as file:
                # a copy, because results depend on where memory is aligned
                self._live[step] = {
                    name: file.get_tensor(name).to(parameter.device, copy=True)
                    for name, parameter in self._trained_parameters.items()
                }
        self._live.move_to_end(step)
        return self._live[step]

    def _make_room(self, step: int) -> None:
        self._forget(step)
        while len(self._live) >= self.max_live:
            self._forget(next(iter(self._live)))

    def _forget(self, step: int) -> None:
        """Frees the memory of a snapshot, also in the engine."""
        self._live.pop(step, None)
        if self.adapters is not None:
            self.adapters.remove(snapshot_name(step))

    @contextmanager
    def _snapshot_in_place(self, step: int) -> Iterator[None]:
        """Gives the learner's parameters the tensors of a snapshot for a while."""
        weights = self._weights(step)
        learner_data = {
            name: parameter.data for name, parameter in self._trained_parameters.items()
        }
        try:
            for name, parameter in self._trained_parameters.items():
                parameter.data = weights[name]
            yield
        finally:
            for name, parameter in self._trained_parameters.items():
                parameter.data = learner_data[name]


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
    run, step_or_all = _parse_spec(spec)
    folder = Path(run) / FOLDER
    files = {
        int(path.stem.removeprefix("step-")): path
        for path in folder.glob("step-*.safetensors")
    }
    if not files:
        raise ValueError(
            f"want snapshots in {str(folder)!r} for {spec!r}, it has none; train with a "
            "matchmaker that takes snapshots, such as --opponents past_selves"
        )
    steps = sorted(files) if step_or_all is None else [step_or_all]
    if steps[0] not in files:
        raise ValueError(
            f"want snapshots in {str(folder)!r} for {spec!r}, it has those of steps "
            f"{sorted(files)}; name one of them"
        )
    if not (Path(run) / "model").is_dir():
        raise ValueError(
            f"want a finished run with a folder model for {spec!r}, got none in "
            f"{run!r}; finish it with arena train --resume {run}"
        )
    policy = LMPolicy.from_pretrained(Path(run) / "model", **sampling)
    with safe_open(files[steps[0]], framework="pt") as file:
        names = set(file.keys())
        run_mark = (file.metadata() or {}).get("run", "")
    for name, parameter in policy.model.named_parameters():
        parameter.requires_grad_(name in names)
    store = SnapshotStore(policy, folder, MAX_LIVE, writes=False)
    store.resume(steps, run_mark, folder)
    snapshots = [store.policy(step) for step in steps]
    for step, snapshot in zip(steps, snapshots, strict=True):
        snapshot.name = f"{PAST}{run}@{step}"
    return snapshots


def _parse_spec(spec: str) -> tuple[str, int | None]:
    """The run and the step of a string."""
    argument = spec.removeprefix(PAST)
    match = re.fullmatch(r"(.+)@(\d+)", argument)
    run, step = argument, None
    if match:
        run, step = match[1], int(match[2])
    if not run or not Path(run).is_dir():
        raise ValueError(f"want past:RUN with the folder of a run, got {spec!r}")
    return run, step
