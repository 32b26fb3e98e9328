"""Two commands at once never go on with the same folder or file."""

import json

import pytest
import yaml

from arena_trainers.checkpoint import files_of, write_manifest
from arena_trainers.runs.folder import write_config
from arena_trainers.runs.mappings import nested
from arena_trainers.runs.recipe import load_recipe
from arena_trainers.runs.resuming import read_run

REFUSED = "one command at a time, but process 7 on host goes on with it"


def run_folder(path, settings):
    """A run that stopped after its first step, without weights."""
    checkpoint = path / "checkpoint-1"
    checkpoint.mkdir(parents=True)
    (checkpoint / "trainer_state.json").write_text(json.dumps({"global_step": 1}))
    write_manifest(checkpoint, files_of(checkpoint), processes=1)
    write_config(path, yaml.safe_dump(nested(settings)))
    return path


@pytest.mark.parametrize(
    "settings",
    [
        load_recipe("kuhn-tiny"),
        {"trainer": "sft", "data": "rows.parquet", "max_steps": 2},
        load_recipe("kuhn-dagger"),
    ],
    ids=["self-play", "rows", "rounds"],
)
def test_a_second_resume_is_refused_whatever_the_run(
    arena_here, tmp_path, elsewhere, settings
):
    folder = run_folder(tmp_path / "run", settings)
    before = sorted(folder.rglob("*"))
    with elsewhere(folder, is_folder=True):
        done = arena_here("train", "--resume", folder)
    assert done.returncode == 2
    assert REFUSED in " ".join(done.stderr.split())
    assert sorted(folder.rglob("*")) == [*before]


@pytest.mark.parametrize(
    ("words", "name", "is_folder"),
    [
        ("train --output-dir OUT", "OUT", True),
        ("bench sweep kuhn-tiny --vary max_steps=1 --output-dir OUT", "OUT", True),
        ("eval random kuhn_poker -n 1 --out OUT.jsonl", "OUT.jsonl", False),
        (
            "compare random constant:0 --games kuhn_poker -n 2 --out OUT.jsonl",
            "OUT.jsonl",
            False,
        ),
        ("play kuhn_poker --out OUT.jsonl", "OUT.jsonl", False),
        (
            "bench tournament random constant:0 --games kuhn_poker -n 2 --out OUT",
            "OUT/results.jsonl",
            False,
        ),
        ("improve api:m@http://localhost:1/v1 kuhn_poker -n 2 --out OUT", "OUT", True),
        ("bench board run random --out OUT.jsonl --suite small", "OUT.jsonl", False),
    ],
    ids=lambda value: value.split()[0] if isinstance(value, str) else None,
)
def test_every_command_leaves_alone_what_another_one_writes(
    arena_here, tmp_path, elsewhere, words, name, is_folder
):
    with elsewhere(tmp_path / name, is_folder=is_folder):
        before = sorted(tmp_path.rglob("*"))
        done = arena_here(*words.split(), cwd=tmp_path)
        after = sorted(tmp_path.rglob("*"))
    assert done.returncode == 2, done.stderr
    assert REFUSED in " ".join(done.stderr.split())
    assert after == before


def test_a_run_can_be_resumed_after_its_process_was_killed(tmp_path):
    folder = run_folder(tmp_path / "run", {"max_steps": 3})
    (folder / ".lock").write_text("process 1 on host")
    assert read_run(folder)["max_steps"] == 3
