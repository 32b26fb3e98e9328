"""The page of the generalist: made from its data, with intervals, whatever was found."""

import json

import pytest

import generalist
from arena_wrappers import RandomPolicy
from comparing import read


def runs_of(values):
    """Runs of the generalist and the start, whose returns in each game are given by seed."""
    return {
        name: {
            seed: {
                game: {"returns": [value], "replies": 10, "invalid": 1}
                for game in generalist.TITLES
            }
            for seed, value in enumerate(found)
        }
        for name, found in values.items()
    }


def test_the_page_is_that_of_its_data():
    files = {
        "self-play.json": generalist.made_with(),
        "self-play-smollm2.json": generalist.lm_made_with(),
    }
    now = {}
    for name, made_with in files.items():
        found = json.loads((generalist.DOCS / name).read_text())["runs"]
        now |= read(generalist.DOCS / name, made_with)
        for setting, runs in found.items():
            assert {n: len(r) for n, r in now[setting].items()} == {
                n: len(r) for n, r in runs.items()
            }
    parts = (generalist.SETTING, *generalist.LM_CREDIT)
    page = (generalist.DOCS / generalist.PAGE).read_text()
    assert page == generalist.page(*(now[part] for part in parts))


def test_differences_are_paired_by_seed():
    runs = runs_of({"start": [0.0, 1.0, 5.0], "generalist": [1.0, 2.0, 6.0]})
    assert generalist.differences(runs, "generalist", "start", "nim") == (
        "**+1.000 ± 0.000**"
    )
    del runs["generalist"][0], runs["start"][2]
    assert generalist.differences(runs, "generalist", "start", "nim") == "-"


def test_a_missing_variant_leaves_its_cells_empty():
    page = generalist.page(
        runs_of({"start": [0.0, 1.0], "generalist": [0.0, 1.0]}), {}, {}
    )
    assert "| Nim | - | - | 0.500 | 0.500 | +0.000 ± 0.000 | - | - |" in page
    assert "than the start: better in none; worse in none" in page


def test_a_specialist_plays_as_many_episodes_of_its_game():
    whole = generalist.options_of("generalist", 0)
    shares = [
        generalist.options_of(n, 0)["episodes_per_step"] for n in generalist.TRAINED
    ]
    assert sum(shares) == whole["episodes_per_step"]
    assert all(share % whole["num_generations"] == 0 for share in shares)
    weights = {game["id"]: game["weight"] for game in whole["games"]}
    assert weights == generalist.TRAINED


@pytest.mark.slow
def test_random_play_is_legal_in_every_game_of_the_page(monkeypatch):
    monkeypatch.setattr(generalist, "NUM_DEALS", 2)
    found = generalist.measured(RandomPolicy(), 0)
    assert list(found) == list(generalist.TITLES)
    assert all(len(game["returns"]) == 2 for game in found.values())
    assert not any(game["invalid"] for game in found.values())
