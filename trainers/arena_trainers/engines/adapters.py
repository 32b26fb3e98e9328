"""Several adapters under `use_vllm`: the engine plays learners and snapshots as LoRA adapters.

By itself TRL merges the learner's adapter into the engine's weights, and another adapter would
be added to it. Here the engine keeps the weights of the base model, which it reads from the
model's folder, and each learner's adapter is loaded beside the others and those of snapshots.
It costs a slot of the largest rank for each adapter in the engine's memory, a file of each
learner's adapter per optimizer step (written and read by the first reply that needs it), and
vLLM's slower LoRA kernels. Merging instead would transfer all weights for each role and round.
"""

import importlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena_trainers.engines.precision import engine_dtype, warn_of_precision
from arena_trainers.engines.protocols import EngineOptions, EngineTrainer
from arena_trainers.lm.backends.vllm import (
    EngineAdapters,
    EngineRequests,
    VLLMBackend,
    check_vllm_adapter,
    engine_rank,
)
from arena_trainers.matchmaking import SELF, Matchmaker

if TYPE_CHECKING:
    from peft import LoraConfig
    from transformers import PreTrainedModel
    from vllm.lora.request import LoRARequest

NO_ADAPTER = (
    "use_vllm plays snapshots, or several learners, only where LoRA adapters are trained, as an "
    "engine for other weights would not fit beside the first; give --lora r=16 (in Python "
    "peft_config), leave use_vllm out, or give lm: opponents"
)


def plays_adapters(args: EngineOptions, matchmaker: Matchmaker | None) -> bool:
    """Whether the engine plays learners, and snapshots, as adapters."""
    in_process = args.use_vllm and args.vllm_mode != "server"
    has_snapshots = matchmaker is not None and matchmaker.max_live > 0
    return in_process and (bool(args.roles) or has_snapshots)


@contextmanager
def with_adapters(
    args: EngineOptions,
    matchmaker: Matchmaker | None,
    model: "str | Path | PreTrainedModel",
    configs: "Sequence[LoraConfig | None]",
) -> Iterator[None]:
    """The engine that TRL builds in this context holds the learners and `max_live` snapshots.

    Does nothing if the engine plays no adapters.

    Args:
        args: the trainer's settings.
        matchmaker: of the run, if there is one.
        model: that the trainer was given.
        configs: of the adapters that are trained, in the order of `roles`; None for none.

    Raises:
        ValueError: no adapter is trained, vLLM does not play such an adapter, or the engine
            cannot read the base model.
    """
    if not plays_adapters(args, matchmaker):
        yield
        return
    lora_configs = [config for config in configs if config is not None]
    if len(lora_configs) < len(configs):
        raise ValueError(NO_ADAPTER)
    if not isinstance(model, (str, Path)):
        raise ValueError(
            "want the path of the model, from which vLLM reads the base of the adapters, got "
            f"a {type(model).__name__}; save it, and give its folder"
        )
    names = [f"roles[{role!r}]" for role in args.roles] or ["peft_config"]
    for name, config in zip(names, lora_configs, strict=True):
        try:
            check_vllm_adapter(config)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    module: Any = importlib.import_module("trl.generation.vllm_generation")
    build = module.LLM
    module.LLM = partial(
        build,
        enable_lora=True,
        max_loras=len(lora_configs) + (matchmaker.max_live if matchmaker else 0),
        max_lora_rank=engine_rank(max(config.r for config in lora_configs)),
    )
    try:
        yield
    finally:
        module.LLM = build


def adapter_backend(trainer: EngineTrainer) -> VLLMBackend:
    """The learner's backend, with the first of several: the engine that TRL built."""
    model = trainer.accelerator.unwrap_model(trainer.model)
    requests = EngineRequests(trainer.vllm_generation.llm, trainer.args.seeds)
    adapters = EngineAdapters(requests, model)
    names = trainer.learners.names if trainer.learners else [SELF]
    steps: dict[str, int] = {}  # of the weights that the engine has

    def refresh(name: str = names[0]) -> "LoRARequest | None":
        if steps.get(name) != (step := trainer.state.global_step):
            weights = {
                parameter_name: parameter.detach()
                for parameter_name, parameter in model.named_parameters()
                if ".lora_" in parameter_name
            }
            adapters.put(name, weights)
            steps[name] = step
        return adapters.get(name)

    warn_of_precision(engine_dtype(requests.llm), trainer)
    return VLLMBackend(requests, refresh, adapters)
