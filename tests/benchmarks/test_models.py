"""The comparison with a language model: what is run, and how it is written."""

import pytest

import comparing
import credit_bench
import credit_runs
from arena_trainers.cli.train_request import recipe_and_overrides
from arena_trainers.runs import build_configs, load_recipe
from arena_trainers.runs.recipe import DEFAULT_RECIPE
from arena_trainers.train import GamePlan
from credit_bench import model_comparisons
from credit_runs import COMPARED, MODELS, ModelSetting, Run
from credit_settings import SETTINGS, variants


def results(**levels):
    """NashConv of .5 + seed / 100, or another level by variant."""
    return {
        "kuhn_model": {
            name: {
                s: Run([levels.get(name, 0.5) + s / 100] * 4, None, None, None)
                for s in range(5)
            }
            for name in COMPARED
        }
    }


def test_estimators_are_compared_over_equal_pools():
    assert set(COMPARED) <= set(variants())
    for pair in credit_runs.MODEL_PAIRS:
        pools = {variants()[name].all_options["pool"] for name in pair}
        assert len(pools) == 1
        assert set(pair) <= set(COMPARED)


@pytest.mark.parametrize("setting", MODELS)
def test_a_run_is_a_command_line_of_arena_train(setting):
    line = credit_runs.command(setting, "mars (group, seat, turn)", 3, "folder")
    recipe, options = recipe_and_overrides(line[4:])
    trained = load_recipe(recipe or DEFAULT_RECIPE) | options
    game = GamePlan(trained["games"][0], build_configs(trained, "folder")[1]).id
    assert options["credit"] == "mars"
    assert options["credit_args"] == {"pool": ["group", "seat", "turn"]}
    assert options["seed"] == 3
    assert game.startswith(setting.removesuffix("_model"))
    published = recipe_and_overrides(
        credit_runs.command(setting, "mars", 0, "folder")[4:]
    )[1]
    assert published["credit_args"] == {"pool": ["game", "seat"]}


def test_a_model_is_trained_only_by_the_compared_variants_and_five_seeds():
    todo = credit_runs.missing({}, list(variants()), list(MODELS), 10)
    assert len(todo) == 3 * 5 * len(COMPARED)
    assert {seed for _, _, seed in todo} == set(range(5))
    assert not set(MODELS) & set(SETTINGS)


def test_runs_of_a_model_are_kept_with_their_settings(tmp_path, monkeypatch):
    path = tmp_path / "bench.json"
    credit_runs.write_runs(path, results())
    assert credit_runs.read_runs(path) == results()
    monkeypatch.setitem(MODELS, "kuhn_model", ModelSetting("Kuhn", ("-x",), "metric"))
    assert credit_runs.read_runs(path) == {}


def test_the_page_says_how_many_seeds_a_difference_needs():
    """.01 apart with deviation √.00025 each: 7.849 · .0005 / .0001 = 39.2 seeds."""
    text = credit_bench.text(results(episode=0.51))
    assert "### Kuhn poker, tiny model" in text
    assert "Gain of `mars (group, seat)` over `episode`: +0.010 ± 0.023" in text
    assert "size with power 80 %: 40." in text
    assert (
        "`mars` over `episode (game, seat)`: +0.000 ± 0.023. The means are equal."
        in text
    )
    assert comparing.seeds_needed([1.0, 2.0], [1.0, 2.0]) is None


def test_the_guide_has_what_was_measured_with_a_model():
    text = credit_bench.guide(results(episode=0.6))
    gain = "- Kuhn poker, tiny model: gain of mars over episode (game, seat): +0.000"
    assert gain in text
    assert "all figures are of tabular policies" not in text
    assert "all figures are of tabular policies" in credit_bench.guide({})


def test_missing_runs_of_a_model_are_named_and_nothing_is_compared():
    known = results(episode=0.6)
    del known["kuhn_model"]["episode"][2]
    (compared,) = model_comparisons(known)
    assert compared.missing == {"episode": [2]}
    assert compared.gains == {}
    text = credit_bench.text(known)
    assert "- Kuhn poker, tiny model: 1 run (seeds by variant): `episode` 2" in text
    assert "over `episode`:" not in text


@pytest.mark.slow
def test_a_tiny_model_is_measured(monkeypatch):
    short = ModelSetting("Kuhn poker", ("--max_steps", "20"), "arena/nash_conv")
    monkeypatch.setitem(MODELS, "kuhn_model", short)
    result = credit_runs.train("kuhn_model", "mars (group, seat, turn)", 0)
    assert len(result.curve) == 2
    assert all(0 < value < 2 for value in result.curve)
