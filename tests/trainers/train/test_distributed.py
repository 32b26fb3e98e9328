"""Two processes compute what one computes."""

import json
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).parent / "ddp_script.py"


SETTINGS = {
    "mars": {"credit": "mars"},
    "rae": {"credit": "rae", "beta": 0.1, "max_tokens_per_forward": 70},
    "entropies": {
        "credit": "aepo",
        "credit_args": {"entropy_pool": ["game", "state_key"], "strength": 0.01},
    },
    "critic": {"credit": "gae", "critic": "features"},
    "matched": {
        "credit": "mars",
        "opponents": {
            "mixture": {
                "weights": {"self": 1, "psro": 3},
                "options": {"psro": {"every": 1, "num_matches": 2}},
            }
        },
    },
    "rows": {"credit": "mars", "loss_type": "grpo"},
    "filtered": {"credit": "mars", "flat_groups": "drop", "max_replays": 1},
    "taught": {
        "credit": "mars",
        "games": [
            {"id": "kuhn_poker", "opponents": ["self", "random"]},
            {
                "id": "kuhn_poker",
                "params": {"num_players": 3},
                "opponents": ["self", "random", "random"],
            },
        ],
        "curriculum": "band",
    },
    "judge": {"credit": "adca"},
    "scored": {"credit": "counterfactual"},
    "exact": {"credit": "counterfactual", "critic": "exact"},
    "trees": {
        "credit": "at_grpo",
        "credit_args": {"discount": 1.0},
        "branch": {"num_candidates": 2, "follow": "best"},
        "temperature": 2.0,
    },
    "roles": {
        "agent": "planner_worker",
        "roles": {"planner": {"lora_r": 2}, "worker": {"lora_r": 3}},
        "update": "sequential",
        "num_iterations": 2,
        "max_tokens_per_forward": 70,
    },
    "trajectories": {
        "layout": "trajectory",
        "weighting": "turn",
        "history": "transcript",
    },
}


QUICK = ("rae", "critic", "filtered")
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
SLOW = tuple(name for name in SETTINGS if name not in QUICK)


def run_here(model, out, names):
    """The records of this process, by name of the settings."""
    train = runpy.run_path(str(SCRIPT))["train"]
    for name in names:
        (out / name).mkdir(parents=True)
        train(model, out / name, SETTINGS[name])
    return records(out, names)


def run_two(model, out, names, launcher):
    """The records of two processes, by name of the settings."""
    for name in names:
        (out / name).mkdir(parents=True)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    settings = json.dumps({name: SETTINGS[name] for name in names})
    done = subprocess.run(
        [sys.executable, *launcher, str(SCRIPT), str(model), str(out), settings],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return records(out, names)


def records(out, names):
    return {
        name: [
            json.loads(path.read_text()) for path in sorted(out.glob(f"{name}/rank*"))
        ]
        for name in names
    }


def check_groups(two, expected, tolerance):
    """Every process has the training groups that one process writes."""
    assert expected
    for record in two:
        assert [g[:4] for g in record["groups"]] == [g[:4] for g in expected]
        for (*_, found), (*_, wanted) in zip(record["groups"], expected, strict=True):
            assert [x is None for x in found] == [x is None for x in wanted]
            for one, other in zip(found, wanted, strict=True):
                if one is not None:
                    np.testing.assert_allclose(one, other, atol=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize(("names", "launcher"), [(QUICK, []), (SLOW, TORCHRUN)])
def test_two_processes_give_the_advantages_of_one(
    model_folder, reward_folder, tmp_path, names, launcher
):
    """All settings in one launch: most of the time is what processes take to start."""
    shutil.copytree(reward_folder, f"{model_folder}-reward", dirs_exist_ok=True)
    one = run_here(model_folder, tmp_path / "one", names)
    two = run_two(model_folder, tmp_path / "two", names, launcher)
    for name in names:
        (alone,) = one[name]
        hold_alike(name, alone, two[name])


def hold_alike(name, one, two):
    # entropies of a token and scores differ by rounding with the rows beside them
    tolerance = {"entropies": 1e-4, "scored": 1e-5}.get(name, 1e-12)
    assert [record["processes"] for record in two] == [2, 2]
    # the same episodes against the same opponents, half of them on each process
    assert two[0]["replies"] + two[1]["replies"] == one["replies"]
    seats = zip(two[0]["seats"], two[1]["seats"], strict=True)
    assert [first + second for first, second in seats] == one["seats"]
    assert [record["matches"] for record in two] == [one["matches"]] * 2
    for record in two:
        for column in ("episode", "seat", "turn"):
            assert record[column] == one[column]
        np.testing.assert_allclose(
            record["advantage"], one["advantage"], atol=tolerance
        )
    check_groups(two, one["groups"], tolerance)
    own = two[0]["own"] + two[1]["own"]
    np.testing.assert_allclose(own, one["own"], rtol=1e-6, atol=tolerance)
    if name != "trajectories":  # where other tokens stand between, and weights differ
        expected = one["advantage"]
        if len(expected) == len(one["turn"]):
            expected = np.repeat(expected, one["num_tokens"])
        expected = np.array(expected)[np.repeat(one["unselected"], one["num_tokens"])]
        np.testing.assert_allclose(own, expected, rtol=1e-6, atol=tolerance)
    # the loss is a mean over all tokens, in however many chunks they run
    assert two[0]["grad_norm"] == pytest.approx(one["grad_norm"], rel=1e-4)
    # every process trains the same number of rows and ends with the same weights
    assert two[0]["num_rows"] == two[1]["num_rows"]
    assert two[0]["weights"] == two[1]["weights"]
    assert two[0]["critic"] == two[1]["critic"]
    if name == "roles":  # 1 % of a step
        for record in two:
            np.testing.assert_allclose(record["adapters"], one["adapters"], atol=1e-6)
    if name in ("critic", "exact"):
        np.testing.assert_allclose(two[0]["critic"], one["critic"], atol=1e-6)
        assert any(one["critic"])
