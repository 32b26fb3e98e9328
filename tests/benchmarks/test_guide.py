"""The guide, and the advice that `arena credit suggest` reads: each with its figures."""

import re
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

import credit_bench
from arena_credit import estimator_names
from arena_envs import make_game, registry
from arena_trainers.cli.game_facts import facts_of, noise_of
from arena_trainers.cli.suggest import SHIPPED, suggest, variant_name
from credit_bench import comparisons, write_advice
from credit_runs import Run, read_runs
from credit_settings import SETTINGS, Variant, runnable

DOCS = Path(__file__).parents[2] / "docs" / "credit"
BETTER = "mars (group, seat, turn)"


def results(*settings, **levels):
    """NashConv or score of .5 + seed / 100, or another level by variant."""
    return {
        setting: {
            name: {
                s: Run([levels.get(name, 0.5) + s / 100] * 4, None, None, None)
                for s in range(10)
            }
            for name in runnable(setting)
        }
        for setting in settings
    }


def suggested(games, known, *recipe, **options):
    return suggest(games, credit_bench.advice(known), *recipe, **options)


def test_goofspiel_by_round_pays_on_the_way():
    assert facts_of(SETTINGS["goofspiel"].game()).on_the_way
    assert not facts_of(make_game("goofspiel")).on_the_way


def test_the_best_of_the_crossing_is_taken_only_if_it_is_significantly_better():
    for level, take in ((0.3, BETTER), (0.499, "mars")):
        known = results("kuhn", **{BETTER: level, "counterfactual": 0.1})
        found = credit_bench.taken_of(comparisons(known)[0])
        assert found == credit_bench.Taken(take, lead=BETTER, best=BETTER)


def test_an_estimator_outside_of_the_crossing_is_the_best_of_all_only():
    found = credit_bench.taken_of(comparisons(results("kuhn", rae=0.1))[0])
    assert found.best == "rae"
    assert found.take == "mars"


def test_no_advice_follows_from_missing_runs():
    known = results("kuhn", **{BETTER: 0.3})
    del known["kuhn"]["rae"][9]
    kuhn = comparisons(known)[0]
    assert credit_bench.taken_of(kuhn) is None
    text = credit_bench.guide(known)
    assert "| Kuhn poker | no result: 1 run is missing" in text
    lines = suggested([("kuhn_poker", make_game("kuhn_poker"))], known)
    assert any("No result: 1 run is missing" in line for line in lines)
    assert not any("Best level" in line for line in lines)


def test_the_page_has_a_figure_for_its_advice():
    text = credit_bench.guide(results("kuhn", **{BETTER: 0.3}))
    cells = (
        "`credit: mars, credit_args: {pool: [group, seat, turn]}` | **+0.200** ± 0.028"
    )
    assert cells in text
    assert "pool (group, seat) → (group, seat, turn): **+0.200** ± 0.028" in text


def test_suggestions_are_of_the_game_itself_or_of_the_nearest():
    known = results("kuhn", "leduc", "liars_dice", **{BETTER: 0.3})
    rules = [("kuhn_poker", make_game("kuhn_poker")), ("nim", make_game("nim"))]
    text = "\n".join(suggested(rules, known, used="mars_loo", group=8))
    own, other = text.split("nim: ")
    assert own.count("Measured on") == 1
    assert "Measured on Kuhn poker (groups of 8), the same game." in own
    assert (
        "Best level and pool there: credit: mars, credit_args: {pool: [group, seat, turn]}"
        in own
    )
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
    lines = suggested([(game, make_game(game))], known, None, group)
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
    kinds = [
        row for row in credit_bench.guide({}).splitlines() if "one turn per seat" in row
    ]
    assert len(kinds) == 1
    assert "2 players, cooperative, one turn per seat" in kinds[0]
    assert "groups of 8 | Tiny Hanabi |" in kinds[0]


def test_the_default_is_advised_with_its_pool_and_its_gain():
    """In 10 rounds of the dilemma, paid at once: up to 2T / (T + 1) times less noise."""
    rules = [("dilemma", make_game("iterated_prisoners_dilemma"))]
    lines = suggested(rules, {}, None, 8)
    assert "  Take credit: control_variates" in lines[1]
    gain, wide = map(float, re.findall(r"[\d.]+", lines[2]))
    assert 1.5 < gain < 3
    assert 0 < wide < 1


def test_noise_in_random_play_follows_the_law():
    """Of T rounds paid at once the episode holds T, a return-to-go (T + 1) / 2."""
    options = {"num_rounds": 9, "num_answers": 2}
    at_once = noise_of(make_game("rounds", **options), 16)
    assert at_once["episode (game, seat)"][0] == pytest.approx(9 / 5, rel=0.1)
    assert at_once["mars (game, seat, turn)"][0] == pytest.approx(1, rel=0.02)
    at_the_end = noise_of(make_game("rounds", **options, delay=9), 16)
    assert at_the_end["episode (game, seat)"][0] == pytest.approx(1, rel=0.02)
    assert "GRPO without std" not in noise_of(make_game("nim"), 1)


def test_the_interval_of_a_gain_covers_the_law():
    """Between starts of the same rules the measured ratio differs by what the interval says."""
    ratio, wide = noise_of(make_game("rounds", num_rounds=9, num_answers=2), 8)[
        "episode (game, seat)"
    ]
    assert abs(ratio - 9 / 5) < wide < 1


def test_a_recipe_that_was_not_measured_is_named():
    rules = [("kuhn_poker", make_game("kuhn_poker"))]
    known = results("kuhn")
    assert "    The recipe's mars ddof=0 was not measured" in suggested(
        rules, known, variant_name("mars", {"ddof": 0})
    )
    lines = suggested(rules, known, "mars")
    assert not any("recipe" in line for line in lines)


def test_settings_are_those_of_the_command_line():
    assert credit_bench.settings_text(Variant("mars_loo")) == "credit: mars_loo"


def test_choices_that_change_no_run_are_named():
    """With one turn per seat, level and turn in the pool have no effect.

    Nor has a factor of the whole batch: a scale of two seats with the same spread.
    """
    known = read_runs(DOCS / "bench.json")
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
    lines = suggested([("signaling", make_game("signaling"))], known)
    assert sum("Choices that change no run: " in line for line in lines) == 1
    text = (DOCS / credit_bench.GUIDE).read_text()
    assert "none of 9 choices is significant; 6 change no run" in text


def test_the_committed_guide_is_that_of_the_committed_results():
    """Write it with: python benchmarks/credit_bench.py"""
    known = read_runs(DOCS / "bench.json")
    assert (DOCS / credit_bench.GUIDE).read_text() == credit_bench.guide(known)


def test_the_advice_of_the_package_is_that_of_the_committed_results(tmp_path):
    """Write it with: python benchmarks/credit_bench.py"""
    write_advice(path := tmp_path / "advice.json", advice())
    assert SHIPPED.read_text() == path.read_text()


def advice():
    return credit_bench.advice(read_runs(DOCS / "bench.json"))


def test_a_plugin_estimator_is_not_compared_and_changes_no_advice(monkeypatch):
    """Its runs would be missing in every game."""
    before = advice()
    point = EntryPoint("mine", "my_credit:mine", "arena.credit")
    monkeypatch.setattr(registry, "installed", lambda group, path: EntryPoints([point]))
    assert "mine" in estimator_names()
    assert advice() == before
    assert not any(one.missing for one in before.games)
