"""What it takes to shard on a CPU, where accelerate and DeepSpeed want GPUs.

- accelerate takes FSDP on GPUs alone, and ignores it on a CPU without a word. Here it also
  takes FSDP for processes on CPUs.
- accelerate looks for a GPU's backend under DeepSpeed. Here it takes gloo.
- DeepSpeed compiles an extension for shared memory at its first use. An interrupted
  compilation leaves a lock file, at which later runs wait. Here DeepSpeed does without it.
- transformers loads an optimizer to the device "cpu:1", a name that torch does not read. Here
  torch reads it.
"""

import os
from typing import Any

import torch


def prepare(sharding: str) -> None:
    """Changes accelerate and DeepSpeed for this process; before a trainer is made.

    Args:
        sharding: `"fsdp2"`, `"zero2"`, `"zero3"`, or `"ddp"`, which needs no change.
    """
    torch.serialization.register_package(30, lambda storage: None, _restored)
    if sharding == "fsdp2":
        _take_fsdp()
    elif sharding.startswith("zero"):
        _take_deepspeed()


def _restored(storage: Any, location: str) -> Any:
    return storage if location.startswith("cpu:") else None


def _take_fsdp() -> None:
    from accelerate.state import AcceleratorState, PartialState
    from accelerate.utils import DistributedType

    make: Any = AcceleratorState.__init__
    state: Any = AcceleratorState

    def init(self: Any, *args: Any, fsdp_plugin: Any = None, **options: Any) -> None:
        make(self, *args, fsdp_plugin=fsdp_plugin, **options)
        if fsdp_plugin is not None:
            self.distributed_type = DistributedType.FSDP
            PartialState._shared_state["distributed_type"] = DistributedType.FSDP
            if self._mixed_precision != "no":
                fsdp_plugin.set_mixed_precision(self._mixed_precision)
            self.fsdp_plugin = fsdp_plugin

    state.__init__ = init


def _take_deepspeed() -> None:
    os.environ["DS_ACCELERATOR"] = "cpu"
    import deepspeed.ops
    from accelerate.state import PartialState
    from accelerate.utils import DistributedType

    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    gloo = "gloo", DistributedType.MULTI_CPU
    state: Any = PartialState
    state._prepare_backend = lambda *args, **options: gloo
