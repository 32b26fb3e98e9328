"""Pairs of features that change who plays or what learns: the dry run and a real step agree."""

import itertools
import warnings

import pytest
from rich.console import Console

from arena_trainers.runs import SelfPlayRun, load_recipe
from arena_trainers.runs.checks.dry_run import plan_lines

SMALL = {
    **load_recipe("kuhn-tiny"),
    "beta": 0.0,
    "sync_ref_model": False,
    "hidden_size": 16,
    "num_layers": 1,
    "warm_start_steps": 0,
    "max_steps": 2,
    "episodes_per_step": 4,
    "num_generations": 2,
    "evaluate_every": 0,
    "eval_episodes": 1,
    "saved_episodes": 0,
    "save_steps": 2,
}
SEATS = {0: {}, 1: {}}
FEATURES = {
    "agent": {"agent": "planner_worker"},
    "roles": {"roles": SEATS},
    "update": {"roles": SEATS, "update": "sequential", "num_iterations": 2},
    "opponents": {"opponents": {"past_selves": {"every": 2}}},
    "curriculum": {"curriculum": {"horizon": {"horizons": [2, None], "steps": 1}}},
    "rewards": {"rewards": {"length": {"weight": -0.01}}},
    "columns": {
        "columns": {"rewards.x": "arena_trainers.recipes.columns:mars_valid"},
        "part_weights": {"x": 0.1},
    },
    "critic": {"critic": "features", "credit": "gae"},
    "losses": {"losses": {"kickstart": {"weight": 0.1, "teacher": "cfr"}}},
    "branch": {"branch": {"num_candidates": 2}, "credit": "at_grpo"},
    "asynchronous": {"asynchronous": {"max_staleness": 1}},
    "lora": {"lora_r": 2},
    "within_turn": {"within_turn": "entropy"},
    "trajectory": {"layout": "trajectory", "history": "transcript"},
    "moving_reference": {"sync_ref_model": True, "beta": 0.1},
}
PAIRS = [*itertools.combinations(FEATURES, 2)]
FAST = [
    *(("agent", other) for other in ("roles", "opponents", "critic", "branch")),
    *(("roles", other) for other in ("critic", "moving_reference")),
    *(("asynchronous", "update"), ("branch", "trajectory")),
]


def pair_of(one, other, model):
    """The settings of both features; an agent's learners are its roles."""
    settings = {**SMALL, "model": str(model), **FEATURES[one], **FEATURES[other]}
    if "agent" in settings and "roles" in settings:
        settings["roles"] = {"planner": {}, "worker": {}}
    return settings


def refusals(settings, folder):
    """What the dry run refuses."""
    try:
        return plan_lines(settings, folder)[1]
    except ValueError as error:
        return [" ".join(str(error).split())]


def problem_of(settings, folder, *, whole):
    """What a run of two steps with a checkpoint refuses before its first step, if anything.

    Raises:
        Exception: it fails later, or with something other than a sentence.
    """
    try:
        run = SelfPlayRun(settings, folder, Console(quiet=True))
    except ValueError as error:
        return " ".join(str(error).split())
    if whole:
        run.prepare()
        run.run()
    else:  # without evaluations
        folder.mkdir()
        run.meters = []
        run.make_trainer()
        run.trainer.train()
    assert (folder / "checkpoint-2").is_dir()
    return None


def check(one, other, model, folder, *, whole):
    settings = pair_of(one, other, model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of such small batches
        refused = refusals(settings, folder / "dry")
        problem = problem_of(settings, folder / "run", whole=whole)
    if problem is None:
        assert refused == []
    else:
        assert problem in refused


@pytest.mark.parametrize(("one", "other"), FAST)
def test_the_dry_run_refuses_what_a_run_refuses(one, other, model_folder, tmp_path):
    check(one, other, model_folder, tmp_path, whole=False)


@pytest.mark.slow
@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_each_pair_is_refused_at_the_start_or_runs(one, other, model_folder, tmp_path):
    check(one, other, model_folder, tmp_path, whole=True)
