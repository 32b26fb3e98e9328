"""`ServedModel`: the model and the limits of a server, and whether its model can hold a run's weights."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena_trainers.lm.backends.server import (
    RESTART,
    JSONServer,
    RequestRefused,
    ServerError,
)

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

# must be equal for weights of one model to fit another
SHAPES = (
    "model_type",
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
)


@dataclass(frozen=True)
class ServedModel:
    """The facts that a server tells of itself.

    Attributes:
        model: name of the served model, for requests.
        folder: folder or id of the model that the server was started with.
        dtype: of its weights, as torch calls it.
        max_lora_rank: largest rank of an adapter; None if it takes none.
        transfer: backend of vLLM's weight transfer; None if it reads files.
        sums: the kinds of weights whose sums it tells (`WeightSums`): "adapter", "model".
        kind: its name in `SERVERS`.
    """

    model: str
    folder: str
    dtype: str
    max_lora_rank: int | None
    transfer: str | None = None
    sums: tuple[str, ...] = ()
    kind: str = "vllm"


def read_served_model(server: JSONServer) -> ServedModel:
    """The model and the limits of a server.

    Raises:
        ServerError: it cannot be reached, is another server, or lacks an option.
    """
    try:
        info = server.get("/server_info?config_format=json")
        if "enable_deterministic_inference" in info:
            return _read_sglang_model(server, info)
        config = info["vllm_config"]
        models = server.get("/v1/models")["data"]
        base_model = next(model for model in models if not model.get("parent"))
        server.get("/weight_info")["weight_version"]
        mode = config["model_config"]["logprobs_mode"]
        lora = config.get("lora_config")
        served = ServedModel(
            model=str(base_model["id"]),
            folder=str(base_model["root"]),
            dtype=str(config["model_config"]["dtype"]).removeprefix("torch."),
            max_lora_rank=None if lora is None else int(lora["max_lora_rank"]),
            transfer=(config.get("weight_transfer_config") or {}).get("backend"),
            sums=_weight_sums(config),
        )
    except (
        RequestRefused,
        LookupError,
        TypeError,
        AttributeError,
        StopIteration,
    ) as error:
        raise ServerError(
            "want a server of SGLang, or of vLLM 0.31 to 0.33 with VLLM_SERVER_DEV_MODE=1 at "
            f"{server.url}, got another, which cannot take weights ({error}); {RESTART}"
        ) from error
    if mode != "processed_logprobs":
        raise ServerError(
            f"want --logprobs-mode processed_logprobs of the server at {server.url}, got "
            f"{mode}; {RESTART}"
        )
    return served


def _read_sglang_model(server: JSONServer, info: Mapping[str, Any]) -> ServedModel:
    """`ServedModel` of an SGLang server, by its documented `server_info`."""
    if not info["enable_deterministic_inference"] or info["dtype"] == "auto":
        raise ServerError(
            f"want --enable-deterministic-inference and a --dtype other than auto of the "
            f"server at {server.url}, got enable_deterministic_inference "
            f"{info['enable_deterministic_inference']} and dtype {info['dtype']!r}; {RESTART}"
        )
    rank = int(info["max_lora_rank"] or 0) if info["enable_lora"] else None
    folder = str(info["model_path"])
    return ServedModel(
        model=folder,
        folder=folder,
        dtype=str(info["dtype"]),
        max_lora_rank=rank,
        kind="sglang",
    )


def _weight_sums(config: Mapping[str, Any]) -> tuple[str, ...]:
    """`ServedModel.sums`: workers that share the model's weights hold some of them twice."""
    parallel = config.get("parallel_config") or {}
    if not str(parallel.get("worker_extension_cls")).endswith("WeightSums"):
        return ()
    is_whole = parallel["world_size"] == 1
    is_plain = config["model_config"].get("quantization") is None
    return ("adapter", "model") if is_whole and is_plain else ("adapter",)


def check_shapes(
    server: JSONServer, served: ServedModel, config: "PreTrainedConfig"
) -> None:
    """Refuses a server whose model cannot hold the weights of another.

    vLLM finds out while it loads them, and then serves neither model. A model that this
    machine does not have in a folder is not compared.

    Args:
        server: the server.
        served: what it serves.
        config: the configuration of the model whose weights it gets.

    Raises:
        ServerError: names the number that differs.
    """
    file = Path(served.folder) / "config.json"
    if not file.is_file():
        return
    served_config = json.loads(file.read_text(encoding="utf-8"))
    for name in SHAPES:
        trained_value = getattr(config, name, None)
        if (
            name in served_config
            and trained_value is not None
            and served_config[name] != trained_value
        ):
            raise ServerError(
                f"the server at {server.url} serves the model in {served.folder!r} with "
                f"{name} {served_config[name]}, and the run trains one with {name} {trained_value}; start it "
                "with the model that the run starts from"
            )
