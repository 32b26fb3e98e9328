"""Starts what a run on several GPUs needs, as its option `machine` says: a server, and processes that train.

The commands are those of docs/scaling.md. The server ends with the training.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from arena_trainers.lm.backends.server import JSONServer, ServerError
from arena_trainers.runs.checks.machine import Machine, machine_of
from arena_trainers.runs.settings import JobConfig
from arena_trainers.train.settings import Draft

TRAIN = ("-m", "arena_trainers", "train")
SERVE = ("-m", "arena_trainers", "serve", "policy")
SECONDS = 1800.0  # in which a server has loaded its model
HOST = "127.0.0.1"


@dataclass(frozen=True)
class GPUCommand:
    """A command with the GPUs that it sees.

    Attributes:
        words: of the command.
        gpus: their numbers; None for all.
    """

    words: Sequence[str]
    gpus: Sequence[str] | None

    @property
    def environment(self) -> dict[str, str]:
        """The variables of this process, with the command's GPUs."""
        if self.gpus is None:
            return dict(os.environ)
        return os.environ | {"CUDA_VISIBLE_DEVICES": ",".join(self.gpus)}


def starts_processes(job: JobConfig) -> bool:
    """Whether `arena train` starts the processes of the machine; they do not start others."""
    machine = machine_of(job.machine)
    return machine.gpus > 1 and "RANK" not in os.environ


def starts_server(job: JobConfig, args: Draft) -> bool:
    """Whether it starts the server, which is then not there yet."""
    has_url = args.vllm_server_base_url is not None
    return starts_processes(job) and machine_of(job.machine).server > 0 and not has_url


def check_gpus(machine: Machine, names: Sequence[str]) -> None:
    """Raises ValueError for fewer GPUs than the machine has."""
    if len(names) < machine.gpus:
        raise ValueError(
            f"want {machine}, got {len(names)} GPUs here; give --machine "
            "'{gpus: N, memory: GIB}' for another machine, or --machine '{}' and start the "
            "processes yourself (docs/scaling.md)"
        )


def server_of_machine(
    job: JobConfig,
    args: Draft,
    gpus: Sequence[str] | None,
    serve: Sequence[str] = SERVE,
) -> GPUCommand:
    """The command of the server."""
    machine = machine_of(job.machine)
    words = [sys.executable, *serve, job.model, "--start", "--host", HOST]
    words += ["--port", str(args.vllm_server_port)]
    if job.lora_r:
        words += ["--lora-r", str(job.lora_r)]
    words += ["--", "--tensor-parallel-size", str(machine.server)]
    if args.vllm_max_model_length:
        words += ["--max-model-len", str(args.vllm_max_model_length)]
    return GPUCommand(words, gpus and gpus[: machine.server])


def training_of_machine(
    job: JobConfig,
    args: Draft,
    arguments: Sequence[str],
    gpus: Sequence[str] | None,
    train: Sequence[str] = TRAIN,
) -> GPUCommand:
    """The command that starts the processes that train.

    Args:
        job: the job's settings.
        args: the trainer's settings.
        arguments: of `arena train`.
        gpus: numbers of all GPUs; None on a CPU.
        train: the program, up to these arguments.
    """
    machine = machine_of(job.machine)
    num = ["--num_processes", str(machine.processes)]
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    words += ["--nproc_per_node", str(machine.processes)]
    if machine.split:
        spec = find_spec("trl")
        folder = Path(str(spec and spec.origin)).parent / "accelerate_configs"
        words = [sys.executable, "-m", "accelerate.commands.launch"]
        words += ["--config_file", str(folder / "fsdp2.yaml")]
        words += ["--fsdp_cpu_ram_efficient_loading", "false", *num]
        words += ["--mixed_precision", "bf16" if args.bf16 else "no"]
        words += ["--main_process_port", "0"]
    is_module = train[0] == "-m"
    words += ["-m", *train[1:]] if is_module else list(train)
    return GPUCommand([*words, *arguments], gpus and gpus[machine.server :])


def run(
    server: GPUCommand | None,
    training: GPUCommand,
    url: str,
    log: Path,
    say: Callable[[str], object],
) -> int:
    """Starts the server, waits for it, trains, and ends it; the status of the training."""
    with _serving(server, url, log, say):
        process = subprocess.Popen(training.words, env=training.environment)
        handlers = {
            number: signal.signal(number, lambda n, _: process.send_signal(n))
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            return process.wait()
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)


@contextmanager
def _serving(
    server: GPUCommand | None, url: str, log: Path, say: Callable[[str], object]
) -> Iterator[None]:
    """Within this context a server answers at the URL.

    Raises:
        ServerError: it ended before it answered, or took too long.
    """
    if server is None:
        yield
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    say(f"a server starts at {url}; its log is {log}")
    with log.open("ab") as file:
        process = subprocess.Popen(
            server.words,
            env=server.environment,
            stdout=file,
            stderr=file,
            start_new_session=True,  # Ctrl-C is for the training, which asks it to the end
        )
    try:
        _wait(process, url, log)
        yield
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    began = time.monotonic()
    while True:
        try:
            JSONServer(url, timeout=10.0).get("/health")
        except ServerError:
            seconds = time.monotonic() - began
            if process.poll() is not None or seconds > SECONDS:
                raise ServerError(
                    f"want a server that answers at {url}, got none after {seconds:.0f} s; "
                    f"its log, {log}, says why"
                ) from None
            time.sleep(1.0)
        else:
            return


def visible_gpus(variables: Mapping[str, str], num: int) -> list[str]:
    """The numbers of this machine's GPUs, as CUDA_VISIBLE_DEVICES names them."""
    names = variables.get("CUDA_VISIBLE_DEVICES")
    return names.split(",") if names else [str(i) for i in range(num)]


def launch(
    job: JobConfig,
    args: Draft,
    arguments: Sequence[str],
    folder: Path,
    say: Callable[[str], object],
    *,
    train: Sequence[str] = TRAIN,
    serve: Sequence[str] = SERVE,
) -> int:
    """Runs `arena train` with these arguments on the machine of the settings; its status.

    Raises:
        ValueError: this machine has fewer GPUs.
        ServerError: the server did not start.
    """
    import torch

    gpus = None
    if not args.use_cpu:
        gpus = visible_gpus(os.environ, torch.cuda.device_count())
        check_gpus(machine_of(job.machine), gpus)
    server = (
        server_of_machine(job, args, gpus, serve) if starts_server(job, args) else None
    )
    training = training_of_machine(job, args, arguments, gpus, train)
    url = f"http://{HOST}:{args.vllm_server_port}"
    log = folder.with_name(f"{folder.name}.server.log")
    return run(server, training, url, log, say)
