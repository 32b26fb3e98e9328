"""Recipes of papers that play, select and train: each fits as it stands, and runs with a tiny model."""

import copy
import re
from pathlib import Path

import pytest
from rich.console import Console

from arena_trainers.job.settings import load_recipe
from arena_trainers.loops.checks import checked
from arena_trainers.loops.job import LoopJob
from arena_trainers.loops.settings import read_loop
from arena_wrappers import read_episodes

PAPERS = ["agent-q", "agent-r", "eto", "steve"]
DOCS = Path(__file__).parents[3] / "docs" / "papers.md"
SMALL = {
    "model": "tiny",
    "hidden_size": 16,
    "num_layers": 1,
    "games": ["kuhn_poker"],
    "rules": False,
    "reply_format": "bare",
    "use_cpu": True,
    "max_completion_length": 12,
}
WARM = {"warm_start_steps": 20, "warm_start_episodes": 40}  # candidates must play on


def listed(stage):
    """The options of a stage: one mapping for each element, if it is a list."""
    return stage if isinstance(stage, list) else [stage]


def smaller(name):
    """A recipe for Kuhn poker and a tiny model: two rounds of ETO, one of the others."""
    settings = copy.deepcopy(load_recipe(name)) | SMALL
    rounds = settings["rounds"]
    rounds |= {"num": 2 if name == "eto" else 1, "evaluate": {"episodes": 2}}
    for play in listed(rounds["play"]):
        play["episodes"] = 6
        if "policies" in play:
            bots = {"sokoban_search": "cfr"}
            play["policies"] = [bots.get(p, p) for p in play["policies"]]
    for select in listed(rounds["select"]):
        if "solver" in select:
            select["solver"] = "cfr"
    for train in listed(rounds["train"]):
        train |= {"max_steps": 1, "batch_size": 8, "bf16": False}
        train["gradient_checkpointing"] = False
    return settings


@pytest.mark.parametrize("name", PAPERS)
def test_the_stages_of_a_recipe_fit_together_as_they_stand(name, tmp_path):
    """For a graphics card: bfloat16, which a check without one leaves out."""
    loop, start = read_loop(load_recipe(name))
    assert start["model"].startswith("models/Qwen3-")
    assert len(loop.stages) in (1, loop.num)
    for stages in loop.stages:
        assert stages.train.pop("bf16")
        assert checked(stages, tmp_path, {}).train["num_train_epochs"] > 0


@pytest.mark.parametrize(
    ("name", "warm_start"),
    [
        ("eto", {}),
        ("steve", {}),
        pytest.param("agent-q", WARM, marks=pytest.mark.slow),
        pytest.param("agent-r", WARM, marks=pytest.mark.slow),
    ],
)
def test_a_recipe_runs_with_a_tiny_model(name, warm_start, tmp_path):
    settings = smaller(name) | warm_start
    job = LoopJob(settings, tmp_path / "run", Console(quiet=True))
    job.prepare()
    rounds = job.run()["rounds"]
    assert [entry["rows"] is None for entry in rounds] == [True] + [
        False
    ] * job.loop.num
    if name == "eto":
        cloned, explored = (seeds_by_policy(job.folder, number) for number in range(2))
        assert explored["learner"] == explored["cfr"]
        assert not explored["cfr"] & cloned["cfr"]


def seeds_by_policy(folder, number):
    """The seeds that each policy played in a round."""
    found = {}
    for one in read_episodes(folder / f"round-0{number}" / "episodes.jsonl"):
        found.setdefault(one.turns[0].policy, set()).add(one.seed)
    return found


@pytest.mark.parametrize("name", PAPERS)
def test_the_page_names_the_settings_of_the_recipe(name):
    """Numbers of the page's tables are those of the recipe."""
    section = DOCS.read_text().split(f"recipe `{name}`")[1].split("\n## ")[0]
    recipe = load_recipe(name)
    options = [recipe, recipe["rounds"]]
    for stage in ("play", "select", "train"):
        options += listed(recipe["rounds"][stage])
    quoted = re.findall(r"`(\w+): ([^`]+)`", section)
    assert len(quoted) >= 5
    for key, value in quoted:
        assert value in {str(given[key]) for given in options if key in given}, key
