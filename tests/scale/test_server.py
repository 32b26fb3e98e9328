"""`vllm_mode: server` with a vLLM server on a CPU: weights, versions, and a server that dies."""

import os
import runpy
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from arena_trainers.extras import is_installed

if not is_installed("vllm"):
    pytest.skip(
        "needs vLLM in an environment of its own: make scale", allow_module_level=True
    )

import torch

import arena_envs
from arena_trainers import TurnGRPOConfig, TurnGRPOTrainer
from arena_trainers.cli.serve import server_command
from arena_trainers.lm.policy import LMPolicy
from arena_trainers.lm.server import Server, ServerError
from arena_trainers.train import server_weights
from arena_wrappers import PromptOptions, PromptWrapper, RandomPolicy, play

pytestmark = pytest.mark.filterwarnings("default")  # vLLM and what it imports warn
SHORT = PromptOptions("bare", rules=False)
DIFFERENCE = "sampling/sampling_logp_difference/max"
HERE = Path(__file__).parent
SHIM = SimpleNamespace(**runpy.run_path(str(HERE / "server_shim.py")))
SETTINGS = {
    "rules": False,
    "reply_format": "bare",
    "max_completion_length": 3,
    "on_invalid": "random",
    "max_steps": 4,
    "episodes_per_step": 16,
    "num_generations": 4,
    "learning_rate": 1e-2,
    "bf16": False,
    "gradient_checkpointing": False,
    "use_cpu": True,
    "report_to": "none",
    "logging_steps": 1,
    "seed": 3,
    "use_vllm": True,
    "vllm_mode": "server",
}


