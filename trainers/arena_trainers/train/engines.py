"""`use_vllm`: which settings the engine takes, and when it gets the weights.

`vllm_mode: colocate`: TRL builds an engine in this process and copies the weights. It does so
after play, when its own generation begins; here they are copied before the first reply that
follows an optimizer step.

`vllm_mode: server`: a vLLM server generates, see `arena_trainers.train.server_weights`. TRL's
own client is never made: it sends weights by NCCL, from GPU to GPU.

Snapshots under `use_vllm`: the engine plays learner and snapshots as LoRA adapters.

By itself TRL merges the learner's adapter into the engine's weights, and an adapter of a
snapshot would be added to it. Here the engine keeps the weights of the base model, which it
reads from the model's folder, and the learner's adapter is loaded beside those of snapshots.
"""

import importlib
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.metadata import packages_distributions, version
from pathlib import Path
from typing import Any

from arena_envs.checks import did_you_mean
from arena_trainers import extras
from arena_trainers.lm.backends import Backend
from arena_trainers.lm.server import Server
from arena_trainers.lm.server_backend import served_by
from arena_trainers.lm.vllm_adapters import EngineAdapters, check_adapter, engine_rank
from arena_trainers.lm.vllm_backend import VLLMBackend
from arena_trainers.matchmaking import SELF, Matchmaker

GROUP_PORT = 51216  # TRL's default
VERSIONS = ("0.22", "0.33")  # from, and below; of vLLM


def check_engine(args: Any) -> None:
    """Refuses settings that the engine's rollouts do not take.

    Without `use_vllm`, it refuses those that name a server.

    Raises:
        ValueError: names the setting and the reason, or the version of vLLM.
        ModuleNotFoundError: vLLM is missing.
    """
    if not args.use_vllm:
        _refuse_unused_server(args)
        return
    if args.vllm_mode not in ("colocate", "server"):
        hint = did_you_mean(str(args.vllm_mode), ["colocate", "server"])
        raise ValueError(f"unknown vllm_mode {args.vllm_mode!r}; {hint}")
    refused = _of_a_server(args) if by_server(args) else _of_an_engine(args)
    for name, (used, reason) in refused.items():
        if used:
            raise ValueError(
                f"use_vllm does not support {name}: {reason}; leave it out"
            )
    if args.vllm_importance_sampling_correction and changes_draws(args):
        raise ValueError(
            f"use_vllm does not support {changes_draws(args)} with "
            "vllm_importance_sampling_correction: sampled log-probabilities are those after "
            "it, the loss computes those before it, and no backend corrects this; leave one "
            "of them out"
        )
    if by_server(args):
        server_of(args)
    else:
        check_installed()


def _refuse_unused_server(args: Any) -> None:
    """Refuses settings of a server that would generate nothing."""
    given = {
        "vllm_mode 'server'": args.vllm_mode == "server",
        "vllm_server_base_url": args.vllm_server_base_url is not None,
    }
    for name, used in given.items():
        if used:
            raise ValueError(
                f"{name} needs --use_vllm true, got use_vllm false, with which transformers "
                "generates; add it, or leave the settings of the server out"
            )


def by_server(args: Any) -> bool:
    """Whether a server generates."""
    return bool(args.use_vllm and args.vllm_mode == "server")


def _of_an_engine(args: Any) -> dict[str, tuple[bool, str]]:
    """What the engine in this process does not take: whether it is given, and why."""
    untested = "its rollouts have not been tested with it"
    group = "processes that share an engine would have to ask for equally many replies"
    return {
        "vllm_tensor_parallel_size above 1": (
            args.vllm_tensor_parallel_size != 1,
            group,
        ),
        "vllm_enable_sleep_mode": (args.vllm_enable_sleep_mode, untested),
        "vllm_structured_outputs_regex": (
            args.vllm_structured_outputs_regex is not None,
            untested,
        ),
    }


def _of_a_server(args: Any) -> dict[str, tuple[bool, str]]:
    """What a server does not take: whether it is given, and why."""
    own = "with vllm_mode 'server', vLLM's options are in the server's command"
    probe = (
        "ratios show whether the server has the trainer's weights, and a run with "
        "vllm_mode 'server' needs them"
    )
    whole = args.vllm_importance_sampling_mode in ("sequence_mask", "sequence_truncate")
    return {
        **{name: (used, own) for name, (used, _) in _of_an_engine(args).items()},
        "vllm_group_port": (
            args.vllm_group_port != GROUP_PORT,
            "it is of TRL's transfer by NCCL, and weights reach the server as files",
        ),
        "vllm_importance_sampling_correction false": (
            not args.vllm_importance_sampling_correction,
            probe,
        ),
        "vllm_importance_sampling_mode of sequences with loss_type 'vespo'": (
            args.loss_type == "vespo" and whole,
            "that loss needs 'token_truncate' or 'token_mask'",
        ),
    }


