"""`vllm_mode: server`: the trainer's weights reach a server, and are those that it plays.

Every process takes part: the weights of a sharded model are gathered from all of them. The
main one writes them to `output_dir/server/step-N` and tells the server, or transfers them
by vLLM's interface if the server was started with `--weight-transfer-config`. This happens
when training begins and after each optimizer step that a generation batch or an evaluation
follows, and after the last step. So play always has the trained weights. Where an
adapter is trained, the server first gets the weights of its base model, once, and adapters
as files, each under a name of its own. Several learners have an adapter each.

Three checks notice a server with other weights. After each call of the backend, the server's
version must be the folder that was sent. After the first transfer and each `CHECK_EVERY`th,
the bits of the weights must add up to the same sum in trainer and server. Before each
optimizer step, the log-probabilities that the server reported must be those that TRL
computes for its importance ratios.
"""

import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from transformers import (
    PreTrainedModel,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)
from transformers.core_model_loading import revert_weight_conversion

from arena_envs.checks import check_known
from arena_envs.extras import import_extra
from arena_trainers.engines.precision import training_dtype, warn_of_precision
from arena_trainers.engines.protocols import EngineTrainer
from arena_trainers.engines.transfer import TRANSFERS, WeightSource
from arena_trainers.lm.backends.served import check_shapes, read_served_model
from arena_trainers.lm.backends.server import RESTART, JSONServer, ServerError
from arena_trainers.lm.backends.server_backend import ServerBackend
from arena_trainers.lm.backends.sglang import SERVERS
from arena_trainers.lm.backends.vllm import bit_sum
from arena_trainers.lm.loading import NamedTensors
from arena_trainers.processes import gather_patiently, raised_everywhere

FOLDER = "server"  # in the run folder

PLAYERS = "players"  # the group of the threads that play beside training

DIFFERENCE = "sampling/sampling_logp_difference/mean"

# largest mean difference of log-probabilities in nats: in float32, and in half precision
TOLERANCE = 0.01

HALF_TOLERANCE = 0.2

CHECK_EVERY = 10  # transfers, from one comparison of sums to the next


def server_backend(trainer: EngineTrainer, server: JSONServer) -> ServerBackend:
    """The learner's backend; the server gets its weights from now on.

    Raises:
        ServerError: the server cannot be reached, or serves another model.
    """
    served = read_served_model(server)
    if served.transfer is not None:
        problem = f"the server at {server.url} takes weights by {served.transfer!r}"
        check_known(served.transfer, TRANSFERS, f"{problem}, which no run sends")
    warn_of_precision(served.dtype, trainer)
    model = trainer.accelerator.unwrap_model(trainer.model)
    check_shapes(server, served, model.config)
    check_server_adapter(server, served.max_lora_rank, model)
    backend = SERVERS[served.kind](server, served, trainer.args.seeds)
    trainer.use_vllm = True  # so TRL's loss reads the importance ratio
    trainer.sender = ServerWeights(trainer, backend)
    trainer.add_callback(trainer.sender)
    return backend


def check_server_adapter(
    server: JSONServer, largest: int | None, model: PreTrainedModel
) -> None:
    """Raises ServerError unless the server takes the adapter of a model, if it has one."""
    ranks = [config.r for config in getattr(model, "peft_config", {}).values()]
    if ranks and (largest is None or largest < max(ranks)):
        limit = "no --enable-lora" if largest is None else f"--max-lora-rank {largest}"
        raise ServerError(
            f"the run trains an adapter of rank {max(ranks)}, and the server at "
            f"{server.url} has {limit}; start it with `arena serve policy MODEL --lora-r "
            f"{max(ranks)}`"
        )


