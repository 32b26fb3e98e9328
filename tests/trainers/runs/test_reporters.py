"""Experiment tracking, offline: names of runs, metrics, and turns with their credit."""

import json
import sqlite3
import subprocess
import sys

import pytest

from arena_eval.rollouts import Rollout, TurnCredit, read_rollouts
from arena_trainers.runs.callbacks.tracking import (
    MAX_TRACED_EPISODES,
    markdown_table,
    traces_of,
)
from arena_wrappers import ScriptedPolicy, play

RUN = [sys.executable, "-m", "arena_trainers", "train", "--tiny.hidden_size", "16"]
RUN += ["--warm_start.episodes", "100"]
RUN += ["--tiny.num_layers", "1", "--warm_start.steps", "5", "--episodes_per_step", "8"]
RUN += ["--max_steps", "2", "--num_generations", "2", "--credit_args", "{}"]
RUN += [
    "--evaluate_every",
    "0",
    "--logging_steps",
    "1",
    "--callbacks.eval_episodes",
    "5",
]


def log_to(name, folder, monkeypatch, **environment):
    for key, value in {"HF_HUB_OFFLINE": "1", **environment}.items():
        monkeypatch.setenv(key, value)
    command = [*RUN, "--report_to", name, "--output-dir", str(folder / "first")]
    subprocess.run(command, check=True, cwd=folder, timeout=300)


def turns_of(folder):
    """(step, reply, reward, advantage) of each turn that is tracked, from the record."""
    return [
        (step, turn["messages"][-1]["content"], told["reward"], told["advantage"])
        for step in (1, 2)
        for turn in traces_of(
            [*read_rollouts(folder / "first" / "rollouts" / f"step-{step}.jsonl")], step
        )
        for told in [turn["metadata"]]
    ]


def test_turns_of_players_have_no_effect_in_markdown():
    attack = "<img src=x onerror=alert(1)> | `x` \n[a](b) **c**"
    policies = [ScriptedPolicy([attack]), ScriptedPolicy(["pass"])]
    (episode,) = play("kuhn_poker", policies, [0])
    credit = TurnCredit("mars", [0.5, -0.25])
    found = traces_of([Rollout(episode, [credit])] * (MAX_TRACED_EPISODES + 1), 7)
    assert len(found) == MAX_TRACED_EPISODES
    assert found[0]["metadata"]["advantage"] == 0.125
    table = markdown_table(found)
    assert len(table.splitlines()) == 2 + MAX_TRACED_EPISODES
    assert all(line.count("|") == 11 for line in table.splitlines())
    assert not set("<>`[*") & set(table.replace("<br>", ""))
    assert "&#60;img src&#61;x" in table
    assert "| +0.125 | mars |" in table
    trace = found[0]
    assert trace["messages"][-1] == {"role": "assistant", "content": attack}
    assert trace["metadata"]["step"] == 7
    assert trace["metadata"]["reward"] == episode.turns[0].reward


@pytest.mark.slow
def test_tensorboard_has_the_metrics_and_a_table_of_turns(tmp_path, monkeypatch):
    events = "tensorboard.backend.event_processing.event_accumulator"
    reader = pytest.importorskip(events)
    log_to("tensorboard", tmp_path, monkeypatch)
    (folder,) = tmp_path.glob("first/runs/*")
    found = reader.EventAccumulator(str(folder)).Reload()
    lines = (tmp_path / "first" / "metrics.jsonl").read_text().splitlines()
    logged = [record for record in map(json.loads, lines) if "loss" in record]
    for number, record in enumerate(logged):
        for name, value in record.items():
            if name != "step" and value is not None:
                scalar = found.Scalars(f"train/{name}")[number]
                assert (scalar.step, scalar.value) == (
                    record["step"],
                    pytest.approx(value, rel=1e-5),
                )
    tables = [
        entry.tensor_proto.string_val[0].decode()
        for entry in found.Tensors("turns/text_summary")
    ]
    rows = [line.split(" | ") for table in tables for line in table.splitlines()[2:]]
    shown = [(row[6], row[7]) for row in rows]
    turns = turns_of(tmp_path)
    assert shown == [(f"{turn[2]:g}", f"{turn[3]:+.4g}") for turn in turns]


@pytest.mark.slow
def test_trackio_has_the_metrics_and_a_trace_of_each_turn(tmp_path, monkeypatch):
    pytest.importorskip("trackio")
    log_to("trackio", tmp_path, monkeypatch, TRACKIO_DIR=str(tmp_path / "trackio"))
    with sqlite3.connect(tmp_path / "trackio" / "arena-envs.db") as database:
        traces = database.execute("select messages, metadata from traces").fetchall()
        metrics = database.execute("select metrics from metrics").fetchall()
        names = database.execute("select distinct run_name from metrics").fetchall()
    assert names == [("first",)]  # of the folder
    shown = []
    for messages, metadata in ((json.loads(m), json.loads(d)) for m, d in traces):
        reply = messages[-1]["content"]
        values = metadata["step"], reply, metadata["reward"], metadata["advantage"]
        shown.append(values)
    assert sorted(shown) == sorted(turns_of(tmp_path))
    lines = (tmp_path / "first" / "metrics.jsonl").read_text().splitlines()
    record = next(r for r in map(json.loads, lines) if "loss" in r)
    logged = [json.loads(entry) for (entry,) in metrics]
    entry = next(entry for entry in logged if "train/loss" in entry)
    assert entry["train/arena/kuhn_poker/player_0/return"] == pytest.approx(
        record["arena/kuhn_poker/player_0/return"]
    )


@pytest.mark.slow
def test_a_wandb_run_is_named_after_its_folder(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    log_to("wandb", tmp_path, monkeypatch, WANDB_MODE="offline")
    (record,) = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    written = record.read_bytes()
    # fields 3 and 8 of W&B's RunRecord, with their lengths: project and name
    assert b"\x1a\x0aarena-envs" in written
    assert b"\x42\x05first" in written