def server_of(args: Any) -> Server:
    """The server that the settings name; it is not asked for anything.

    Raises:
        ServerError: the URL has another form.
    """
    url = args.vllm_server_base_url
    if not url:
        url = f"http://{args.vllm_server_host}:{args.vllm_server_port}"
    if not args.vllm_server_timeout > 0:
        raise ValueError(
            f"want vllm_server_timeout above 0, got {args.vllm_server_timeout!r}"
        )
    return Server(url, args.vllm_server_timeout)


def check_server(args: Any) -> None:
    """Asks the server of the settings what it is; does nothing without one.

    Raises:
        ServerError: it cannot be reached, or lacks an option.
    """
    if by_server(args):
        served_by(server_of(args))


@contextmanager
def without_client(args: Any) -> Iterator[None]:
    """Keeps `GRPOTrainer`, made in this context, from connecting TRL's client."""
    ours = by_server(args)
    if ours:
        args.use_vllm = False
    try:
        yield
    finally:
        args.use_vllm = args.use_vllm or ours


def changes_draws(args: Any) -> str | None:
    """The option that changes what is drawn from softmax(logits / temperature), if any."""
    neutral = {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "repetition_penalty": 1.0}
    found = (name for name, x in neutral.items() if (getattr(args, name) or 0.0) != x)
    return next(found, None)


def check_installed() -> None:
    """Finds out whether a supported vLLM is installed, without importing it.

    Raises:
        ModuleNotFoundError: it is missing; says how to install it.
        ValueError: it is of another version.
    """
    extras.require(["vllm"], "vllm")
    from packaging.version import Version

    found = version(packages_distributions()["vllm"][0])
    if not Version(VERSIONS[0]) <= Version(found) < Version(VERSIONS[1]):
        raise ValueError(
            f"want vLLM from {VERSIONS[0]} to below {VERSIONS[1]}, got {found}; install it "
            "with: pip install 'arena-envs[vllm]'"
        )


def check_engine_columns(args: Any, columns: Collection[str]) -> None:
    """Refuses estimators that read what the engine does not give.

    Args:
        args: settings.
        columns: that the estimator reads.

    Raises:
        ValueError: names the column and the reason.
    """
    if not args.use_vllm:
        return
    if "tokens.entropy" in columns:
        raise ValueError(
            f"credit {args.credit!r} with within_turn={args.within_turn!r} reads "
            "'tokens.entropy', and vLLM gives none; leave use_vllm out"
        )


def correction_mode(args: Any) -> str:
    """The mode of TRL's importance-sampling correction where none is given.

    TRL's own default drops a row whose product of ratios is too large. A row of several
    turns would be dropped for one of its tokens, so there each ratio is truncated.
    """
    return "token_truncate" if args.layout == "trajectory" else "sequence_mask"


def engine_backend(trainer: Any) -> Backend | None:
    """What generates for the learner: an engine, a server, or None without `use_vllm`.

    Warns once if the engine and the training differ in precision.
    """
    if by_server(trainer.args):
        # it needs transformers, which checks of settings do not import
        from arena_trainers.train.server_weights import server_backend

        return server_backend(trainer)
    if not trainer.use_vllm:
        return None
    from arena_trainers.train.engines import adapter_backend, plays_adapters

    if plays_adapters(trainer.args, trainer.games.matchmaker):
        return adapter_backend(trainer)
    generation = trainer.vllm_generation

    def refresh() -> None:
        step = trainer.state.global_step
        if trainer._last_loaded_step != step:
            generation.sync_weights()  # resets the prefix cache, too
            trainer._last_loaded_step = step

    warn_of_precision(engine_dtype(generation.llm), trainer)
    return VLLMBackend(generation.llm, refresh)


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
    in_process = args.use_vllm and not by_server(args)
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


class NeverMerged:
    """Takes the place of TRL's engine: the adapter has been loaded before TRL asks."""

    def sync_weights(self) -> None:
        """Does nothing."""


def adapter_backend(trainer: Any) -> VLLMBackend:
    """What generates for the learner: the engine that TRL built, with its adapter."""
    model, llm = trainer.accelerator.unwrap_model(trainer.model), _taken(trainer)
    adapters = EngineAdapters(llm, model)
    loaded = -1

    def refresh() -> Any:
        nonlocal loaded
        step = trainer.state.global_step
        if loaded != step:
            named = model.named_parameters()
            weights = {name: p.detach() for name, p in named if p.requires_grad}
            adapters.put(SELF, weights)
            loaded = step
        return adapters.get(SELF)

    warn_of_precision(engine_dtype(llm), trainer)
    return VLLMBackend(llm, refresh, adapters)


def _taken(trainer: Any) -> Any:
    """TRL's engine, in which TRL does not merge the adapter from now on."""
    llm = trainer.vllm_generation.llm
    trainer.vllm_generation = NeverMerged()
    return llm
