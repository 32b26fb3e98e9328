"""Weights as vLLM's weight transfer takes them, and the trainer's part of each of its backends."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import torch

from arena_envs.extras import import_extra
from arena_trainers.engines.protocols import EngineTrainer
from arena_trainers.lm.backends.server import JSONServer, ServerError
from arena_trainers.lm.loading import NamedTensors


class WeightSource:
    """Gathered weights as a `WeightSource` of vLLM.

    Attributes:
        weights: of the next transfer, by the names of the model's files.
        dtype: that they are sent in.
        device: that they are sent from.
    """

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        self.weights: NamedTensors = {}
        self.dtype, self.device = dtype, device

    def metadata(self) -> list[SimpleNamespace]:
        """What is sent, in its order, as vLLM's `ParamMeta`."""
        return [
            SimpleNamespace(name=name, dtype=self.dtype, shape=tuple(weight.shape))
            for name, weight in self.weights.items()
        ]

    def __iter__(self) -> Iterator[tuple[str, torch.Tensor]]:
        for name, weight in self.weights.items():
            yield name, weight.detach().to(self.device, self.dtype)


def _nccl_init(trainer: EngineTrainer, server: JSONServer) -> Any:
    """The trainer's main process and the server's workers are one group of NCCL."""
    module = import_extra("vllm.distributed.weight_transfer.nccl_engine", "vllm")
    return module.NCCLTrainerInitInfo(
        master_address=server.local_address(),
        master_port=trainer.args.vllm_group_port,
        world_size=1 + server.get("/get_world_size")["world_size"],
        rank=0,
    )


def _ipc_init(trainer: EngineTrainer, server: JSONServer) -> Any:
    """Trainer and server share a GPU, and the server reads the trainer's memory."""
    if trainer.accelerator.num_processes > 1:
        raise ServerError(
            f"want one process of training with the server at {server.url}, which takes "
            f"weights by 'ipc', got {trainer.accelerator.num_processes}; start the server "
            """with --weight-transfer-config '{"backend": "nccl"}' on GPUs of its own"""
        )
    module = import_extra("vllm.distributed.weight_transfer.ipc_engine", "vllm")
    return module.IPCTrainerInitInfo(packed=True, rank=0)


# by backend of vLLM's weight transfer: the trainer's part, which names that backend
TRANSFERS: dict[str, Callable[[EngineTrainer, JSONServer], Any]] = {
    "nccl": _nccl_init,
    "ipc": _ipc_init,
}
