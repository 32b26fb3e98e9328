"""The machine that a recipe is for, and a small table of GPUs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from arena_envs.game import check_int
from arena_trainers.options import refuse_unknown

KEYS = ("gpus", "memory", "server", "split")


class Gpu(NamedTuple):
    """A GPU by its maker's figures.

    Attributes:
        name: of the card.
        gib: its memory.
        flops: FLOP/s in bfloat16, dense.
        bandwidth: bytes/s of its memory.
    """

    name: str
    gib: int
    flops: float
    bandwidth: float


GPUS = (
    Gpu("L4", 24, 121e12, 0.30e12),
    Gpu("A10G", 24, 70e12, 0.60e12),
    Gpu("RTX 4090", 24, 165e12, 1.01e12),
    Gpu("A100", 40, 312e12, 1.56e12),
    Gpu("L40S", 48, 362e12, 0.86e12),
    Gpu("A100", 80, 312e12, 2.04e12),
    Gpu("H100", 80, 989e12, 3.35e12),
    Gpu("H200", 141, 989e12, 4.80e12),
    Gpu("B200", 180, 2250e12, 8.00e12),
)


@dataclass(frozen=True)
class Machine:
    """GPUs of one size, and what runs on them.

    Attributes:
        gpus: how many there are.
        memory: GiB of each.
        server: the GPUs on which a server of vLLM generates; 0 for none.
        split: whether the processes on the others split the weights, by FSDP2.
    """

    gpus: int = 1
    memory: int = 80
    server: int = 0
    split: bool = False

    @property
    def processes(self) -> int:
        """Those that train, one on each GPU without the server."""
        return self.gpus - self.server

    def __str__(self) -> str:
        text = f"{self.gpus} GPU{'s' * (self.gpus > 1)} of {self.memory} GiB"
        if self.server:
            text += f": a server on {self.server}, training on {self.processes}"
        return text + (", whose weights FSDP2 splits" if self.split else "")


def machine_of(options: Mapping[str, Any]) -> Machine:
    """The machine of the option `machine`.

    Raises:
        ValueError: a key is unknown, or a number out of range.
    """
    refuse_unknown("machine", options, KEYS)
    machine = Machine(**{"gpus": 1, **options})
    check_int("gpus in machine", machine.gpus, 1, 8)
    check_int("memory in machine", machine.memory, 1, 1024)
    check_int("server in machine", machine.server, 0, machine.gpus - 1)
    if type(machine.split) is not bool:
        raise ValueError(f"want split in machine true or false, got {machine.split!r}")
    return machine
