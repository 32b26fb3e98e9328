"""Recipes name functions for what the trainer itself does not pay."""

import pytest
from rich.console import Console

import arena_envs
from arena_trainers.recipes.columns import mars_length, mars_valid, spiral_forfeit
from arena_trainers.runs import SelfPlayRun, load_recipe
from arena_trainers.train import load_functions
from arena_wrappers import PromptWrapper, ScriptedPolicy, play
from arena_wrappers.records import Turn


def kuhn():
    return PromptWrapper(arena_envs.make("kuhn_poker"), "bare", rules=False)


def test_a_valid_reply_earns_a_bonus_and_an_invalid_one_none():
    players = [ScriptedPolicy(["pass", "what"]), ScriptedPolicy(["bet"])]
    (episode,) = play(kuhn, players, [0])
    paid = [mars_valid(episode, turn, None) for turn in episode.turns]
    assert paid == [0.05, 0.05, 0.0]


@pytest.mark.parametrize(
    ("length", "paid"), [(1, 0.0), (2048, 0.0), (2049, -0.5 / 2037), (4085, -0.5)]
)
def test_tokens_beyond_2048_cost(length, paid):
    turn = Turn(0, 0, "x", [], [], "", 0, None, None, token_ids=[0] * length)
    assert mars_length(None, turn, None) == pytest.approx(paid)


def test_a_forfeit_pays_the_other_seat_at_its_last_turn():
    players = [ScriptedPolicy(["pass", "what"]), ScriptedPolicy(["bet"])]
    (episode,) = play(kuhn, players, [0])
    assert episode.forfeited_by == 0
    assert [spiral_forfeit(episode, t, None) for t in episode.turns] == [0, -1.5, 0]
    (fair,) = play(kuhn, [ScriptedPolicy(["bet"]), ScriptedPolicy(["pass"])], [0])
    assert [spiral_forfeit(fair, t, None) for t in fair.turns] == [0, 0]


@pytest.mark.parametrize("recipe", ["marshal", "spiral"])
def test_a_recipe_pays_what_its_columns_give(recipe):
    settings = load_recipe(recipe)
    functions = load_functions(settings["columns"])
    parts = {name.removeprefix("rewards.") for name in functions}
    assert settings["part_weights"] == dict.fromkeys(parts, 1.0)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (3, "want columns.'rewards.x'. as 'module:function' or .reward: PATH., got 3"),
        ("mars_valid", "as 'module:function' or .reward: PATH., got 'mars_valid'"),
        (
            "no_such_module:f",
            "got 'no_such_module:f': there is no module 'no_such_module'",
        ),
        (
            "arena_trainers.recipes.columns:nothing",
            "the module has nothing of that name",
        ),
        ("arena_trainers.recipes.columns:SLOPE", "want a function of episode, turn"),
    ],
)
def test_a_column_that_names_no_function_is_refused_at_the_start(
    tmp_path, spec, reason
):
    settings = {"columns": {"rewards.x": spec}}
    with pytest.raises(ValueError, match=reason):
        SelfPlayRun(settings, tmp_path / "run", Console(quiet=True))
    assert not (tmp_path / "run").exists()
