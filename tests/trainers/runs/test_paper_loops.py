"""The loops of papers: each runs with a tiny model, and is else as its recipe says."""

import json

import pytest
from datasets import load_dataset
from rich.console import Console

from arena_trainers.runs import (
    Rounds,
    build_configs,
    check_stages,
    load_recipe,
    read_loop,
    recipes,
)
from arena_trainers.runs.checks.rounds import check_round_policies
from arena_trainers.train import GamePlan

LOOPS = [name for name in recipes() if "rounds" in load_recipe(name)]
TINY = {
    "model": "tiny",
    "hidden_size": 16,
    "num_layers": 1,
    "warm_start_steps": 80,
    "warm_start_episodes": 30,
    "warm_start_learning_rate": 1e-2,
    "games": [{"id": "nim", "params": {"pile_sizes": [1, 2]}}],
    "rules": False,
    "reply_format": "bare",
    "max_completion_length": 9,
    "use_cpu": True,
}
PLAY = {"episodes": 6}
FEW = {"num_train_epochs": 1, "batch_size": 8, "save_strategy": "no"}


def trimmed(name, num, **select):
    """A recipe of a loop with a tiny model, few episodes and `num` rounds."""
    recipe = load_recipe(name) | TINY
    rounds = recipe["rounds"] | {"num": num, "evaluate": {"episodes": 2}}
    for stage, changes in (("play", PLAY), ("select", select), ("train", FEW)):
        given = rounds[stage]
        is_list = isinstance(given, list)
        found = [one | changes for one in (given if is_list else [given])]
        rounds[stage] = found if is_list else found[0]
    return recipe | {"rounds": rounds}


def run(recipe, folder):
    job = Rounds(recipe, folder, Console(quiet=True))
    job.prepare()
    job.run()
    return [
        json.loads((folder / f"round-0{n}/selection.json").read_text())
        for n in range(recipe["rounds"]["num"])
    ]


def episodes_in(folder):
    lines = (folder / "episodes.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_is_a_configuration_as_it_stands(name, tmp_path):
    loop, start = read_loop(load_recipe(name))
    _, args = build_configs(start, str(tmp_path))
    check_round_policies(loop, [GamePlan(spec, args) for spec in args.games])
    for stages in loop.stages:
        check_stages(stages, tmp_path, {"use_cpu": True})


@pytest.mark.slow
def test_sirius_keeps_the_best_quarter_of_each_role(tmp_path):
    (found,) = run(trimmed("sirius", 1), tmp_path)
    assert found["dropped"] == {"below the top 25%": 8}  # 4 of 6 in each of two seats


@pytest.mark.slow
def test_optima_learns_from_groups_and_then_from_trees(tmp_path):
    recipe = trimmed("optima", 2)
    recipe["rounds"]["select"][0]["best_of_group"]["above"] = -1.0
    first, second = run(recipe, tmp_path)
    assert first["dropped"]["not the best of its group"] == 6 * 2 * 9
    assert second["rows"] > 0


@pytest.mark.slow
def test_agentevol_learns_from_the_expert_and_then_from_both(tmp_path):
    first, second = run(trimmed("agentevol", 2), tmp_path)
    played = [episodes_in(tmp_path / f"round-0{n}") for n in range(2)]
    names = [{t["policy"] for e in part for t in e["turns"]} for part in played]
    assert names == [{"minimax", "random"}, {"learner", "random"}]
    assert second["rows"] == first["rows"] + second["new"]


@pytest.mark.slow
def test_self_rewarding_trains_on_what_the_model_that_played_graded(tmp_path):
    recipe = trimmed("self-rewarding", 2)
    recipe |= {
        "temperature": 3.0,
        "top_p": 1.0,
    }  # the tiny model then also says numbers
    params = {"num_numbers": 5, "max_guesses": 2, "num_ranges": 1}
    recipe["games"] = [{"id": "guess_number", "params": params}]
    first, second = run(recipe, tmp_path)
    assert first["rows"] > 0
    assert second["rows"] > 0
    rows = load_dataset("parquet", data_files=str(tmp_path / "round-01/rows.parquet"))
    assert set(rows["train"]["reason"]) == {"graded by learner"}
