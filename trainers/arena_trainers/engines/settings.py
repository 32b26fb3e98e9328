"""`use_vllm`: which settings the engine takes, and when it gets the weights.

`vllm_mode: colocate`: TRL builds an engine in this process and copies the weights. It does so
after play, when its own generation begins; here they are copied before the first reply that
follows an optimizer step.

`vllm_mode: server`: a server generates, see `arena_trainers.engines.weights`. TRL's
own client is never made: it sends weights by NCCL alone.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib.metadata import packages_distributions, version
from typing import NamedTuple

from arena_envs import extras
from arena_envs.checks import check_known, install_advice
from arena_trainers.engines.adapters import adapter_backend, plays_adapters
from arena_trainers.engines.precision import engine_dtype, warn_of_precision
from arena_trainers.engines.protocols import (
    EngineChoice,
    EngineOptions,
    EngineTrainer,
    SamplingOptions,
)
from arena_trainers.lm.backends import Backend
from arena_trainers.lm.backends.served import read_served_model
from arena_trainers.lm.backends.server import JSONServer
from arena_trainers.lm.backends.vllm import EngineRequests, VLLMBackend

MODES = {"colocate": "vllm", "server": "server"}  # of vllm_mode, with use_vllm
VERSIONS = ("0.22", "0.34")  # from, and below; of vLLM


class Engine(NamedTuple):
    """The generator of the replies of the model that learns.

    Attributes:
        check: refuses settings that the engine does not take.
        backend: makes the backend of a trainer; None for the model itself.
    """

    check: Callable[[EngineOptions], None]
    backend: Callable[[EngineTrainer], Backend | None]


def engine_of(args: EngineChoice) -> str:
    """The key of `ENGINES` that the settings name.

    Raises:
        ValueError: an unknown `vllm_mode`.
    """
    if not args.use_vllm:
        return "transformers"
    check_known(args.vllm_mode, MODES, f"unknown vllm_mode {args.vllm_mode!r}")
    return MODES[args.vllm_mode]


def check_engine(args: EngineOptions) -> None:
    """Refuses settings that the engine's rollouts do not take.

    Raises:
        ValueError: names the setting and the reason, or the version of vLLM.
        ModuleNotFoundError: vLLM is missing.
    """
    ENGINES[engine_of(args)].check(args)


def engine_backend(trainer: EngineTrainer) -> Backend | None:
    """The learner's backend; None for transformers, which runs the model itself.

    Warns once if engine and training differ in precision.
    """
    return ENGINES[engine_of(trainer.args)].backend(trainer)


class Unsupported(NamedTuple):
    """An option that an engine does not take.

    Attributes:
        name: of the option.
        is_set: whether the settings have it.
        reason: why it is not taken.
    """

    name: str
    is_set: object
    reason: str


def check_unsupported(subject: str, options: Iterable[tuple[str, object, str]]) -> None:
    """Raises ValueError for the first option that is given.

    Args:
        subject: what does not support it.
        options: their names, whether they are given, and the reasons.
    """
    for name, is_set, reason in options:
        if is_set:
            raise ValueError(
                f"{subject} does not support {name}: {reason}; leave it out"
            )


def _check_vllm(args: EngineOptions) -> None:
    """Refuses what the engine in this process, or a server, does not take."""
    is_server = by_server(args)
    unsupported = _unsupported_by_server(args) if is_server else _unsupported(args)
    check_unsupported("use_vllm", unsupported)
    if args.vllm_importance_sampling_correction and changes_draws(args):
        raise ValueError(
            f"use_vllm does not support {changes_draws(args)} with "
            "vllm_importance_sampling_correction: sampled log-probabilities are those after "
            "it, the loss computes those before it, and no backend corrects this; leave one "
            "of them out"
        )
    if is_server:
        server_of(args)
    else:
        check_installed()


def _check_no_server(args: EngineOptions) -> None:
    """Refuses settings of an engine that would generate nothing."""
    engine_settings = {
        "vllm_mode 'server'": args.vllm_mode == "server",
        "vllm_server_base_url": args.vllm_server_base_url is not None,
        "seeds 'engine'": args.seeds == "engine",
    }
    for name, is_set in engine_settings.items():
        if is_set:
            raise ValueError(
                f"{name} needs --use_vllm true, got use_vllm false, with which transformers "
                "generates; add it, or leave this setting out"
            )


def by_server(args: EngineChoice) -> bool:
    """Whether a server generates."""
    return engine_of(args) == "server"


def _unsupported(args: EngineOptions) -> list[Unsupported]:
    """The options that the engine in this process does not take."""
    untested = "its rollouts have not been tested with it"
    return [
        Unsupported(
            name="vllm_tensor_parallel_size above 1",
            is_set=args.vllm_tensor_parallel_size != 1,
            reason="processes that share an engine would have to ask for equally many "
            "replies",
        ),
        Unsupported(
            name="vllm_enable_sleep_mode",
            is_set=args.vllm_enable_sleep_mode,
            reason=untested,
        ),
        Unsupported(
            name="vllm_structured_outputs_regex",
            is_set=args.vllm_structured_outputs_regex is not None,
            reason=untested,
        ),
    ]


def _unsupported_by_server(args: EngineOptions) -> list[Unsupported]:
    """The options that a server does not take."""
    of_the_command = (
        "with vllm_mode 'server', vLLM's options are in the server's command"
    )
    of_sequences = args.vllm_importance_sampling_mode in (
        "sequence_mask",
        "sequence_truncate",
    )
    options = [option._replace(reason=of_the_command) for option in _unsupported(args)]
    options.append(
        Unsupported(
            name="vllm_importance_sampling_correction false",
            is_set=not args.vllm_importance_sampling_correction,
            reason="ratios show whether the server has the trainer's weights, and a run "
            "with vllm_mode 'server' needs them",
        )
    )
    options.append(
        Unsupported(
            name="vllm_importance_sampling_mode of sequences with loss_type 'vespo'",
            is_set=args.loss_type == "vespo" and of_sequences,
            reason="that loss needs 'token_truncate' or 'token_mask'",
        )
    )
    return options


def server_of(args: EngineOptions) -> JSONServer:
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
    return JSONServer(url, args.vllm_server_timeout)


def check_server(args: EngineOptions) -> None:
    """Asks the server of the settings what it is; does nothing without one.

    Raises:
        ServerError: it cannot be reached, or lacks an option.
    """
    if by_server(args):
        read_served_model(server_of(args))


@contextmanager
def without_client(args: EngineChoice) -> Iterator[None]:
    """Keeps `GRPOTrainer`, made in this context, from connecting TRL's client."""
    is_server = by_server(args)
    if is_server:
        args.use_vllm = False
    try:
        yield
    finally:
        args.use_vllm = args.use_vllm or is_server


