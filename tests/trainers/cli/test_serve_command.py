"""`arena serve`; that vLLM takes what it prints is in tests/scale, OpenEnv in tests/adapters."""

import json
import shutil
import socket
import sys

import pytest

from arena_envs.extras import is_installed
from arena_trainers.cli import main as cli


def test_it_prints_a_command_that_training_can_use(arena_here, model_folder):
    done = arena_here("serve", "policy", model_folder, "--lora-r", "12")
    variables, _, command = done.stdout.strip().partition(" python ")
    assert variables.split() == [
        "VLLM_SERVER_DEV_MODE=1",
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING=1",
    ]
    assert command == (
        f"-m vllm.entrypoints.openai.api_server --model {model_folder} --logprobs-mode "
        "processed_logprobs --generation-config vllm --worker-extension-cls "
        "arena_trainers.lm.backends.vllm.WeightSums --enable-lora --max-lora-rank 16 "
        "--host 127.0.0.1 --port 8000"
    )


def test_a_run_with_an_adapter_is_served_on_its_base(
    arena_here, model_folder, tmp_path
):
    run = tmp_path / "run"
    (run / "model").mkdir(parents=True)
    shutil.copytree(model_folder, run / "start")
    config = {"base_model_name_or_path": "elsewhere/start", "r": 4}
    (run / "model" / "adapter_config.json").write_text(json.dumps(config))
    options = ["--port", "7", "--", "--dtype", "float32"]
    said = arena_here("serve", "policy", run, *options).stdout
    assert f"--model {run / 'start'} " in said
    assert f"--lora-modules {run / 'model'}={run / 'model'} --enable-lora" in said
    assert said.endswith(
        "--max-lora-rank 8 --host 127.0.0.1 --port 7 --dtype float32\n"
    )


def test_a_model_of_the_hub_is_printed_without_the_hub(arena_here, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    done = arena_here("serve", "policy", "ORG/not-downloaded", "--lora-r", "16")
    assert done.returncode == 0
    assert " --model ORG/not-downloaded " in done.stdout
    assert "note: ORG/not-downloaded is not on this machine" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["/nowhere"], "want a folder with a saved model, got '/nowhere', which does"),
        (["/nowhere", "--lora-r", "513"], "want --lora-r from 0 to 512, got 513"),
        (["/nowhere", "--port", "0"], "want --port from 1 to 65535, got 0"),
        (["/nowhere", "--port", "65536"], "want --port from 1 to 65535, got 65536"),
    ],
)
def test_bad_arguments_are_refused(arena_here, arguments, message):
    done = arena_here("serve", "policy", *arguments)
    assert done.returncode == 2
    assert message in done.stderr


@pytest.mark.skipif(is_installed("vllm"), reason="vLLM is installed")
def test_it_starts_nothing_without_vllm(arena_here, model_folder):
    done = arena_here("serve", "policy", model_folder, "--start")
    assert done.returncode == 2
    assert "this needs the package 'vllm'; install it in a clone" in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--against", "cfr"], "want --against only with --seat, which the client"),
        (["--timeout", "0"], "want --timeout above 0, got 0.0"),
        (["--port", "0"], "want --port from 1 to 65535, got 0"),
    ],
)
def test_bad_arguments_of_a_game_server_are_refused(arena_here, options, message):
    done = arena_here("serve", "openenv", "kuhn_poker", *options)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {message}")


@pytest.mark.skipif(is_installed("openenv"), reason="openenv is installed")
def test_without_openenv_the_extra_is_named(arena_here):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    done = arena_here("serve", "openenv", "kuhn_poker", "--port", str(port))
    assert done.returncode == 2
    assert "pip install '.[openenv]'" in done.stderr


@pytest.mark.parametrize(
    ("host", "is_taken"), [("127.0.0.1", True), ("203.0.113.1", False)]
)
def test_an_address_that_cannot_be_served_is_refused_at_once(
    host, is_taken, monkeypatch, capfd
):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        arguments = ["serve", "openenv", "kuhn_poker", "--host", host]
        monkeypatch.setattr(sys, "argv", ["arena", *arguments, "--port", str(port)])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
    printed = capfd.readouterr()
    assert stopped.value.code == 2
    assert not printed.out
    if is_taken:
        assert printed.err == f"error: port {port} is in use; give another --port\n"
    else:
        assert printed.err.startswith(
            f"error: cannot listen at 203.0.113.1, port {port}: "
        )