class Process:
    """A server as `arena serve policy` starts it, with the shim."""

    def __init__(self, folder, log):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.folder, self.log = folder, log
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self):
        variables, command = server_command(str(self.folder), lora_r=8)
        command += ["--host", "127.0.0.1", "--port", str(self.port), *SHIM.OPTIONS]
        paths = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
        variables |= {**SHIM.SETTINGS, "PYTHONPATH": paths}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, *command],
                env=os.environ | variables,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        server, begun = Server(self.url, timeout=30), time.monotonic()
        while True:
            try:
                server.get("/health")
                return
            except ServerError:
                assert self.process.poll() is None, self.log.read_text()[-3000:]
                assert time.monotonic() - begun < 300, self.log.read_text()[-3000:]
                time.sleep(0.5)

    def send(self, signal_number):
        os.killpg(self.process.pid, signal_number)

    def kill(self):
        self.send(signal.SIGKILL)
        self.process.wait()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A saved model with heads of 32 numbers: vLLM on a CPU knows none of 16."""
    from arena_trainers.job.tiny import tiny_model, tiny_tokenizer, words_of

    torch.set_num_threads(1)
    tokenizer = tiny_tokenizer(words_of(arena_envs.make_game("kuhn_poker"), SHORT))
    model = tiny_model(tokenizer, hidden_size=128, num_layers=1, seed=1)
    path = tmp_path_factory.mktemp("model")
    LMPolicy(model, tokenizer, prompt=SHORT, max_new_tokens=3).save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def vllm(folder, tmp_path_factory):
    process = Process(folder, tmp_path_factory.mktemp("vllm") / "log")
    yield process
    process.kill()


@pytest.fixture
def make_trainer(folder, tmp_path, vllm):
    """Makes trainers whose learner the server plays."""

    def make(peft_config=None, **overrides):
        own = {"output_dir": str(tmp_path / "out"), "save_strategy": "no"}
        own |= {"disable_tqdm": True, "vllm_server_base_url": vllm.url}
        args = TurnGRPOConfig(**{**SETTINGS, **own, **overrides})
        return TurnGRPOTrainer(str(folder), args, peft_config=peft_config)

    return make


def trained(trainer):
    """The logged metrics of each step of training."""
    trainer.train()
    return [record for record in trainer.state.log_history if "loss" in record]


def check_in_step(records):
    """Server and loss agree on every log-probability, also after the weights moved."""
    assert len(records) == 4
    assert records[0]["grad_norm"] > 0.1
    assert all(record[DIFFERENCE] < 1e-5 for record in records), [
        record[DIFFERENCE] for record in records
    ]


def prompts_of(policy, num_episodes=20):
    env = PromptWrapper(arena_envs.make("kuhn_poker"), "bare", rules=False)
    episodes = play(lambda: env, RandomPolicy(), range(num_episodes))
    return [policy.encode(turn.messages) for e in episodes for turn in e.turns]


def assert_logprobs_of_the_loss(policy, replies):
    for reply in replies:
        ids = torch.tensor([[*reply.prompt_ids, *reply.token_ids]])
        with torch.no_grad():
            logits = policy.model(input_ids=ids).logits[0].log_softmax(dim=-1)
        start = len(reply.prompt_ids) - 1
        expected = [float(logits[start + i, t]) for i, t in enumerate(reply.token_ids)]
        assert list(reply.logprobs) == pytest.approx(expected, abs=1e-5)


def test_the_server_has_the_weights_before_it_plays(make_trainer):
    """Log-probabilities, ratios and the policy after the last step are those of the model."""
    trainer = make_trainer()
    records = trained(trainer)
    check_in_step(records)
    for record in records:
        for bound in ("min", "max"):
            ratio = record[f"sampling/importance_sampling_ratio/{bound}"]
            assert ratio == pytest.approx(1, abs=1e-4)
    prompts = prompts_of(trainer.policy)
    replies = trainer.policy.generate(prompts, range(len(prompts)))
    assert_logprobs_of_the_loss(trainer.policy, replies)


def test_replies_do_not_depend_on_the_batch(make_trainer):
    trainer = make_trainer(max_steps=1, learning_rate=0.0)
    trainer.train()
    policy = trainer.policy
    prompts = prompts_of(policy)
    together = policy.generate(prompts, range(len(prompts)))
    apart = [policy.generate([p], [seed])[0] for seed, p in enumerate(prompts)]
    assert [r.token_ids for r in together] == [r.token_ids for r in apart]
    assert len({tuple(r.token_ids) for r in together}) > 10
    assert {r.truncated for r in together} == {True, False}
    assert_logprobs_of_the_loss(policy, together)


def skip_the_weights(monkeypatch):
    """The mutant: the server is told to load weights, and does not."""
    post = Server.post

    def skipped(self, path, body=None):
        return None if path == "/collective_rpc" else post(self, path, body)

    monkeypatch.setattr(Server, "post", skipped)


def test_without_the_weights_the_check_fails(make_trainer, monkeypatch):
    trained(make_trainer(max_steps=1, learning_rate=0.0))  # the server has the start
    skip_the_weights(monkeypatch)
    monkeypatch.setattr(server_weights, "TOLERANCE", float("inf"))
    records = trained(make_trainer())
    assert records[0][DIFFERENCE] < 1e-5
    assert all(record[DIFFERENCE] > 1e-2 for record in records[1:])
    with pytest.raises(AssertionError):
        check_in_step(records)


def test_a_run_whose_server_lacks_the_weights_ends(make_trainer, monkeypatch):
    trained(make_trainer(max_steps=1, learning_rate=0.0))
    skip_the_weights(monkeypatch)
    trainer = make_trainer()
    with pytest.raises(ServerError, match="want the trainer's weights on the server"):
        trainer.train()
    assert trainer.state.global_step == 1


def test_rows_of_several_turns_carry_their_logprobs(make_trainer):
    trainer = make_trainer(layout="trajectory", history="transcript")
    check_in_step(trained(trainer))
    assert any(0 in row.loss_mask and any(row.loss_mask) for row in trainer._rows)


def test_an_adapter_is_served_beside_its_base(make_trainer, vllm):
    from peft import LoraConfig

    lora = LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM")
    trainer = make_trainer(peft_config=lora)
    check_in_step(trained(trainer))
    served = Server(vllm.url).get("/v1/models")["data"]
    names = [Path(model["id"]).name for model in served if model["parent"]]
    assert names == ["step-4"]
    prompts = prompts_of(trainer.policy, 4)
    replies = trainer.policy.generate(prompts, range(len(prompts)))
    assert_logprobs_of_the_loss(trainer.policy, replies)


def test_another_run_on_the_same_server_is_noticed(make_trainer, tmp_path):
    first = make_trainer(max_steps=1)
    first.train()
    make_trainer(max_steps=1, output_dir=str(tmp_path / "second")).train()
    with pytest.raises(ServerError, match=r"want weights '.*out/server/step-1'"):
        first.policy.generate([[4, 5]], [0])


def test_a_stalled_server_is_named(make_trainer, vllm):
    trainer = make_trainer(vllm_server_timeout=3)
    trainer.train()
    vllm.send(signal.SIGSTOP)
    try:
        with pytest.raises(
            ServerError, match=f"{vllm.url} has answered nothing for 3 "
        ):
            trainer.policy.generate([[4, 5]], [0])
    finally:
        vllm.send(signal.SIGCONT)
    assert trainer.policy.generate([[4, 5]], [0])


def test_a_run_resumes_after_its_server_was_killed(folder, vllm, tmp_path):
    """It ends with exit status 1, the server's name and the command that resumes."""
    run = tmp_path / "run"
    options = {**SETTINGS, "max_steps": 200, "save_steps": 1, "eval_episodes": 20}
    options |= {"model": folder, "vllm_server_base_url": vllm.url, "output_dir": run}
    options |= {"save_total_limit": 2, "evaluate_every": 0, "games": "kuhn_poker"}
    words = [word for name, x in options.items() for word in (f"--{name}", str(x))]
    arena = [sys.executable, "-m", "arena_trainers", "train"]
    pipe = subprocess.PIPE
    process = subprocess.Popen([*arena, *words], stdout=pipe, stderr=pipe, text=True)
    while not (run / "checkpoint-2").is_dir() and process.poll() is None:
        time.sleep(0.05)
    vllm.kill()
    out, said = process.communicate(timeout=60)
    assert process.returncode == 1, out + said
    assert f"{vllm.url} broke off the conn" in said or f"answers at {vllm.url}" in said
    assert f"arena train --resume {run}" in said
    assert "Traceback" not in said
    vllm.start()
    last = max(int(path.name.partition("-")[2]) for path in run.glob("checkpoint-*"))
    more = ["--resume", str(run), "--max_steps", str(last + 2)]
    done = subprocess.run([*arena, *more], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"step {last}" in done.stdout
    assert (run / "results.json").is_file()
