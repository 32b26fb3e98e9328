"""`vllm_mode: server` with a vLLM server on a CPU: weights, versions, and a server that dies."""

import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from arena_envs.extras import is_installed

if not is_installed("vllm"):
    pytest.skip(
        "needs vLLM in an environment of its own: make scale", allow_module_level=True
    )

from arena_trainers import TurnGRPOConfig, TurnGRPOTrainer
from arena_trainers.engines import transfer, weights
from arena_trainers.lm.backends.server import JSONServer, ServerError
from arena_trainers.runs.mappings import typed_words

pytestmark = pytest.mark.filterwarnings("default")  # vLLM and what it imports warn
HERE = Path(__file__).parent


def names_of(path):
    return SimpleNamespace(**runpy.run_path(str(path)))


LAUNCHING = names_of(HERE / "launching.py")
PLAYED = names_of(HERE.with_name("played_by_vllm.py"))
SERVING = names_of(HERE / "vllm_process.py")
Process, SHIM = SERVING.Process, SERVING.SHIM
SETTINGS = {**PLAYED.SETTINGS, "vllm_mode": "server"}
trained, check_in_step = PLAYED.trained, PLAYED.check_in_step


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "tied"
    PLAYED.save_model(path)
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
        own = {"output_dir": str(tmp_path / "out"), **PLAYED.IN_TESTS}
        own |= {"vllm_server_base_url": vllm.url}
        args = TurnGRPOConfig(**{**SETTINGS, **own, **overrides})
        return TurnGRPOTrainer(str(folder), args, peft_config=peft_config)

    return make


def test_the_server_has_the_weights_before_it_plays(make_trainer):
    PLAYED.check_trained_weights_play(make_trainer())


def test_replies_do_not_depend_on_the_batch(make_trainer):
    trainer = make_trainer(max_steps=1, learning_rate=0.0)
    trainer.train()
    PLAYED.check_replies_apart(trainer.policy)


@pytest.fixture
def transferring(folder, tmp_path, monkeypatch):
    """A server that takes weights by vLLM's interface, with the shim's wire."""
    monkeypatch.setitem(transfer.TRANSFERS, "cpu", lambda *_: SHIM.TrainerInit(rank=0))
    config = ("--weight-transfer-config", '{"backend": "cpu"}')
    process = Process(folder, tmp_path / "log", *config)
    yield process
    process.kill()


def test_weights_are_transferred_by_the_interface_of_vllm(
    make_trainer, transferring, vllm, monkeypatch, tmp_path
):
    monkeypatch.setattr(weights, "CHECK_EVERY", 1)
    trainer = make_trainer(vllm_server_base_url=transferring.url)
    PLAYED.check_trained_weights_play(trainer)
    assert SHIM.Sender.num_sent == 5  # before training, and after each step
    assert not (tmp_path / "out" / "server").exists()  # no files
    monkeypatch.setattr(SHIM.Sender, "send_weights", lambda self: None)
    with pytest.raises(ServerError, match="got others: their bits add up to"):
        make_trainer(vllm_server_base_url=transferring.url).train()


def test_vllm_takes_what_the_trainer_tells_of_nccl_and_ipc(vllm):
    args = SimpleNamespace(vllm_group_port=51216)
    accelerator = SimpleNamespace(num_processes=1)
    trainer = SimpleNamespace(args=args, accelerator=accelerator)
    nccl, ipc = (
        make(trainer, JSONServer(vllm.url))
        for make in (transfer._nccl_init, transfer._ipc_init)
    )
    assert (nccl.backend, nccl.world_size, nccl.is_sender) == ("nccl", 2, True)
    assert (nccl.master_address, nccl.master_port) == ("127.0.0.1", 51216)
    assert (ipc.backend, ipc.packed, ipc.is_sender) == ("ipc", True, True)


def skip_the_weights(monkeypatch):
    """The mutant: the server is told to load weights, and does not."""
    post = JSONServer.post

    def skipped(self, path, body=None):
        skips = path == "/collective_rpc" and body["method"] == "reload_weights"
        return None if skips else post(self, path, body)

    monkeypatch.setattr(JSONServer, "post", skipped)


