"""The command `arena serve policy`: a vLLM server that generates for training."""

import json
import os
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from arena_envs import extras
from arena_trainers.cli.errors import usage_errors
from arena_trainers.cli.options import HostOption, PortOption
from arena_trainers.cli.ports import check_port
from arena_trainers.lm import smollm2
from arena_trainers.lm.backends.vllm import RANKS, engine_rank
from arena_trainers.lm.models import ADAPTER, adapter_base, find_model, model_folder


def policy(
    model: Annotated[str, typer.Argument(metavar="MODEL")],
    options: Annotated[list[str] | None, typer.Argument(metavar="-- OPTION")] = None,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8000,
    lora_r: Annotated[
        int, typer.Option(help="Largest rank of adapters that training sends; 0: none.")
    ] = 0,
    start: Annotated[
        bool, typer.Option("--start", help="Start the server instead.")
    ] = False,
) -> None:
    """Print the command of a vLLM server that generates for training.

    MODEL is a run, a folder with a model or adapter, or an id of the Hugging Face hub. Give
    vLLM's own options after --. Training with the server:

    arena train --model MODEL --use_vllm true --vllm_mode server
    --vllm_server_base_url http://127.0.0.1:8000

    For example:

    arena serve policy Qwen/Qwen3-0.6B --lora-r 16 --start -- --max-model-len 4096
    """
    with usage_errors():
        check_port(port)
        if start:
            extras.require(["vllm"], "vllm")
        variables, command = server_command(model, lora_r, asks_hub=start)
        served_model = command[command.index("--model") + 1]
        command += ["--host", host, "--port", str(port), *(options or [])]
    if start:
        os.execve(sys.executable, [sys.executable, *command], os.environ | variables)
    assignments = [f"{name}={value}" for name, value in variables.items()]
    typer.echo(" ".join([*assignments, "python", shlex.join(command)]))
    if not Path(served_model).is_dir():
        typer.echo(
            f"note: {served_model} is not on this machine, so its config was not read; vLLM "
            "downloads it when the server starts",
            err=True,
        )


def server_command(
    model: str, lora_r: int = 0, asks_hub: bool = True
) -> tuple[dict[str, str], list[str]]:
    """Environment variables and the arguments of Python, without host and port.

    Args:
        model: a run, a folder with a model or adapter, or an id of the hub.
        lora_r: largest rank of adapters that training sends; 0 for none.
        asks_hub: whether to ask the hub if it has a model that is not on this machine.

    Raises:
        ValueError: there is no such model, or vLLM takes no such rank.
    """
    if not 0 <= lora_r <= RANKS[-1]:
        raise ValueError(f"want --lora-r from 0 to {RANKS[-1]}, got {lora_r}")
    name = str(Path(model, "model")) if Path(model, "model").is_dir() else model
    base = adapter_base(name)
    model_name = base or name
    if model_name == smollm2.NAME:
        folder: Path | None = model_folder(model_name)
    else:
        folder = find_model(model_name, asks_hub)
    command = ["-m", "vllm.entrypoints.openai.api_server"]
    command += ["--model", model_name if folder is None else str(folder.absolute())]
    # the log-probabilities that training reads; no sampling defaults of the model's folder
    command += ["--logprobs-mode", "processed_logprobs", "--generation-config", "vllm"]
    # with which training compares the weights
    command += ["--worker-extension-cls", "arena_trainers.lm.backends.vllm.WeightSums"]
    variables = {"VLLM_SERVER_DEV_MODE": "1"}  # allows to change weights
    if lora_r:
        variables["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] = "1"
    if base is not None:
        adapter = Path(name).absolute()
        command += ["--lora-modules", f"{adapter}={adapter}"]
        adapter_config = json.loads((adapter / ADAPTER).read_text(encoding="utf-8"))
        lora_r = max(lora_r, adapter_config["r"])
    if lora_r:
        command += ["--enable-lora", "--max-lora-rank", str(engine_rank(lora_r))]
    return variables, command
