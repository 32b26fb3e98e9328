"""Signals: the first ends a run at a checkpoint that resumes exactly, the second at once."""

import os
import resource
import signal
import subprocess
import sys

import pytest
import torch
import yaml
from transformers import AutoModelForCausalLM, TrainerCallback

from arena_trainers.checkpoint import newest_checkpoint, step_of
from arena_trainers.cli import main as cli
from arena_trainers.runs.stopping import StopCallback, Stopped, Stopper

OPTIONS = [
    "--tiny.hidden_size",
    "16",
    "--tiny.num_layers",
    "1",
    "--warm_start.steps",
    "5",
]
OPTIONS += ["--warm_start.episodes", "100"]
OPTIONS += [
    "--episodes_per_step",
    "16",
    "--num_generations",
    "8",
    "--credit_args",
    "{}",
]
OPTIONS += ["--max_steps", "8", "--save_steps", "1000", "--evaluate_every", "0"]
OPTIONS += ["--logging_steps", "1", "--callbacks.eval_episodes", "8", "--seed", "1"]
OPTIONS += ["--callbacks.saved_groups", "0"]
TWO = ["--num_iterations", "2"]  # optimizer steps share a generation batch


def arena(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["arena", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    return stopped.value.code


def weights(folder):
    return AutoModelForCausalLM.from_pretrained(folder / "model").state_dict()


class Signals(TrainerCallback):
    """Sends a signal to this process after a step, as often as is wanted."""

    def __init__(self, step, signum, times=1):
        self.step, self.signum, self.times = step, signum, times

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == self.step:
            for _ in range(self.times):
                os.kill(os.getpid(), self.signum)


def signalled(monkeypatch, signals, *arguments):
    """Runs the command, which gets signals after a step; returns its exit status."""
    ours = StopCallback.on_step_end

    def on_step_end(self, args, state, control, **kwargs):
        signals.on_step_end(args, state, control)
        return ours(self, args, state, control, **kwargs)

    monkeypatch.setattr(StopCallback, "on_step_end", on_step_end)
    return arena(monkeypatch, *arguments)


@pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
@pytest.mark.slow
def test_ctrl_c_saves_a_checkpoint_from_which_the_run_ends_alike(
    tmp_path, monkeypatch, capfd
):
    """At step 3 a batch of two steps is in use, from which no run resumes exactly."""
    folder, whole = tmp_path / "stopped run", tmp_path / "whole"
    signals = Signals(3, signal.SIGINT)
    options = ["train", *OPTIONS, *TWO, "--output-dir"]
    with monkeypatch.context() as patch:
        assert signalled(patch, signals, *options, folder) == 130
    assert step_of(newest_checkpoint(folder).checkpoint) == 4
    error = capfd.readouterr().err
    assert "press Ctrl-C again to stop at once" in error
    assert "stopped; the last checkpoint is of step 4, resume with" in error
    assert f"arena train --resume '{folder}'" in error
    assert not (folder / "results.json").exists()
    assert arena(monkeypatch, "train", "--resume", folder) == 0
    assert arena(monkeypatch, *options, whole) == 0
    again = weights(folder)
    assert all(torch.equal(t, again[name]) for name, t in weights(whole).items())


@pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
def test_the_second_signal_stops_at_once(monkeypatch, tmp_path, capfd):
    folder = tmp_path / "run"
    signals = Signals(3, signal.SIGTERM, times=2)
    options = [*OPTIONS, *TWO, "--output-dir", folder]
    assert signalled(monkeypatch, signals, "train", *options) == 143
    assert newest_checkpoint(folder).checkpoint is None
    assert "stopped before the first checkpoint" in capfd.readouterr().err


KILLED = """
import os, shutil, signal, sys, torch
left = int(sys.argv[1])
def counted(function):
    def call(*args, **kwargs):
        global left
        if "checkpoint-" in str(args):
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1
        return function(*args, **kwargs)
    return call
torch.save, shutil.rmtree = counted(torch.save), counted(shutil.rmtree)
from arena_trainers.cli.main import main
sys.argv[:2] = ["arena"]
main()
"""
ROUNDS = {
    **{
        "model": "tiny",
        "tiny": {"hidden_size": 16, "num_layers": 1},
        "games": ["kuhn_poker"],
    },
    **{"prompt": {"rules": False, "reply_format": "bare"}, "use_cpu": True},
    "rounds": {
        "num": 1,
        "play": {"episodes": 6},
        "select": "solver_replies(solver=cfr)",
        "train": {"trainer": "sft", "max_steps": 4, "save_steps": 1}
        | {"save_total_limit": 1, "learning_rate": 0.01},
        "evaluate": {"opponents": ["random"], "episodes": 5},
    },
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
@pytest.mark.parametrize(
    ("kind", "number"), [("self-play", 6), ("self-play", 10), ("rounds", 6)]
)
def test_a_run_killed_between_writes_resumes_to_the_same_weights(
    tmp_path, arena_here, kind, number
):
    """In the second checkpoint, or before the first one is deleted."""
    words = ["train", *OPTIONS, "--save_steps", "2", "--save_total_limit", "1"]
    if kind == "rounds":
        (tmp_path / "rounds.yaml").write_text(yaml.safe_dump(ROUNDS))
        words = ["train", tmp_path / "rounds.yaml"]
    folder = tmp_path / "killed"
    command = [sys.executable, "-c", KILLED, number, *words, "--output-dir", folder]
    done = subprocess.run([*map(str, command)], check=False, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    left = [path for path in folder.rglob("checkpoint-*") if path.is_dir()]
    assert len(left) == 2
    resumed = arena_here("train", "--resume", folder)
    assert resumed.returncode == 0, resumed.stderr
    assert ("has no manifest.json" in resumed.stdout) == (number == 6)
    assert arena_here(*words, "--output-dir", tmp_path / "whole").returncode == 0
    files = [
        path / "round-00/model/model.safetensors"
        if kind == "rounds"
        else path / "model/model.safetensors"
        for path in (folder, tmp_path / "whole")
    ]
    assert files[0].read_bytes() == files[1].read_bytes()


class Quota:
    """Lets no file grow beyond a number of bytes, from the end of a step on."""

    def __init__(self, step, num_bytes):
        self.step, self.num_bytes = step, num_bytes

    def on_step_end(self, args, state, control):
        if state.global_step == self.step:
            most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.num_bytes, most))


@pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
@pytest.mark.parametrize(
    "num_bytes", [8000, pytest.param(15000, marks=pytest.mark.slow)]
)
def test_a_full_disk_ends_a_run_in_one_sentence_and_the_command_that_resumes(
    monkeypatch, tmp_path, capfd, num_bytes
):
    """There is no room for `model.safetensors`, or for `optimizer.pt`."""
    folder, before = tmp_path / "run", resource.getrlimit(resource.RLIMIT_FSIZE)
    options = [*OPTIONS, "--save_steps", "2", "--output-dir", folder]
    try:
        assert signalled(monkeypatch, Quota(3, num_bytes), "train", *options) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    error = capfd.readouterr().err
    *_, sentence, stopped, command = error.splitlines()
    assert "could not be written, as the disk is full or a quota is used up" in sentence
    assert stopped == "stopped; the last checkpoint is of step 2, resume with:"
    assert command == f"arena train --resume {folder}"
    assert "Traceback" not in error


def test_outside_of_training_the_first_signal_stops_at_once():
    with Stopper() as stopper:
        with pytest.raises(Stopped) as stopped:
            os.kill(os.getpid(), signal.SIGTERM)
        assert stopped.value.status == 143
        with stopper.waiting():
            os.kill(os.getpid(), signal.SIGINT)
        assert stopper.first_signal == signal.SIGINT


def test_an_ignored_signal_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Stopper():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
