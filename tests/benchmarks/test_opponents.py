"""The comparison of opponents: exact measures, runs, statistics, page and command."""

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import comparing
import opponents_bench as opponents
from arena_wrappers import RandomPolicy
from gains import Comparison, comparisons
from opponents_bench import BENCH, MEASURES, SETTINGS, VARIANTS

DOCS = Path(__file__).parents[2] / "docs" / "opponents"


def results(setting, seeds=range(3), **levels):
    """Every measure is 0.5 + seed / 100, or another level by variant."""
    chosen = SETTINGS[setting]
    return {
        setting: {
            name: {
                s: {m: [levels.get(name, 0.5) + s / 100] * 5 for m in chosen.measures}
                for s in seeds
            }
            for name in VARIANTS
        }
    }


def test_uniform_play_has_its_known_exact_measures():
    """NashConv 11/12 in Kuhn poker; against itself both seats together get 0."""
    kuhn = opponents.measured(RandomPolicy(), "kuhn")
    assert kuhn["nash_conv"] == pytest.approx(11 / 12)
    assert kuhn["against_random"] == pytest.approx(0)
    assert -11 / 24 <= kuhn["against_optimal"] < -0.1
    cross = opponents.measured(RandomPolicy(), "tic_tac_toe")
    assert cross["against_random"] == pytest.approx(0)
    assert -1 < cross["against_optimal"] < -0.8


def test_an_optimal_policy_draws_against_the_optimal_opponent():
    for setting in SETTINGS:
        game, tables = opponents._game(setting)
        best = tables["against_optimal"]
        assert opponents._mean_return(game, best, best) == pytest.approx(0)


def test_a_paired_difference_by_hand():
    """Gaps 1, 2, 3: mean 2, error 1/√3, t = 2√3, p(2 degrees of freedom) = .0742."""
    found = comparing.paired_difference([2.0, 4.0, 6.0], [1.0, 2.0, 3.0])
    assert found.value == 2
    assert found.wide == pytest.approx(4.30265 / 3**0.5, rel=1e-5)
    assert found.p == pytest.approx(0.0742, abs=1e-4)
    assert comparing.paired_difference([1.0, 2.0], [1.0, 2.0]) == (0, 0, 1)
    with pytest.raises(ValueError, match="equally many, got 3 and 2; run the same"):
        comparing.paired_difference([1.0, 2.0, 3.0], [1.0, 2.0])


def test_a_gain_is_positive_where_the_opponent_teaches_better():
    """A NashConv lower by .1 is better, a return lower by .1 is worse."""
    compared = Comparison(BENCH, "kuhn", results("kuhn", psro=0.4)["kuhn"], 3)
    assert compared.gains("nash_conv")["psro"].value == pytest.approx(0.1)
    assert compared.gains("against_random")["psro"].value == pytest.approx(-0.1)
    assert next(iter(compared.means("nash_conv"))) == "psro"
    assert list(compared.means("against_random"))[-1] == "psro"


def test_the_page_says_what_is_significant_and_what_three_seeds_can_show():
    known = results("kuhn", psro=0.4)
    for seed, run in known["kuhn"]["random"].items():
        run["nash_conv"] = [
            0.3 + seed / 10
        ] * 5  # gains .2, .11, .02: t = 2.117, p = 4 · .1685
    text = opponents.text(known)
    assert (
        "- Kuhn poker, NashConv: significantly better than `self-play`: `psro`; "
        "significantly worse: none; no significant difference: 4 of 5." in text
    )
    assert "+0.200, +0.110, +0.020 | 0.674 |" in text
    assert (
        "all 15 comparisons together: significantly better than `self-play`: `psro` (Kuhn "
        "poker, NashConv); significantly worse: `psro` (Kuhn poker, Return against `cfr`), "
        in text
    )
    assert "at least 5.7 times the standard deviation" in text
    assert "- Tic-tac-toe: all 18 runs" in text


def test_a_game_with_a_missing_run_has_no_gains():
    known = results("kuhn", psro=0.4)
    del known["kuhn"]["mixture"][1]
    text = opponents.text(known)
    assert "- Kuhn poker: 1 run (seeds by variant): `mixture` 1" in text
    assert "significantly better" not in text


def test_runs_of_another_setting_are_not_kept(tmp_path, monkeypatch):
    path = tmp_path / "bench.json"
    known = {**results("kuhn"), **results("tic_tac_toe")}
    comparing.write(path, known, opponents.made_with())
    assert comparing.read(path, opponents.made_with()) == known
    monkeypatch.setitem(SETTINGS, "kuhn", replace(SETTINGS["kuhn"], num_steps=7))
    assert set(comparing.read(path, opponents.made_with())) == {"tic_tac_toe"}
    assert comparing.num_outdated(path, opponents.made_with()) == 18


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
def test_the_command_trains_measures_and_repeats_no_run(tmp_path, monkeypatch):
    """The start is the same for all variants; a second call only writes the page."""
    small = {"warm_start_steps": 1, "warm_start_episodes": 4, "episodes_per_step": 8}
    kuhn = SETTINGS["kuhn"]
    short = replace(kuhn, num_steps=2, every=1, options={**kuhn.options, **small})
    monkeypatch.setitem(SETTINGS, "kuhn", short)
    line = ["--game", "kuhn", "--only", "self-play"]
    line += ["--only", "past_selves", "--seeds", "1", "--directory", str(tmp_path)]
    done = CliRunner().invoke(comparing.script(opponents.main), line)
    assert done.exit_code == 0, done.output
    runs = comparing.read(tmp_path / "bench.json", opponents.made_with())["kuhn"]
    assert set(runs) == {"self-play", "past_selves"}
    one, other = (runs[name][0] for name in sorted(runs))
    assert set(one) == set(MEASURES)
    assert [len(curve) for curve in one.values()] == [3, 3, 3]
    for measure, curve in one.items():
        assert curve[0] == other[measure][0]
        assert curve[1:] != other[measure][1:]
    again = CliRunner().invoke(comparing.script(opponents.main), line)
    assert "seed 0" in done.output
    assert "seed 0" not in again.output
    assert (tmp_path / "learning.png").stat().st_size > 10_000
    assert "`mixture` 0 to 2" in (tmp_path / "README.md").read_text()


def test_unknown_names_are_refused(tmp_path):
    line = ["--directory", str(tmp_path)]
    done = CliRunner().invoke(
        comparing.script(opponents.main), [*line, "--only", "elo"]
    )
    assert "want one of self-play, mixture, past_selves" in str(done.exception)


def test_the_page_is_that_of_the_committed_results():
    """Write it with: python benchmarks/opponents_bench.py."""
    known = comparing.read(DOCS / "bench.json", opponents.made_with())
    assert (DOCS / "README.md").read_text() == opponents.text(known)
    assert not any(c.missing for c in comparisons(BENCH, known))
