"""One command: a vLLM server on a CPU, and two processes that split the weights."""

import json
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

from arena_envs.extras import is_installed

if not is_installed("vllm"):
    pytest.skip(
        "needs vLLM in an environment of its own: make scale", allow_module_level=True
    )

from arena_trainers.runs.checks.preflight import read_options
from arena_trainers.runs.launch import launch
from arena_trainers.runs.mappings import nested

HERE = Path(__file__).parent
RUNS = HERE.parent / "trainers" / "runs"
PLAYED = SimpleNamespace(**runpy.run_path(str(HERE.with_name("played_by_vllm.py"))))
WITH_STAND_IN = SimpleNamespace(**runpy.run_path(str(RUNS / "test_launch.py")))


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("ahead", [False, True])
def test_one_command_trains_with_a_server_and_two_processes(tmp_path, ahead):
    PLAYED.save_model(tmp_path / "model")
    settings = WITH_STAND_IN.settings_of(
        tmp_path / "model", WITH_STAND_IN.free_port()
    ) | {"max_completion_length": 3, "vllm_max_model_length": 512}
    settings |= {"on_invalid": "random", "learning_rate": 1e-2}
    if ahead:
        settings |= WITH_STAND_IN.AHEAD
    recipe, run = tmp_path / "recipe.yaml", tmp_path / "run"
    recipe.write_text(json.dumps(nested(settings)))
    job, args = read_options(settings)
    arguments = [str(recipe), "--output-dir", str(run)]
    status = launch(
        job,
        args,
        arguments,
        run,
        print,
        serve=[str(HERE / "launch_server.py")],
        train=[str(RUNS / "launch_script.py"), "train"],
    )
    assert status == 0, (tmp_path / "run.server.log").read_text()[-3000:]
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    steps = [record for record in lines if "loss" in record]
    assert [r["step"] for r in steps] == [*range(1, settings["max_steps"] + 1)]
    if not ahead:
        assert all(record[PLAYED.DIFFERENCE] < 1e-5 for record in steps)
    kinds = [(tmp_path / f"rank{n}.txt").read_text() for n in (0, 1)]
    assert kinds == ["DTensor", "DTensor"]  # split
