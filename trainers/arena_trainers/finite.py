"""Weights, losses and gradients that must be finite; `Diverged` where training has left them."""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from arena_envs import yaml_text
from arena_trainers.checkpoint import checkpoints_of, fault, read_manifest

_FILES = ("*.safetensors", "pytorch_model*.bin", "critic.pt")
ADVICE = "a lower learning_rate or max_grad_norm"


class Diverged(ValueError):
    """A loss, a gradient or a weight is not finite. No file holds the weights of this step."""


def check_finite_weights(weights: Iterable[tuple[str, Any]], owner: str) -> None:
    """Raises Diverged, before they are written, if weights hold NaN or infinity.

    Args:
        weights: tensors by name, such as `model.named_parameters()`.
        owner: whose weights they are.
    """
    name = _not_finite(weights)
    if name is not None:
        raise Diverged(
            f"training has diverged: want finite weights of {owner}, got NaN or infinity in "
            f"{name}; train with {ADVICE}"
        )


def check_finite_state(state: Any, owner: str) -> None:
    """As `check_finite_weights`, of tensors in mappings and lists, such as `state_dict()`."""
    check_finite_weights(_tensors(state, ""), owner)


def weights_fault(folder: Path) -> str | None:
    """The first weight of a saved model that is not finite, with its file; None if all are."""
    for pattern in _FILES:
        for file in sorted(folder.rglob(pattern)):
            name = _not_finite(_tensors_of_file(file))
            if name is not None:
                return f"{file.relative_to(folder)} holds NaN or infinity in {name}"
    return None


def last_finite(run: Path) -> Path | None:
    """The newest whole checkpoint of a run whose weights are finite; of rounds their last model."""
    models = [path for path in run.glob("round-*/model") if read_manifest(path.parent)]
    for path in [*reversed(checkpoints_of(run)), *sorted(models, reverse=True)]:
        whole = path in models or fault(path) is None
        if whole and weights_fault(path) is None:
            return path
    return None


def how_to_begin_anew(run: Path) -> str:
    """What to do after training has diverged: names the last finite checkpoint of a run."""
    checkpoint = last_finite(run)
    state = "no finite checkpoint was saved"
    if checkpoint is not None:
        state = f"the last finite checkpoint is {checkpoint}"
    config, new = run / "config.yaml", f"{run}-anew"
    command = ["arena", "train", str(config), "--output-dir", new, *_lower_rate(config)]
    return (
        f"{state}; begin anew with {ADVICE}, as resuming would diverge again:\n"
        f"{shlex.join(command)}"
    )


def _lower_rate(config: Path) -> list[str]:
    """The option of a command line that makes the learning rate of a run ten times lower."""
    settings = yaml_text.read(config.read_text(encoding="utf-8"))
    option = "learning_rate"
    if "rounds" in settings:
        settings, option = settings["rounds"]["train"], "rounds.train.learning_rate"
    if isinstance(settings, list):  # a round each
        settings = settings[0]
    rate = settings.get("learning_rate")
    return [] if rate is None else [f"--{option}", f"{float(rate) / 10:g}"]


def _tensors_of_file(file: Path) -> Iterator[tuple[str, Any]]:
    """The tensors of a saved model or critic, by name."""
    import torch
    from safetensors import safe_open

    if file.suffix == ".safetensors":
        with safe_open(file, framework="pt") as weights:
            for name in weights.keys():  # noqa: SIM118 # no mapping
                yield name, weights.get_tensor(name)
    else:
        yield from _tensors(torch.load(file, map_location="cpu", weights_only=True), "")


def _tensors(state: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The tensors in mappings and lists, by their paths."""
    if hasattr(state, "isfinite"):
        yield name, state
    elif isinstance(state, Mapping | list | tuple):
        pairs = state.items() if isinstance(state, Mapping) else enumerate(state)
        for key, value in pairs:
            yield from _tensors(value, f"{name}.{key}" if name else str(key))


def _not_finite(weights: Iterable[tuple[str, Any]]) -> str | None:
    """The name of the first tensor of real numbers that is not finite."""
    for name, weight in weights:
        if weight.is_floating_point() and not bool(weight.isfinite().all()):
            return name
    return None
