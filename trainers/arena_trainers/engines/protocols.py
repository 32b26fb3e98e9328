"""The settings and the trainer that engines read; `TurnGRPOConfig` and `TurnGRPOTrainer` have them."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from arena_trainers.matchmaking import Matchmaker

if TYPE_CHECKING:
    from accelerate import Accelerator
    from transformers import PreTrainedModel, TrainerCallback, TrainerState
    from trl.generation.vllm_generation import VLLMGeneration


class PrecisionOptions(Protocol):
    """The precision of training's forward passes."""

    bf16: bool | None
    fp16: bool


class SamplingOptions(Protocol):
    """Settings of TRL that change what is drawn from softmax(logits / temperature)."""

    top_k: int
    top_p: float
    min_p: float | None
    repetition_penalty: float


class EngineChoice(Protocol):
    """Which engine generates."""

    use_vllm: bool
    vllm_mode: str


class EngineOptions(SamplingOptions, EngineChoice, Protocol):
    """Which engine generates, and how; `vllm_*` are TRL's settings of vLLM."""

    vllm_enable_sleep_mode: bool
    vllm_group_port: int
    vllm_importance_sampling_correction: bool
    vllm_importance_sampling_mode: Any  # TRL narrows the type of our field
    vllm_server_base_url: str | None
    vllm_server_host: str
    vllm_server_port: int
    vllm_server_timeout: float
    vllm_structured_outputs_regex: str | None
    vllm_tensor_parallel_size: int
    loss_type: str
    output_dir: str | None
    roles: dict[Any, Any]
    seeds: Literal["request", "engine"]

    @property
    def layout(self) -> str:
        """`"turn"` or `"trajectory"`: what a row of training holds."""
        ...

    @property
    def window(self) -> int:
        """Optimizer steps that share a generation batch."""
        ...


class TrainerOptions(EngineOptions, PrecisionOptions, Protocol):
    """The settings of a trainer: those of its engine, and its own precision."""


class LearnerNames(Protocol):
    """Several learners, as the trainer holds them."""

    @property
    def names(self) -> Sequence[str]:
        """Of the learners."""
        ...


class EngineGames(Protocol):
    """The games of a run, as the trainer holds them."""

    @property
    def matchmaker(self) -> Matchmaker | None:
        """It assigns the seats, if there is one."""
        ...


class WeightSender(Protocol):
    """It gives an engine in another process the weights."""

    def begin(self, step: int) -> None:
        """Gives the engine all weights of a step."""
        ...

    def take(self, folder: Path) -> None:
        """Gives the engine the weights in a folder."""
        ...


class EngineTrainer(Protocol):
    """The parts of a trainer that engines read, and the two that they set."""

    accelerator: "Accelerator"
    model: "PreTrainedModel"
    model_wrapped: Any  # the model, as accelerate or DeepSpeed has wrapped it
    state: "TrainerState"
    vllm_generation: "VLLMGeneration"
    use_vllm: bool  # set where a server generates: TRL's loss then reads the ratio
    sender: WeightSender  # set where a server generates

    @property
    def args(self) -> TrainerOptions:
        """The settings."""
        ...

    @property
    def async_player(self) -> object | None:
        """The player of asynchronous training, which sends the weights itself."""
        ...

    @property
    def games(self) -> EngineGames:
        """The games of the run."""
        ...

    @property
    def learners(self) -> LearnerNames | None:
        """The learners, if there are several."""
        ...

    def add_callback(self, callback: "TrainerCallback") -> None:
        """Calls this from now on."""
        ...

    def noted(self, name: str) -> list[float]:
        """The values of a metric in this step."""
        ...
