"""Runs in trackio and W&B have the name of their folder, offline."""

import sqlite3
import subprocess
import sys

import pytest

RUN = [sys.executable, "-m", "arena_trainers", "train", "--hidden_size", "16"]
RUN += ["--num_layers", "1", "--warm_start_steps", "5", "--episodes_per_step", "8"]
RUN += ["--max_steps", "2", "--num_generations", "2", "--credit_args", "{}"]
RUN += ["--evaluate_every", "0", "--logging_steps", "1", "--eval_episodes", "5"]


def log_to(name, folder, monkeypatch, **environment):
    for key, value in {"HF_HUB_OFFLINE": "1", **environment}.items():
        monkeypatch.setenv(key, value)
    command = [*RUN, "--report_to", name, "--output-dir", str(folder / "first")]
    subprocess.run(command, check=True, cwd=folder, timeout=300)


@pytest.mark.slow
def test_a_trackio_run_is_named_after_its_folder(tmp_path, monkeypatch):
    pytest.importorskip("trackio")
    log_to("trackio", tmp_path, monkeypatch, TRACKIO_DIR=str(tmp_path / "trackio"))
    with sqlite3.connect(tmp_path / "trackio" / "arena-envs.db") as database:
        names = database.execute("select distinct run_name from metrics").fetchall()
    assert names == [("first",)]


@pytest.mark.slow
def test_a_wandb_run_is_named_after_its_folder(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    log_to("wandb", tmp_path, monkeypatch, WANDB_MODE="offline")
    (record,) = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    written = record.read_bytes()
    # fields 3 and 8 of W&B's RunRecord, with their lengths: project and name
    assert b"\x1a\x0aarena-envs" in written
    assert b"\x42\x05first" in written
