"""Snapshots under `use_vllm`: the engine plays learner and snapshots as LoRA adapters.

By itself TRL merges the learner's adapter into the engine's weights, and an adapter of a
snapshot would be added to it. Here the engine keeps the weights of the base model, which it
reads from the model's folder, and the learner's adapter is loaded beside those of snapshots.

Also the precision of an engine, and of training's forward passes.
"""

import importlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from arena_trainers.lm.backends.vllm import (
    EngineAdapters,
    VLLMBackend,
    check_adapter,
    engine_rank,
)
from arena_trainers.matchmaking import SELF, Matchmaker


def engine_dtype(llm: Any) -> str:
    """Name of the precision of an engine in this process, as torch calls it."""
    return str(llm.llm_engine.model_config.dtype).removeprefix("torch.")


def warn_of_precision(engine: str, trainer: Any) -> None:
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


def training_dtype(trainer: Any) -> str:
    """Name of the precision of the training's forward passes, as torch calls it."""
    if trainer.args.bf16:
        return "bfloat16"
    if trainer.args.fp16:
        return "float16"
    return str(trainer.model.dtype).removeprefix("torch.")


NO_ADAPTER = (
    "use_vllm plays snapshots of the model only where a LoRA adapter is trained, as an engine "
    "for other weights would not fit beside the first; give --lora_r 16 (in Python "
    "peft_config), leave use_vllm out, or give lm: opponents"
)


def plays_adapters(args: Any, matchmaker: Matchmaker | None) -> bool:
    """Whether the engine plays learner and snapshots as adapters."""
    in_process = args.use_vllm and args.vllm_mode != "server"
    return bool(in_process and matchmaker is not None and matchmaker.max_live > 0)


@contextmanager
def with_adapters(
    args: Any, matchmaker: Matchmaker | None, model: Any, config: Any
) -> Iterator[None]:
    """The engine that TRL builds in this context holds the learner and `max_live` snapshots.

    Does nothing if the engine plays no snapshots.

    Args:
        args: the trainer's settings.
        matchmaker: of the run, if there is one.
        model: that the trainer was given.
        config: of the adapter that is trained; None if there is none.

    Raises:
        ValueError: no adapter is trained, vLLM does not play such an adapter, or the engine
            cannot read the base model.
    """
    if matchmaker is None or not plays_adapters(args, matchmaker):
        yield
        return
    if config is None:
        raise ValueError(NO_ADAPTER)
    if not isinstance(model, (str, Path)):
        raise ValueError(
            "want the path of the model, from which vLLM reads the base of the snapshots, got "
            f"a {type(model).__name__}; save it, and give its folder"
        )
    check_adapter(config)
    module: Any = importlib.import_module("trl.generation.vllm_generation")
    build = module.LLM
    module.LLM = partial(
        build,
        enable_lora=True,
        max_loras=matchmaker.max_live + 1,
        max_lora_rank=engine_rank(config.r),
    )
    try:
        yield
    finally:
        module.LLM = build


def adapter_backend(trainer: Any) -> VLLMBackend:
    """The learner's backend: the engine that TRL built, with its adapter."""
    model = trainer.accelerator.unwrap_model(trainer.model)
    llm = trainer.vllm_generation.llm
    adapters = EngineAdapters(llm, model)

    @lru_cache(1)
    def load(step: int) -> Any:
        named = model.named_parameters()
        weights = {name: p.detach() for name, p in named if p.requires_grad}
        return adapters.put(SELF, weights)

    warn_of_precision(engine_dtype(llm), trainer)
    return VLLMBackend(llm, lambda: load(trainer.state.global_step), adapters)
