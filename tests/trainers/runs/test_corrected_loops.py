"""The loops of papers that learn from pairs, labels or corrections: each runs with a tiny model."""

import copy

import pytest
from rich.console import Console

from arena_trainers.runs import Rounds, load_recipe
from arena_wrappers import read_episodes

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
        if "solver_labels" in select:
            select["solver_labels"]["solver"] = "cfr"
    for train in listed(rounds["train"]):
        train |= {"max_steps": 1, "batch_size": 8, "bf16": False}
        train["gradient_checkpointing"] = False
    return settings


@pytest.mark.parametrize(
    ("name", "warm_start"),
    [
        ("eto", {}),
        pytest.param("steve", {}, marks=pytest.mark.slow),
        pytest.param("agent-q", WARM, marks=pytest.mark.slow),
        pytest.param("agent-r", WARM, marks=pytest.mark.slow),
    ],
)
def test_a_recipe_runs_with_a_tiny_model(name, warm_start, tmp_path):
    settings = smaller(name) | warm_start
    job = Rounds(settings, tmp_path / "run", Console(quiet=True))
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