def test_without_the_weights_the_check_fails(make_trainer, monkeypatch):
    trained(make_trainer(max_steps=1, learning_rate=0.0))  # the server has the start
    skip_the_weights(monkeypatch)
    monkeypatch.setattr(weights, "TOLERANCE", float("inf"))
    PLAYED.check_first_weights_stay(trained(make_trainer()))


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
    served = JSONServer(vllm.url).get("/v1/models")["data"]
    names = [Path(model["id"]).name for model in served if model["parent"]]
    assert names == ["step-4"]
    prompts = PLAYED.prompts_of(trainer.policy, 4)
    replies = trainer.policy.generate(prompts, range(len(prompts)))
    PLAYED.assert_logprobs_of_the_loss(trainer.policy, replies)


def test_each_learner_is_served_by_its_own_adapter(make_trainer, vllm, monkeypatch):
    """The server has one slot: it reads an adapter again when the role changes."""
    monkeypatch.setattr(weights, "CHECK_EVERY", 1)
    trainer = make_trainer(roles={0: {"lora_r": 4}, 1: {"lora_r": 2}})
    check_in_step(trained(trainer))
    players = trainer.matching.learner.models
    prompts = PLAYED.prompts_of(trainer.policy, 4)
    said = {n: p.generate(prompts, range(len(prompts))) for n, p in players.items()}
    for name, other in (("seat_0", "seat_1"), ("seat_1", "seat_0")):
        with players[name].context():
            PLAYED.assert_logprobs_of_the_loss(trainer.policy, said[name])
            with pytest.raises(AssertionError):
                PLAYED.assert_logprobs_of_the_loss(trainer.policy, said[other])


@pytest.mark.parametrize("lora", [False, True])
def test_a_server_with_other_weights_is_told_by_their_sum(
    make_trainer, lora, monkeypatch
):
    from peft import LoraConfig

    options = {"r": 4, "lora_alpha": 7, "target_modules": "all-linear"}
    peft = LoraConfig(**options, task_type="CAUSAL_LM") if lora else None
    monkeypatch.setattr(weights, "CHECK_EVERY", 1)
    trainer = make_trainer(peft)
    check_in_step(trained(trainer))
    sender = trainer.sender
    assert sender.num_sent == 5
    parameter = next(p for p in trainer.model.parameters() if p.requires_grad)
    parameter.data[0, 0] += 2**-20 * parameter.data[0, 0].abs()
    with pytest.raises(ServerError, match="got others: their bits add up"):
        sender._check_sum(trainer.model.state_dict, is_adapter=lora)


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


def test_sharded_trainers_send_whole_weights(vllm, folder, tmp_path):
    """Two processes under FSDP2; if the main one fails to send, both end with its error."""
    server = {"use_vllm": True, "vllm_mode": "server", "games": ["kuhn_poker"]}
    server |= {"vllm_server_base_url": vllm.url, "max_steps": 3}
    runs = {"whole": server, "lora": {**server, "lora": True}}
    runs["refused"] = {**server, "without_folder": True}
    LAUNCHING.launch("fsdp2", folder.parent, tmp_path, runs)
    for name in ("whole", "lora"):
        for record in LAUNCHING.records(tmp_path / name):
            assert "FSDPModule" in record["wrapper"]
        (log, _) = (record["log"] for record in LAUNCHING.records(tmp_path / name))
        check_in_step(PLAYED.steps_of(log), num_steps=3)
    said = [(tmp_path / "refused" / f"rank{n}.txt").read_text() for n in (0, 1)]
    assert said[0] == said[1]
    assert f"{vllm.url} cannot load '{tmp_path}/refused/server/step-0'" in said[0]


def test_a_run_resumes_after_its_server_was_killed(folder, vllm, tmp_path):
    """It ends with exit status 1, the server's name and the command that resumes."""
    run = tmp_path / "run"
    options = {**SETTINGS, "max_steps": 200, "save_steps": 1, "eval_episodes": 20}
    options |= {"model": folder, "vllm_server_base_url": vllm.url, "output_dir": run}
    options |= {"save_total_limit": 2, "evaluate_every": 0, "games": "kuhn_poker"}
    words = [word for pair in options.items() for word in typed_words(*pair)]
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
