"""`vllm_mode: server`: the trainer's weights reach a vLLM server, and are those that it plays.

Every process takes part: the weights of a sharded model are gathered from all of them. The
main one writes them to `output_dir/server/step-N` and tells the server. This happens when
training begins and after each optimizer step that a generation batch or an evaluation
follows, and after the last step. So play always has the trained weights. Where an
adapter is trained, the server first gets the weights of its base model, once.

Two checks notice a server with other weights. After each call of the backend, the server's
version must be the folder that was sent. Before each optimizer step, the log-probabilities
that the server reported must be those that TRL computes for its importance ratios.
"""

import shutil
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from arena_trainers.engines.precision import training_dtype, warn_of_precision
from arena_trainers.lm.backends.server import (
    Server,
    ServerBackend,
    ServerError,
    check_shapes,
    served_by,
)
from arena_trainers.processes import raised_everywhere

FOLDER = "server"  # in the run folder
DIFFERENCE = "sampling/sampling_logp_difference/mean"
# largest mean difference of log-probabilities in nats: in float32, and in half precision
TOLERANCE = 0.01
HALF_TOLERANCE = 0.2


def server_backend(trainer: Any, server: Server) -> ServerBackend:
    """The learner's backend; the server gets its weights from now on.

    Raises:
        ServerError: the server cannot be reached, or serves another model.
    """
    served = served_by(server)
    warn_of_precision(served.dtype, trainer)
    model = trainer.accelerator.unwrap_model(trainer.model)
    check_shapes(server, served, model.config)
    check_adapter(server, served.max_lora_rank, model)
    backend = ServerBackend(server, served)
    trainer.use_vllm = True  # so TRL's loss reads the importance ratio
    trainer.sender = ServerWeights(trainer, backend)
    trainer.add_callback(trainer.sender)
    return backend


def check_adapter(server: Server, largest: int | None, model: Any) -> None:
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

    def __init__(self, trainer: Any, backend: ServerBackend) -> None:
        self.trainer, self.backend = trainer, backend

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        model = self._model
        if hasattr(model, "peft_config"):
            # what the server began with may be another model, as before a supervised start
            base = Path(model.get_base_model().name_or_path)
            folder = base.absolute() if base.is_dir() else base  # an id of the hub
            self._load(folder, is_adapter=False)
        self.send(state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        is_last = state.global_step >= state.max_steps
        plays = state.global_step % args.window == 0 or control.should_evaluate
        if plays or is_last:
            self.send(state.global_step)

    def on_pre_optimizer_step(
        self, args: Any, state: Any, control: Any, **_: Any
    ) -> None:
        """Raises ServerError if the server's log-probabilities are not the trainer's."""
        found = self.trainer.noted(DIFFERENCE)
        dtypes = {self.backend.served.dtype, training_dtype(self.trainer)}
        tolerance = TOLERANCE if dtypes == {"float32"} else HALF_TOLERANCE
        others = [x for x in found if not x <= tolerance]  # NaN, too
        if others:
            raise ServerError(
                f"want the trainer's weights on the server at {self.backend.server.url}, "
                f"got log-probabilities that differ by {others[0]:.3g} nats on average (at "
                f"most {tolerance}); start it again with the command that "
                "`arena serve policy MODEL` prints, and resume the run"
            )

    def send(self, step: int) -> None:
        """Gives the server the weights of a step; all processes have to call it."""
        if self.trainer.ahead is not None:
            return  # it does, when nothing is in flight
        accelerator, model = self.trainer.accelerator, self._model
        weights = accelerator.get_state_dict(self.trainer.model_wrapped)
        root = Path(self.trainer.args.output_dir).absolute() / FOLDER
        folder = root / f"step-{step}"
        is_adapter = hasattr(model, "peft_config")
        self._load(folder, is_adapter=is_adapter, weights=weights)
        if accelerator.is_main_process:
            for other in root.glob("step-*"):
                if other != folder:
                    shutil.rmtree(other)

    def take(self, folder: Path) -> None:
        """Gives the server the weights in a folder."""
        self._load(folder, is_adapter=hasattr(self._model, "peft_config"))

    @property
    def _model(self) -> Any:
        return self.trainer.accelerator.unwrap_model(self.trainer.model)

    def _load(self, folder: Path, *, is_adapter: bool, weights: Any = None) -> None:
        """Has the server load a folder, into which `weights` are written first, if given."""
        with raised_everywhere():
            if self.trainer.accelerator.is_main_process:
                if weights is not None:
                    _write(self._model, weights, folder)
                self.backend.load(folder, is_adapter=is_adapter)
        self.backend.expect(folder, is_adapter=is_adapter)


def _write(model: Any, weights: Any, folder: Path) -> None:
    """Writes weights to a folder, which is whole if it is there."""
    part = folder.with_name(f"{folder.name}.part")
    for old in (part, folder):
        shutil.rmtree(old, ignore_errors=True)
    model.save_pretrained(part, state_dict=weights)
    part.rename(folder)
