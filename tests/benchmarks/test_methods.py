"""The comparison of methods: equal episodes, measures, page and command."""

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import comparing
import credit_bench
import methods_bench as methods
from arena_wrappers import RandomPolicy
from credit_runs import read_runs
from credit_settings import variants
from gains import Comparison, comparisons
from methods_bench import BENCH, METHODS, SETTINGS, VARIANTS

DOCS = Path(__file__).parents[2] / "docs" / "methods"
CREDIT = DOCS.with_name("credit")


def results(**levels):
    """Every measure is 0.5 + seed / 100, or another level by variant; starts are at 0.9."""
    return {
        setting: {
            name: {
                seed: {m: [0.9, *[levels.get(name, 0.5) + seed / 100] * 5]}
                for seed in range(3)
            }
            for name in VARIANTS
        }
        for setting, chosen in SETTINGS.items()
        for m in chosen.measures
    }


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("setting", SETTINGS)
def test_all_methods_play_as_many_episodes(setting, name):
    chosen, method = SETTINGS[setting], METHODS[setting][name]
    options = methods.grpo_options(setting, name, 0)
    by_grpo = options["max_steps"] * options["episodes_per_step"]
    assert chosen.num_rounds * chosen.every == by_grpo + (
        method.num_rounds * chosen.every
    )
    assert chosen.every % options["episodes_per_step"] == 0


@pytest.mark.parametrize("branch", [None, {"num_candidates": 4, "follow": "random"}])
def test_a_round_plays_what_is_due_with_seeds_of_its_own(tmp_path, monkeypatch, branch):
    """A tree of Kuhn poker has 9 or 13 episodes; the largest that is possible has 13."""
    monkeypatch.setattr(methods, "_load", lambda model: RandomPolicy())
    small = replace(SETTINGS["kuhn"], every=64, num_rounds=2)
    monkeypatch.setitem(SETTINGS, "kuhn", small)
    method = replace(METHODS["kuhn"]["eto"], branch=branch)
    if branch is not None:
        method = replace(method, samples=1)
    rounds = methods._Rounds("kuhn", method, 1, tmp_path)
    parts = [rounds._play(number, tmp_path) for number in range(2)]
    played = [len(part) for part in parts]
    assert sum(played) == 128 if branch is None else 115 < sum(played) <= 128
    seeds = [{episode.seed for episode in part} for part in parts]
    assert min(seeds[0]) == 128  # after the two rounds of seed 0
    assert max(seeds[0]) < 192 <= min(seeds[1])
    if branch is None:
        assert played == [64, 64]
        assert [len(of) for of in seeds] == [8, 8]


def test_the_credit_of_grpo_is_the_one_that_is_recommended():
    """As the comparison in games at one step says; `mars` without options has the pool (game, seat)."""
    advised = {
        one.name: credit_bench.taken_of(one)
        for one in credit_bench.comparisons(read_runs(CREDIT / "bench.json"))
        if one.name in METHODS
    }
    for setting, by_name in METHODS.items():
        taken = variants()[advised[setting].take]
        wanted = {"pool": ("game", "seat"), **taken.options}
        for name in ("grpo", "kickstart"):
            assert by_name[name].grpo["credit"] == taken.estimator
            given = by_name[name].grpo["credit_args"]
            assert {**given, "pool": tuple(given["pool"])} == wanted


def test_uniform_play_has_its_known_measures(monkeypatch):
    """NashConv 11/12, exactly; score 1.436, up to four standard errors of 150 episodes."""
    monkeypatch.setattr(methods, "NUM_DEALS", 150)
    kuhn = methods.measured(RandomPolicy(), "kuhn")
    assert kuhn["nash_conv"] == pytest.approx(11 / 12)
    hanabi = methods.measured(RandomPolicy(), "mini_hanabi")
    assert hanabi["score"] == pytest.approx(1.436, abs=0.32)


def test_the_page_says_what_is_significant_and_where_runs_began():
    text = methods.text(results(kickstart=0.4))
    assert (
        "- Kuhn poker, NashConv: significantly better than `grpo`: `kickstart`; "
        "significantly worse: none; no significant difference: 3 of 4." in text
    )
    assert (
        "- Mini Hanabi, Score: significantly better than `grpo`: none; significantly "
        "worse: `kickstart`; no significant difference: 3 of 4." in text
    )
    assert (
        "- Kuhn poker, NashConv: 0.90 at the start; at the end, best first: `kick"
        in text
    )
    assert "`grpo` 0.51. When its teacher leaves, `kickstart` has 0.41.\n" in text
    assert "all 8 comparisons together" in text


def test_a_gain_is_over_grpo():
    compared = Comparison(BENCH, "kuhn", results(eto=0.7)["kuhn"], 3)
    assert compared.gains("nash_conv")["eto"].value == pytest.approx(-0.2)
    assert "grpo" not in compared.gains("nash_conv")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
def test_the_command_trains_by_every_method_and_repeats_no_run(tmp_path, monkeypatch):
    """The start is the same for all variants; a second call only writes the page."""
    monkeypatch.setitem(
        SETTINGS, "kuhn", replace(SETTINGS["kuhn"], num_rounds=2, every=128)
    )
    for name, method in METHODS["kuhn"].items():
        short = {**method.train, "max_steps": 1, "batch_size": 16}
        few = {"train": short, "num_rounds": min(method.num_rounds, 2)}
        if name == "kickstart":
            few["num_rounds"] = 1
        monkeypatch.setitem(METHODS["kuhn"], name, replace(method, **few))
    line = ["--game", "kuhn", "--seeds", "1"]
    line += ["--directory", str(tmp_path)]
    done = CliRunner().invoke(comparing.script(methods.main), line)
    assert done.exit_code == 0, done.output
    runs = comparing.read(tmp_path / "bench.json", methods.made_with())["kuhn"]
    assert set(runs) == set(VARIANTS)
    curves = [run[0]["nash_conv"] for run in runs.values()]
    assert [len(curve) for curve in curves] == [3] * 5
    assert len({curve[0] for curve in curves}) == 1
    assert len({tuple(curve) for curve in curves}) == 5
    again = CliRunner().invoke(comparing.script(methods.main), line)
    assert "seed 0" in done.output
    assert "seed 0" not in again.output
    assert (tmp_path / "learning.png").stat().st_size > 10_000
    assert "Mini Hanabi: all 15 runs" in (tmp_path / "README.md").read_text()


def test_the_page_is_that_of_the_committed_results():
    """Write it with: python benchmarks/methods_bench.py."""
    known = comparing.read(DOCS / "bench.json", methods.made_with())
    assert comparing.num_outdated(DOCS / "bench.json", methods.made_with()) == 0
    assert (DOCS / "README.md").read_text() == methods.text(known)
    assert not any(one.missing for one in comparisons(BENCH, known))
