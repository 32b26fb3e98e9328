"""The precision of an engine, and of training's forward passes."""

import warnings
from typing import TYPE_CHECKING, Protocol

from arena_trainers.engines.protocols import PrecisionOptions

if TYPE_CHECKING:
    from transformers import PreTrainedModel
    from vllm import LLM


class TrainerInPrecision(Protocol):
    """The parts of a trainer that say in which precision it computes."""

    @property
    def args(self) -> PrecisionOptions:
        """The settings."""
        ...

    @property
    def model(self) -> "PreTrainedModel":
        """The model that is trained."""
        ...


def engine_dtype(llm: "LLM") -> str:
    """Name of the precision of an engine in this process, as torch calls it."""
    return str(llm.llm_engine.model_config.dtype).removeprefix("torch.")


def warn_of_precision(engine: str, trainer: TrainerInPrecision) -> None:
    """Warns if vLLM generates in another precision than the loss is computed in."""
    training = training_dtype(trainer)
    if engine != training:
        warnings.warn(
            f"vLLM generates in {engine}, and the loss is computed in {training}: their "
            "log-probabilities differ by some hundredths, which the importance-sampling "
            "correction makes up for; see sampling/sampling_logp_difference in the metrics, "
            "or train with --bf16 true",
            stacklevel=3,
        )


def training_dtype(trainer: TrainerInPrecision) -> str:
    """Name of the precision of the training's forward passes, as torch calls it."""
    if trainer.args.bf16:
        return "bfloat16"
    if trainer.args.fp16:
        return "float16"
    return str(trainer.model.dtype).removeprefix("torch.")