def changes_draws(args: SamplingOptions) -> str | None:
    """The option that changes what is drawn from softmax(logits / temperature), if any."""
    neutral = {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "repetition_penalty": 1.0}
    for name, value in neutral.items():
        if (getattr(args, name) or 0.0) != value:
            return name
    return None


def check_installed() -> None:
    """Finds out whether a supported vLLM is installed, without importing it.

    Raises:
        ModuleNotFoundError: it is missing; says how to install it.
        ValueError: it is of another version.
    """
    extras.require(["vllm"], "vllm")
    from packaging.version import Version

    installed = version(packages_distributions()["vllm"][0])
    if not Version(VERSIONS[0]) <= Version(installed) < Version(VERSIONS[1]):
        raise ValueError(
            f"want vLLM from {VERSIONS[0]} to below {VERSIONS[1]}, got {installed}; "
            + install_advice("vllm")
        )


def correction_mode(args: EngineOptions) -> str:
    """The mode of TRL's importance-sampling correction where none is given.

    TRL's own default drops a row whose product of ratios is too large. A row of several
    turns would be dropped for one of its tokens, so there each ratio is truncated.
    """
    return "token_truncate" if args.layout == "trajectory" else "sequence_mask"


def _server_backend(trainer: EngineTrainer) -> Backend:
    # it needs transformers, which checks of settings do not import
    from arena_trainers.engines.weights import server_backend

    return server_backend(trainer, server_of(trainer.args))


def _vllm_backend(trainer: EngineTrainer) -> Backend:
    if plays_adapters(trainer.args, trainer.games.matchmaker):
        return adapter_backend(trainer)
    generation = trainer.vllm_generation

    @lru_cache(1)
    def load(step: int) -> None:
        generation.sync_weights()  # resets the prefix cache, too

    warn_of_precision(engine_dtype(generation.llm), trainer)
    requests = EngineRequests(generation.llm, trainer.args.seeds)
    return VLLMBackend(requests, lambda: load(trainer.state.global_step))


ENGINES = {
    "transformers": Engine(_check_no_server, lambda trainer: None),
    "vllm": Engine(_check_vllm, _vllm_backend),
    "server": Engine(_check_vllm, _server_backend),
}
