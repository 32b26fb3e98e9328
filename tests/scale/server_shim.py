"""What it takes to run vLLM's server on a CPU, see `tests/engine/on_cpu.py`.

The server's worker imports this module as its extension (`--worker-extension-cls`), before it
makes the model: vLLM's oneDNN kernels, which pack weights, are turned off. NCCL and CUDA IPC
need GPUs. The backend "cpu" of vLLM's weight transfer, defined here, has a file instead of
their wires, and the rest is vLLM's: routes, client, source, and the loading of weights layer
by layer.
"""

import tempfile
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from typing import ClassVar

from arena_trainers.lm.backends import vllm as backend

if find_spec("vllm") is not None:
    import torch
    import vllm._custom_ops as ops
    from vllm.distributed.weight_transfer import (
        TrainerWeightTransferEngine,
        WeightTransferEngine,
        WeightTransferEngineFactory,
        WeightTransferTrainerFactory,
        base,
    )
    from vllm.model_executor.model_loader import reload

    ops._supports_onednn = False

    @dataclass
    class Init(base.WeightTransferInitInfo):  # type: ignore[misc] # vLLM has no types here
        pass

    @dataclass
    class TrainerInit(base.TrainerInitInfo):  # type: ignore[misc] # vLLM has no types here
        backend: ClassVar[str] = "cpu"

    @dataclass
    class Update(base.WeightTransferUpdateInfo):  # type: ignore[misc] # vLLM has no types here
        names: list[str] = field(default_factory=list)
        shapes: list[list[int]] = field(default_factory=list)
        path: str = ""

    class Receiver(WeightTransferEngine):  # type: ignore[misc] # vLLM has no types here
        init_info_cls, update_info_cls = Init, Update

        def init_transfer_engine(self, init_info):
            """Nothing to connect."""

        def start_weight_update(self):
            reload.initialize_layerwise_reload(self.model)

        def finish_weight_update(self):
            reload.finalize_layerwise_reload(self.model, self.model_config)

        def receive_weights(self, update_info):
            found = torch.load(update_info.path)
            assert [list(w.shape) for w in found] == update_info.shapes
            self.model.load_weights(zip(update_info.names, found, strict=True))

        def shutdown(self):
            """Nothing to disconnect."""

    class Sender(TrainerWeightTransferEngine):  # type: ignore[misc] # vLLM has no types here
        init_info_cls = TrainerInit
        num_sent = 0

        @classmethod
        def trainer_init(cls, init_info, *, client, source=None):
            client.init_weight_transfer_engine({})
            return cls(client=client, source=source)

        def send_weights(self):
            told = self.source.metadata()
            update = Update([m.name for m in told], [list(m.shape) for m in told])
            self.client.start_weight_update()
            with tempfile.NamedTemporaryFile() as file:
                torch.save([weight for _, weight in self.source], file.name)
                update.path = file.name
                self.client.update_weights(asdict(update))
            self.client.finish_weight_update()
            Sender.num_sent += 1

    WeightTransferEngineFactory._registry["cpu"] = lambda: Receiver
    WeightTransferTrainerFactory._registry["cpu"] = lambda: Sender

SETTINGS = {
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
}
OPTIONS = (
    *("--dtype", "float32", "--enforce-eager", "--max-model-len", "512"),
    *("--max-num-batched-tokens", "65536"),  # seeds do not bear prompts in chunks
    *("--worker-extension-cls", "server_shim.WeightSums"),
)


class WeightSums(backend.WeightSums):
    """The worker's extension."""
