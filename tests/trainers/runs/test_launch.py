"""`machine` with several GPUs: one command starts a server and the processes that train."""

import json
import socket
import sys
from pathlib import Path

import pytest

from arena_trainers.lm.backends.server import ServerError
from arena_trainers.runs import load_recipe
from arena_trainers.runs.checks.machine import machine_of
from arena_trainers.runs.checks.preflight import read_options
from arena_trainers.runs.launch import (
    check_gpus,
    launch,
    server_of_machine,
    starts_server,
    training_of_machine,
    visible_gpus,
)
from arena_trainers.runs.mappings import nested

SCRIPT = str(Path(__file__).with_name("launch_script.py"))
GPUS = [str(i) for i in range(8)]


def test_marshal_has_a_server_on_four_gpus_and_splits_weights_on_four(monkeypatch):
    job, args = read_options(load_recipe("marshal"))
    assert starts_server(job, args)
    server = server_of_machine(job, args, GPUS)
    assert server.environment["CUDA_VISIBLE_DEVICES"] == "0,1,2,3"
    assert server.words[1:6] == ["-m", "arena_trainers", "serve", "policy", job.model]
    assert server.words[-4:] == [
        *("--tensor-parallel-size", "4"),
        *("--max-model-len", "32768"),
    ]
    training = training_of_machine(job, args, ["marshal", "--seed", "1"], GPUS)
    assert training.environment["CUDA_VISIBLE_DEVICES"] == "4,5,6,7"
    words = training.words
    assert words[words.index("--num_processes") + 1] == "4"
    assert Path(words[words.index("--config_file") + 1]).name == "fsdp2.yaml"
    assert words[-6:] == ["-m", "arena_trainers", "train", "marshal", "--seed", "1"]
    monkeypatch.setenv("RANK", "0")  # one of the processes, which starts no others
    assert not starts_server(job, args)


def test_processes_with_whole_weights_are_those_of_torchrun():
    job, args = read_options({"machine": {"gpus": 4, "memory": 24}})
    words = training_of_machine(job, args, [], ["4", "5", "6", "7"]).words
    assert words[1:4] == ["-m", "torch.distributed.run", "--standalone"]
    assert not starts_server(job, args)


def test_fewer_gpus_than_the_machine_has_are_refused():
    machine = machine_of({"gpus": 8, "memory": 80})
    with pytest.raises(ValueError, match=r"want 8 GPUs of 80 GiB, got 2 GPUs here"):
        check_gpus(machine, visible_gpus({"CUDA_VISIBLE_DEVICES": "3,5"}, 8))
    check_gpus(machine, visible_gpus({}, 8))


def settings_of(model, port):
    return {
        "model": str(model),
        "machine": {"gpus": 3, "memory": 80, "server": 1, "split": True},
        "games": ["kuhn_poker"],
        "rules": False,
        "reply_format": "bare",
        "max_completion_length": 2,
        "use_vllm": True,
        "vllm_mode": "server",
        "vllm_server_host": "127.0.0.1",
        "vllm_server_port": port,
        "max_steps": 2,
        "logging_steps": 1,
        "episodes_per_step": 8,
        "num_generations": 2,
        "evaluate_every": 0,
        "eval_episodes": 6,
        "bf16": False,
        "use_cpu": True,
        "gradient_checkpointing": False,
    }


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


AHEAD = {"asynchronous": {"max_staleness": 1}, "max_steps": 4}


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, AHEAD])
def test_one_command_trains_with_a_server_and_two_processes(
    model_folder, tmp_path, options
):
    settings = settings_of(model_folder, free_port()) | options
    recipe, run, said = tmp_path / "recipe.yaml", tmp_path / "run", []
    recipe.write_text(json.dumps(nested(settings)))
    job, args = read_options(settings)
    arguments = [str(recipe), "--output-dir", str(run)]
    programs = {"train": [SCRIPT, "train"], "serve": [SCRIPT, "serve"]}
    assert launch(job, args, arguments, run, said.append, **programs) == 0
    log = tmp_path / "run.server.log"
    assert str(log) in said[0]
    assert "--tensor-parallel-size 1" in log.read_text()
    lines = (run / "metrics.jsonl").read_text().splitlines()
    logged = [json.loads(line) for line in lines]
    steps = [record for record in logged if "loss" in record]
    assert [record["step"] for record in steps] == [
        *range(1, settings["max_steps"] + 1)
    ]
    staleness = [record.get("arena/asynchronous/staleness") for record in steps]
    assert staleness == ([0, 1, 1, 1] if options else [None, None])
    results = json.loads((run / "results.json").read_text())
    (outcome,) = results["outcomes"].values()
    assert [s["num_episodes"] for s in outcome["stages"][1:]] == [6, 6]
    kinds = [(tmp_path / f"rank{n}.txt").read_text() for n in (0, 1)]
    assert kinds == ["DTensor", "DTensor"]  # split
    assert (run / "model" / "model.safetensors").is_file()


def test_a_server_that_ends_at_once_is_named_with_its_log(model_folder, tmp_path):
    settings = settings_of(model_folder, free_port())
    job, args = read_options(settings)
    fails = ["-c", "raise SystemExit('no such GPU')"]
    with pytest.raises(ServerError, match=r"its log, .*run.server.log, says why"):
        launch(job, args, [], tmp_path / "run", print, serve=fails, train=[sys.argv[0]])
    assert "no such GPU" in (tmp_path / "run.server.log").read_text()
