"""Signals: the first ends a run at a checkpoint that resumes exactly, the second at once."""

import os
import signal
import sys

import pytest
import torch
from transformers import AutoModelForCausalLM, TrainerCallback

from arena_trainers.cli import main as cli
from arena_trainers.job.stopping import StopCallback, Stopped, Stopper
from arena_trainers.train.checkpoint import newest_checkpoint, step_of

OPTIONS = ["--hidden_size", "16", "--num_layers", "1", "--warm_start_steps", "5"]
OPTIONS += ["--warm_start_episodes", "100"]
OPTIONS += [
    "--episodes_per_step",
    "16",
    "--num_generations",
    "8",
    "--credit_args",
    "{}",
]
OPTIONS += ["--max_steps", "8", "--save_steps", "1000", "--evaluate_every", "0"]
OPTIONS += ["--logging_steps", "1", "--eval_episodes", "8", "--seed", "1"]
OPTIONS += ["--saved_groups", "0"]
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


@pytest.mark.filterwarnings("ignore::arena_trainers.credit.FlatPoolWarning")
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


@pytest.mark.filterwarnings("ignore::arena_trainers.credit.FlatPoolWarning")
def test_the_second_signal_stops_at_once(monkeypatch, tmp_path, capfd):
    folder = tmp_path / "run"
    signals = Signals(3, signal.SIGTERM, times=2)
    options = [*OPTIONS, *TWO, "--output-dir", folder]
    assert signalled(monkeypatch, signals, "train", *options) == 143
    assert newest_checkpoint(folder).checkpoint is None
    assert "stopped before the first checkpoint" in capfd.readouterr().err


def test_outside_of_training_the_first_signal_stops_at_once():
    with Stopper() as stopper:
        with pytest.raises(Stopped) as stopped:
            os.kill(os.getpid(), signal.SIGTERM)
        assert stopped.value.status == 143
        with stopper.waiting():
            os.kill(os.getpid(), signal.SIGINT)
        assert stopper.asked == signal.SIGINT


def test_an_ignored_signal_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Stopper():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