class ServerWeights(TrainerCallback):
    """Sends the weights, and checks the server's log-probabilities.

    Args:
        trainer: a `TurnGRPOTrainer`.
        backend: what generates for its learner.
    """

    def __init__(self, trainer: EngineTrainer, backend: ServerBackend) -> None:
        self.trainer, self.backend = trainer, backend
        self.num_sent = 0
        device = trainer.accelerator.device
        self.source = WeightSource(getattr(torch, backend.served.dtype), device)
        # vLLM's transfer engine, which sends the source's weights
        self.engine: Any = None

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **_: Any,
    ) -> None:
        self.begin(state.global_step)

    def begin(self, step: int) -> None:
        """Gives the server all weights of a step; all processes have to call it."""
        if self._is_adapter:
            # what the server began with may be another model, as before a supervised start
            base = Path(self._model.get_base_model().name_or_path)
            folder = base.absolute() if base.is_dir() else base  # an id of the hub
            self._load(folder, is_adapter=False)
        self.send(step)

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **_: Any,
    ) -> None:
        is_last = state.global_step >= state.max_steps
        is_played = state.global_step % self.trainer.args.window == 0
        if is_played or is_last or control.should_evaluate:
            self.send(state.global_step)

    def on_pre_optimizer_step(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **_: Any,
    ) -> None:
        """Raises ServerError if the server's log-probabilities are not the trainer's."""
        differences = self.trainer.noted(DIFFERENCE)
        dtypes = {self.backend.served.dtype, training_dtype(self.trainer)}
        tolerance = TOLERANCE if dtypes == {"float32"} else HALF_TOLERANCE
        # not <=, so that NaN is too large
        too_large = [gap for gap in differences if not gap <= tolerance]
        if too_large:
            raise ServerError(
                f"want the trainer's weights on the server at {self.backend.server.url}, "
                f"got log-probabilities that differ by {too_large[0]:.3g} nats on average (at "
                f"most {tolerance}); start it again with the command that "
                "`arena serve policy MODEL` prints, and resume the run"
            )

    def send(self, step: int) -> None:
        """Gives the server the weights of a step; all processes have to call it."""
        if self.trainer.async_player is not None:
            return  # it does, when nothing is in flight
        accelerator = self.trainer.accelerator
        weights = accelerator.get_state_dict(self.trainer.model_wrapped)
        root = Path(str(self.trainer.args.output_dir)).absolute() / FOLDER
        folder = root / f"step-{step}"
        self._load(folder, lambda: weights, writes=True, is_adapter=self._is_adapter)
        if accelerator.is_main_process:
            for step_folder in root.glob("step-*"):
                if step_folder != folder:
                    shutil.rmtree(step_folder)

    def take(self, folder: Path) -> None:
        """Gives the server the weights in a folder, once no process plays with earlier ones.

        Called by the threads that play, in all processes.
        """
        gather_patiently(None, PLAYERS)

        def read_files() -> dict[str, torch.Tensor]:
            by_file = (load_file(path) for path in sorted(folder.glob("*.safetensors")))
            # files of peft lack the name of the adapter
            return {
                re.sub(r"(\.lora_[AB])\.weight$", r"\1.default.weight", name): weight
                for file_weights in by_file
                for name, weight in file_weights.items()
            }

        self._load(folder, read_files, is_adapter=self._is_adapter, group=PLAYERS)

    @property
    def _model(self) -> Any:  # with peft's methods where it has adapters
        return self.trainer.accelerator.unwrap_model(self.trainer.model)

    @property
    def _is_adapter(self) -> bool:
        return hasattr(self._model, "peft_config")

    def _load(
        self,
        folder: Path,
        weights: Callable[[], NamedTensors] | None = None,
        *,
        is_adapter: bool,
        writes: bool = False,
        group: str = "",
    ) -> None:
        """Gives the server the weights of a folder.

        Args:
            folder: of the weights, whose name is their version.
            weights: gives them to this process; None for those of a base model.
            is_adapter: whether they are an adapter.
            writes: whether the folder is still to be written.
            group: of the threads that call it, see `patient_group`.
        """
        backends = self.backend.learners or {"": self.backend}
        receivers = backends if is_adapter else {"": self.backend}
        with raised_everywhere(group):
            if self.trainer.accelerator.is_main_process:
                send = None
                if weights and self.backend.served.transfer and not is_adapter:
                    send = partial(self._transfer, weights, is_gathered=writes)
                elif weights and writes:
                    write_weights(self._model, dict(weights()), folder)
                for name, backend in receivers.items():  # peft's folder of an adapter
                    backend.load(folder / name, is_adapter=is_adapter, send=send)
                    if weights:
                        self._check_sum(weights, name, is_adapter=is_adapter)
                self.num_sent += weights is not None
        for name, backend in backends.items():
            expected_folder = folder / name if is_adapter else folder
            backend.expect(expected_folder, is_adapter=is_adapter)

    def _untied_weights(self, weights: NamedTensors) -> dict[str, torch.Tensor]:
        """The parameters among weights, tied ones once."""
        model = self._model
        parameters = {name for name, _ in model.named_parameters()}
        non_parameters = model.state_dict().keys() - parameters
        return {
            name: weight
            for name, weight in weights.items()
            if name not in non_parameters
        }

    def _transfer(
        self, weights: Callable[[], NamedTensors], *, is_gathered: bool
    ) -> None:
        """Sends whole weights by vLLM's interface: start, update, finish."""
        server, kind = self.backend.server, str(self.backend.served.transfer)
        transfer = import_extra("vllm.distributed.weight_transfer", "vllm")
        untied = self._untied_weights(weights())
        if is_gathered:  # transformers may merge weights that files hold apart
            untied = revert_weight_conversion(self._model, untied)
        self.source.weights = untied
        try:
            if self.engine is None:
                self.engine = transfer.WeightTransferTrainerFactory.trainer_init(
                    TRANSFERS[kind](self.trainer, server),
                    client=transfer.HTTPVLLMWeightSyncClient(
                        server.url, server.timeout
                    ),
                    source=self.source,
                )
            self.engine.send_weights()
        except (OSError, RuntimeError) as error:
            raise ServerError(
                f"the server at {server.url} did not take the weights by {kind!r} ({error}); "
                f"look into its log, and {RESTART}, or without --weight-transfer-config"
            ) from error
        self.source.weights = {}

    def _check_sum(
        self, weights: Callable[[], NamedTensors], name: str = "", *, is_adapter: bool
    ) -> None:
        """Compares the sum of what was sent with the server's, if its turn has come."""
        served, is_due = self.backend.served, self.num_sent % CHECK_EVERY == 0
        if not is_due or ("adapter" if is_adapter else "model") not in served.sums:
            return
        untied = self._untied_weights(weights())
        if is_adapter:
            untied = self._adapter_in_vllm(untied, name or "default")
        trainer_sum = bit_sum(untied.values(), served.dtype)
        self.backend.check_sum(trainer_sum, is_adapter=is_adapter)

    def _adapter_in_vllm(
        self, weights: NamedTensors, adapter: str
    ) -> dict[str, torch.Tensor]:
        """The weights of one adapter as vLLM holds them, which multiplies B by the scale."""
        config = self._model.peft_config[adapter]
        root = config.r**0.5 if config.use_rslora else config.r
        scale = config.lora_alpha / root
        scaled: dict[str, torch.Tensor] = {}
        for name, weight in weights.items():
            if f".{adapter}." in name and ".lora_" in name:
                in_dtype = weight.to(self.source.dtype)
                scaled[name] = in_dtype * scale if ".lora_B." in name else in_dtype
        return scaled


def write_weights(
    model: PreTrainedModel, weights: dict[str, torch.Tensor], folder: Path
) -> None:
    """Writes weights to a folder, which is whole if it is there."""
    unfinished = folder.with_name(f"{folder.name}.part")
    for old in (unfinished, folder):
        shutil.rmtree(old, ignore_errors=True)
    model.save_pretrained(unfinished, state_dict=weights)
    unfinished.rename(folder)
