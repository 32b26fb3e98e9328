"""The comparison of variants: runs, statistics, page and command."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import comparing
import credit_bench
import credit_runs
import credit_settings
from arena_credit import estimator_names
from arena_trainers.cli.suggest import MeanDifference
from credit_bench import CHOICES, Comparison, comparisons
from credit_runs import Run
from credit_settings import NUM_EPISODES, NUM_POINTS, SETTINGS, Setting

DOCS = Path(__file__).parents[2] / "docs" / "credit"


def run(level, *gradient):
    return Run([level] * 4, *(gradient or (None, None, None)))


def found(setting, seeds=range(10), **levels):
    """Runs of all variants of a setting: 0.5 + seed / 100, or another level by name."""
    return {
        setting: {
            name: {s: run(levels.get(name, 0.5) + s / 100) for s in seeds}
            for name in credit_settings.runnable(setting)
        }
    }


def test_the_crossing_has_every_pool_that_an_estimator_can_have():
    cells = {
        (line.title, pool): variant
        for line in credit_settings.CROSSING
        for pool, variant in line.cells.items()
    }
    assert len(cells) == 3 * 4 + 2 * 2
    assert cells["`mars`", "game, seat"].name == "mars"
    assert cells["`dr_grpo`", "group, seat"].name == "dr_grpo"
    assert cells["`mars` scale=std", "group, seat, turn"].all_options["scale"] == "std"
    names = list(credit_settings.variants())
    published = [*credit_settings.MEASURED]
    assert {*published} <= {*estimator_names()}
    assert names[: len(published)] == published
    assert len(names) == len(published) + 12
    assert {name for c in CHOICES for name in (c.before, c.after)} <= set(names)


def test_a_variant_without_its_columns_is_not_run():
    all_names = set(credit_settings.variants())
    assert all_names - set(credit_settings.runnable("mini_hanabi")) == {
        "adca",
        "counterfactual",
    }
    assert all_names == set(credit_settings.runnable("leduc"))


def test_a_run_learns_and_is_measured():
    """Uniform play of Kuhn poker has NashConv .917."""
    [result] = credit_runs.learn("kuhn", ["mars_loo (group, seat)"], 0)
    assert len(result.curve) == NUM_POINTS
    assert result.curve[-1] < 0.4
    assert result.variance > 1
    assert 0 < result.cosine < result.direction < 1


@pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
def test_the_exact_advantage_has_variance_1_and_the_largest_cosine():
    """`counterfactual` is Q - V, exact. `grpo_passk` goes against the gradient."""
    exact = credit_runs.gradient_of(
        "kuhn", credit_settings.Variant("counterfactual"), 0
    )
    assert exact[0] == 1
    other = credit_runs.gradient_of("kuhn", credit_settings.Variant("mars"), 0)
    assert other[1] < exact[1]
    assert (
        credit_runs.gradient_of("kuhn", credit_settings.Variant("grpo_passk"), 0)[0]
        is None
    )


def test_small_groups_have_more_starts_and_as_many_episodes():
    batches = {
        name: credit_runs.Learner(name, [credit_settings.Variant("mars")], 0).play()[0]
        for name in ("kuhn", "kuhn_small_groups")
    }
    for played in batches.values():
        assert len(played.returns) == NUM_EPISODES
    num = {name: len(set(b.turns.group)) for name, b in batches.items()}
    assert num == {"kuhn": 16, "kuhn_small_groups": 64}


def test_runs_are_kept_and_not_repeated(tmp_path):
    path = tmp_path / "bench.json"
    assert credit_runs.read_runs(path) == {}
    known = {}
    comparing.add(known, ("kuhn", "mars", 0), Run([0.5, 0.25], 2.0, 0.5, 0.9))
    credit_runs.write_runs(path, known)
    assert credit_runs.read_runs(path) == known
    assert json.loads(path.read_text())["settings"]["kuhn"]["step"] == 2.0
    todo = credit_runs.missing(known, ["mars", "rae"], ["kuhn"], 2)
    assert todo == [("kuhn", "rae", 0), ("kuhn", "mars", 1), ("kuhn", "rae", 1)]


def test_runs_of_other_settings_or_options_are_not_kept(tmp_path):
    path = tmp_path / "bench.json"
    one = {0: run(0.5)}
    known = {"kuhn": {"mars": one, "rae": one}, "leduc": {"mars": one}}
    credit_runs.write_runs(path, known)
    changed = json.loads(path.read_text())
    changed["settings"]["leduc"]["step"] = 1.0
    changed["variants"]["rae"]["decay"] = 0.5
    path.write_text(json.dumps(changed))
    assert credit_runs.read_runs(path) == {"kuhn": {"mars": one}}
    changed["batches"]["samples"] = 4
    path.write_text(json.dumps(changed))
    assert credit_runs.read_runs(path) == {}


def test_what_is_done_is_kept_if_a_run_fails(tmp_path):
    path = tmp_path / "bench.json"
    todo = [("kuhn", "mars", 0), ("tiny_hanabi", "no such variant", 0)]
    with pytest.raises(KeyError, match="no such variant"):
        credit_runs.run_missing(path, todo, 1, lambda line: None)
    assert list(credit_runs.read_runs(path)["kuhn"]) == ["mars"]


def test_statistics_by_hand():
    """1, 2, 3: mean 2, standard error 1/√3, t(.975, 2) = 4.3027. Last quarter of 8: 2."""
    mean = comparing.interval([1.0, 2.0, 3.0])
    assert mean.mean == 2
    assert mean.high - 2 == pytest.approx(4.30265 / 3**0.5, rel=1e-5)
    assert comparing.interval([5.0]) == (5, 5, 5, 1)
    assert comparing.final([9, 9, 9, 9, 9, 9, 1, 2]) == 1.5


def test_a_difference_by_hand():
    """-2 with error √(2/3), 4 degrees of freedom: t(.975, 4) = 2.77645, p = .0705."""
    found = comparing.difference([1.0, 2.0, 3.0], [3.0, 4.0, 5.0])
    assert found.value == -2
    assert found.wide == pytest.approx(2.77645 * (2 / 3) ** 0.5, rel=1e-5)
    assert found.p == pytest.approx(0.0705, abs=1e-4)
    assert comparing.difference([1.0, 1.0], [2.0, 2.0]) == (-1, 0, 0)
    assert comparing.difference([1.0, 1.0], [1.0, 1.0]) == (0, 0, 1)
    with pytest.raises(
        ValueError, match=r"at least two runs on each side, got \[1, 2\]"
    ):
        comparing.difference([1.0], [1.0, 2.0])


def test_p_values_are_corrected_for_their_number():
    """Holm: the smallest of three times 3, the next times 2, never below one before."""
    raw = {
        name: MeanDifference(0.0, 0.0, p)
        for name, p in zip("abc", (0.5, 0.01, 0.02), strict=True)
    }
    corrected = {name: one.p for name, one in comparing.holm(raw).items()}
    assert corrected == pytest.approx({"a": 0.5, "b": 0.03, "c": 0.04})


def test_a_gain_is_positive_where_the_variant_is_better():
    """NashConv .3 is better than .5, a score of .3 is worse."""
    kuhn, hanabi = (
        Comparison(name, found(name, rae=0.3)[name], 10)
        for name in ("kuhn", "mini_hanabi")
    )
    assert kuhn.gains["rae"].value == pytest.approx(0.2)
    assert hanabi.gains["rae"].value == pytest.approx(-0.2)
    assert next(iter(kuhn.means)) == list(hanabi.means)[-1] == "rae"
    assert kuhn.gains["rae"].is_significant
    assert not kuhn.gains["mars_loo"].is_significant
    text = credit_bench.text(found("kuhn", rae=0.3))
    assert "Significantly better than `mars`: `rae`. Significantly worse: none." in text
    assert (
        "| `rae` | 0.345 | 0.323 to 0.367 | 10 | **+0.200** ± 0.028 | < 0.001 |" in text
    )


def test_choices_are_compared_at_otherwise_equal_settings():
    """The episode level over game and seat is worse by .1, so is nothing else."""
    compared = Comparison(
        "kuhn", found("kuhn", **{"dr_grpo (game, seat)": 0.6})["kuhn"], 10
    )
    values = {name: one.value for name, one in compared.choices.items()}
    assert values.pop("turn → episode level, pool (game, seat)") == pytest.approx(-0.1)
    assert set(values.values()) == {0}


def test_a_game_with_a_missing_run_says_which_and_has_no_gains():
    known = found("kuhn", rae=0.3)
    del known["kuhn"]["gigpo"][3], known["kuhn"]["gigpo"][4], known["kuhn"]["gae"]
    kuhn = comparisons(known)[0]
    assert kuhn.missing == {"gae": list(range(10)), "gigpo": [3, 4]}
    assert kuhn.gains == kuhn.choices == {}
    text = credit_bench.text(known)
    line = "- Kuhn poker: 12 runs (seeds by variant): `gae` 0 to 9, `gigpo` 3, 4"
    assert line in text
    assert "- Leduc poker: all 440 runs" in text
    assert "Runs of this game are missing, so nothing is compared." in text
    assert "Significantly better" not in text


def test_more_seeds_of_one_variant_are_wanted_of_all():
    known = found("kuhn")
    known["kuhn"]["mars"][10] = run(0.5)
    kuhn = comparisons(known)[0]
    assert kuhn.num_seeds == 11
    assert "mars" not in kuhn.missing
    assert kuhn.missing["rae"] == [10]


def test_cells_say_why():
    known = found("kuhn")
    known["kuhn"]["mars_loo"] = {s: run(0.4, 4.0, 0.25, 0.9) for s in range(5)}
    known["kuhn"]["mars_loo"] |= {s: run(0.5, 9.0, 0.75, 0.9) for s in range(5, 10)}
    text = credit_bench.crossing_table(Comparison("kuhn", known["kuhn"], 10))
    assert "| turn | `mars_loo` | **+0.095** ± " in text
    assert "<br>cosine 0.50, variance 6 |" in text


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mars", "episode", "gae", "mars (group, seat, turn)"])
def test_the_committed_results_are_those_of_this_code(name):
    """Run the others again with benchmarks/credit_bench.py, after taking out what has changed."""
    known = credit_runs.read_runs(DOCS / "bench.json")
    for setting in SETTINGS.keys() & known.keys():  # the others are of a model
        assert credit_runs.learn(setting, [name], 0) == [known[setting][name][0]]


def test_the_committed_page_is_that_of_the_committed_results():
    """Write it with: python benchmarks/credit_bench.py"""
    known = credit_runs.read_runs(DOCS / "bench.json")
    assert (DOCS / "games.md").read_text() == credit_bench.text(known)
    assert (DOCS / credit_bench.PICTURE).exists()


@pytest.mark.slow
def test_the_command_does_what_is_missing_and_draws_it(tmp_path, monkeypatch):
    short = Setting("Kuhn poker", "kuhn_poker-v0", 20, 2.0, 0.1)
    monkeypatch.setitem(SETTINGS, "kuhn", short)
    command = ["--only", "mars", "--only", "rae", "--game", "kuhn"]
    command += ["--seeds", "1", "--jobs", "1", "--directory", str(tmp_path)]
    done = CliRunner().invoke(
        comparing.script(credit_bench.main), command, catch_exceptions=False
    )
    assert done.exit_code == 0
    assert "2/2 kuhn rae seed 0" in done.output
    names = {"bench.json", "README.md", "choose.md", "learning.png", "advice.json"}
    names |= {"games.md", "horizon.png"}
    assert {path.name for path in tmp_path.iterdir()} == names
    assert (tmp_path / "learning.png").read_bytes().startswith(b"\x89PNG")
    again = CliRunner().invoke(
        comparing.script(credit_bench.main), command, catch_exceptions=False
    )
    assert "seed 0" not in again.output


def test_an_unknown_variant_or_setting_is_named():
    for option, value in (("--only", "mras"), ("--game", "chess")):
        done = CliRunner().invoke(comparing.script(credit_bench.main), [option, value])
        assert done.exit_code != 0
        assert f"got '{value}'" in str(done.exception)


@pytest.mark.parametrize(
    ("module", "extra"), [("matplotlib.figure", "eval"), ("scipy.stats", "eval")]
)
def test_a_missing_package_is_named_before_anything_is_run(
    tmp_path, monkeypatch, module, extra
):
    monkeypatch.setitem(sys.modules, module, None)
    folder = tmp_path / "new"
    command = ["--only", "mars", "--directory", str(folder)]
    done = CliRunner().invoke(comparing.script(credit_bench.main), command)
    assert f"'.[{extra}]'" in str(done.exception)
    assert not folder.exists()
