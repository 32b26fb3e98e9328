"""The guide: kinds of games, and advice that has its figures."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from arena_envs import make_game
from arena_trainers.bench import guide, runs, variants
from arena_trainers.bench.comparison import comparisons
from arena_trainers.bench.facts import Facts, facts_of
from arena_trainers.bench.learning import Run
from arena_trainers.bench.settings import SETTINGS
from arena_trainers.bench.variants import Variant
from arena_trainers.cli.main import app

DOCS = Path(__file__).parents[3] / "docs" / "credit"
BETTER = "mars (group, seat, turn)"


def results(*settings, **levels):
    """NashConv or score of .5 + seed / 100, or another level by variant."""
    return {
        setting: {
            name: {
                s: Run([levels.get(name, 0.5) + s / 100] * 4, None, None, None)
                for s in range(10)
            }
            for name in variants.runnable(setting)
        }
        for setting in settings
    }


@pytest.mark.parametrize(
    ("game", "facts"),
    [
        ("kuhn_poker", Facts(2, False, 2, False, True, True)),
        ("rock_paper_scissors", Facts(2, False, 1, False, False, False)),
        ("mini_hanabi", Facts(2, True, 4, True, True, True)),
        ("iterated_prisoners_dilemma", Facts(2, False, 10, True, False, False)),
        ("blackjack", Facts(1, False, 3, False, True, True)),
        ("bargaining", Facts(2, False, 6, False, True, True)),
    ],
)
def test_random_play_finds_the_kind_of_a_game(game, facts):
    assert facts_of(make_game(game)) == facts


def test_goofspiel_by_round_pays_on_the_way():
    assert facts_of(SETTINGS["goofspiel"].game()).on_the_way
    assert not facts_of(make_game("goofspiel")).on_the_way


def test_the_best_of_the_crossing_is_taken_only_if_it_is_significantly_better():
    for level, take in ((0.3, BETTER), (0.499, "mars")):
        known = results("kuhn", **{BETTER: level, "counterfactual": 0.1})
        found = guide.advice_of(comparisons(known)[0])
        assert found == guide.Advice(take, lead=BETTER, best=BETTER)


def test_an_estimator_outside_of_the_crossing_is_the_best_of_all_only():
    found = guide.advice_of(comparisons(results("kuhn", rae=0.1))[0])
    assert found.best == "rae"
    assert found.take == "mars"


def test_no_advice_follows_from_missing_runs():
    known = results("kuhn", **{BETTER: 0.3})
    del known["kuhn"]["rae"][9]
    kuhn = comparisons(known)[0]
    assert guide.advice_of(kuhn) is None
    text = guide.page(known)
    assert "| Kuhn poker | no result: 1 run is missing" in text
    lines = guide.suggest([("kuhn_poker", make_game("kuhn_poker"))], known)
    assert any("No result: 1 run is missing" in line for line in lines)
    assert not any("Take" in line for line in lines)


def test_the_page_has_a_figure_for_its_advice():
    text = guide.page(results("kuhn", **{BETTER: 0.3}))
    cells = (
        "`credit: mars, credit_args: {pool: [group, seat, turn]}` | **+0.200** ± 0.028"
    )
    assert cells in text
    assert "pool (group, seat) → (group, seat, turn): **+0.200** ± 0.028" in text


def test_suggestions_are_of_the_game_itself_or_of_the_nearest():
    known = results("kuhn", "leduc", "liars_dice", **{BETTER: 0.3})
    rules = [("kuhn_poker", make_game("kuhn_poker")), ("nim", make_game("nim"))]
    text = "\n".join(guide.suggest(rules, known, used="mars_loo", group=8))
    own, other = text.split("nim: ")
    assert own.count("Measured on") == 1
    assert "Measured on Kuhn poker (groups of 8), the same game." in own
    assert "Take credit: mars, credit_args: {pool: [group, seat, turn]}" in own
    assert "Gain over mars (game, seat): +0.200 ± 0.028, p < 0.001" in own
    assert "The recipe's mars_loo gains +0.000 ± 0.028, p 1.000" in own
    assert other.count("which differs by: with chance") == 3
    assert "with chance, up to 2 turns per seat." in other
    assert (
        "Choice pool (group, seat) → (group, seat, turn): +0.200 ± 0.028, p < 0.001"
        in own
    )
    assert "Choices without a significant gain (p >= 0.05): 8" in own
    assert "games without chance" in other


def sources(game, group):
    """Where the advice on a game was measured."""
    known = {"kuhn": {"mars": {0: Run([0.5], None, None, None)}}}
    lines = guide.suggest([(game, make_game(game))], known, None, group)
    return [line.strip() for line in lines if "Measured on" in line]


def test_the_size_of_the_groups_decides_where_it_was_measured():
    large = "Measured on Kuhn poker (groups of 8), the same game."
    small = "Measured on Kuhn poker, small groups (groups of 2), the same game."
    assert sources("kuhn_poker", 16) == [large]
    assert sources("kuhn_poker", 4) == [small]
    assert sources("kuhn_poker", None) == [large, small]


def test_a_game_measured_with_other_groups_comes_with_the_nearest_game():
    assert sources("leduc_poker", 2) == [
        "Measured on Kuhn poker, small groups (groups of 2).",
        "Measured on Leduc poker (groups of 8), the same game, which differs by: "
        "groups of 8.",
    ]


def test_a_game_with_one_turn_per_seat_is_measured_on_one():
    assert sources("signaling", 8) == ["Measured on Tiny Hanabi (groups of 8)."]
    kinds = [row for row in guide.page({}).splitlines() if "one turn per seat" in row]
    assert len(kinds) == 1
    assert "2 players, cooperative, one turn per seat" in kinds[0]
    assert "groups of 8 | Tiny Hanabi |" in kinds[0]


def test_a_recipe_that_was_not_measured_is_named():
    rules = [("kuhn_poker", make_game("kuhn_poker"))]
    known = results("kuhn")
    assert "    The recipe's mars ddof=0 was not measured" in guide.suggest(
        rules, known, Variant("mars", {"ddof": 0}).name
    )
    lines = guide.suggest(rules, known, "mars")
    assert not any("recipe" in line for line in lines)


def test_settings_are_those_of_the_command_line():
    assert guide.settings_text(Variant("mars_loo")) == "credit: mars_loo"


def test_choices_that_change_no_run_are_named():
    """With one turn per seat, level and turn in the pool have no effect.

    Nor has a factor of the whole batch: a scale of two seats with the same spread.
    """
    known = runs.read_runs(DOCS / "bench.json")
    found = {one.name: set(one.unchanged) for one in comparisons(known)}
    same = found.pop("tiny_hanabi")
    assert same == {
        "pool (game, seat) → (game, seat, turn)",
        "pool (group, seat) → (group, seat, turn)",
        "turn → episode level, pool (game, seat)",
        "turn → episode level, pool (group, seat)",
        "no scale → std, pool (game, seat)",
        "mean → leave-one-out mean, pool (game, seat)",
    }
    scaled = {"no scale → std, pool (game, seat)"}
    assert {name for name, titles in found.items() if titles == scaled} == {
        "goofspiel",
        "speaker_listener",
    }
    assert sum(map(len, found.values())) == 2
    lines = guide.suggest([("signaling", make_game("signaling"))], known)
    assert sum("Choices that change no run: " in line for line in lines) == 1
    text = (DOCS / guide.PAGE).read_text()
    assert "none of 9 choices is significant; 6 change no run" in text


def test_the_committed_guide_is_that_of_the_committed_results():
    """Write it with: arena credit bench."""
    known = runs.read_runs(DOCS / "bench.json")
    assert (DOCS / guide.PAGE).read_text() == guide.page(known)


def suggested(*arguments):
    return CliRunner().invoke(app, ["credit", "suggest", *arguments])


def test_the_command_prints_it_for_games_and_recipes(tmp_path):
    runs.write_runs(tmp_path / "bench.json", results("kuhn", **{BETTER: 0.3}))
    where = ["--directory", str(tmp_path)]
    by_game = suggested("--games", "kuhn_poker", *where).output
    assert "Take credit: mars, credit_args: {pool: [group, seat, turn]}" in by_game
    by_recipe = suggested("--recipe", "kuhn-tiny", *where).output
    assert "The recipe's mars (group, seat) gains +0.000" in by_recipe
    assert by_recipe.splitlines()[0] == by_game.splitlines()[0] + ", groups of 8"
    recipe = tmp_path / "pairs.yaml"
    recipe.write_text("games: [kuhn_poker]\nnum_generations: 2\n")
    pairs = suggested("--recipe", str(recipe), *where).output
    assert pairs.splitlines()[0].endswith("with chance, groups of 2")
    assert "Measured on Kuhn poker, small groups (groups of 2), the same game." in pairs
    both = suggested("--games", "kuhn_poker", "--games", "nim", *where).output
    assert both.startswith(by_game.splitlines()[0])
    assert "\nnim: " in both


def test_no_results_at_all_are_said_once(tmp_path):
    runs.write_runs(tmp_path / "bench.json", {})
    done = suggested("--games", "kuhn_poker,nim", "--directory", str(tmp_path))
    assert done.output.splitlines() == [
        "no results yet; run `arena credit bench`, which measures them"
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "want either --games or --recipe, got neither"),
        (["--games", "nim", "--recipe", "kuhn-tiny"], "or --recipe, got both"),
        (["--games", "chess,kuhn", "--directory", str(DOCS)], "kuhn"),
        (["--recipe", "no-such-recipe"], "want a recipe file"),
        (
            ["--games", "chess", "--directory", "nowhere"],
            "found no file; run arena credit bench",
        ),
    ],
)
def test_bad_input_is_named(arguments, message):
    done = suggested(*arguments)
    assert done.exit_code != 0
    assert message in str(done.exception)
