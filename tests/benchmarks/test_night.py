"""The night: a run that stops goes on as if it had not, and the page is that of its cells."""

import json
import time
from dataclasses import replace

import pytest
from safetensors.torch import load_file

import night
import night_page
import night_runs
import night_sections
from arena_trainers.lm.models import ADAPTER
from comparing import read
from gains import make_saved_start
from night_settings import MEASURED, PROMPT, STAGES, TRAINED


def cells():
    return read(night.DOCS / night.DATA, night.made_with())


def test_the_page_is_that_of_its_cells():
    assert (night.DOCS / "self-play.md").read_text() == night_page.page(
        cells(), night_sections.sections(night.DOCS)
    )


def test_all_cells_of_the_file_count():
    numbers = json.loads((night.DOCS / night.DATA).read_text())["runs"]
    count = sum(len(seeds) for stage in numbers.values() for seeds in stage.values())
    assert count == sum(len(s) for stage in cells().values() for s in stage.values())


def test_cells_of_different_versions_make_no_page():
    runs = {"start": {"rounds": {s: {"versions": {"torch": str(s)}} for s in (0, 1)}}}
    with pytest.raises(ValueError, match="of the same versions, got 2"):
        night_page.check(runs)


def test_a_known_value_that_differs_makes_no_page():
    policies = {"uniform": {"nash_conv": 0.9, "return": 0.0}}
    cell = {"versions": {}, "policies": policies}
    with pytest.raises(ValueError, match="11/12"):
        night_page.check({"blind": {"kuhn_poker": {0: cell}}})


def test_the_change_is_paired_by_common_seeds():
    first, second = {0: 1.0, 1: 2.0, 2: 9.0}, {1: 1.0, 0: 0.0}
    assert night_page.difference_text(first, second) == "**+1.000 ± 0.000**"
    assert night_page.difference_text({0: 1.0}, second) == "+1.000 (one seed)"
    assert night_page.difference_text(first, {7: 1.0}) == "-"


def returns(*numbers):
    """Cells of seeds from 0 on."""
    return {seed: {"return": number} for seed, number in enumerate(numbers)}


def test_tables_have_columns_of_credits_with_runs_that_ended():
    runs = {"reasoned_start": {"rounds": returns(1.0)}}
    head = night_page.five_table(runs).splitlines()[0]
    assert head == "| game | random | best habit | start | expected | came |"
    runs["reasoned"] = {"control_variates curve": {0: {}}}
    runs["reasoned"]["control_variates rounds"] = returns(1.5)
    head, *rows = night_page.five_table(runs).splitlines()
    assert "| start | `control_variates` | change | expected | came |" in head
    (row,) = [row for row in rows if row.startswith("| Rounds")]
    assert "| 1.000 | 1.500 | +0.500 (one seed) | higher" in row
    assert row.endswith("| no |")


def test_a_game_is_better_if_it_is_above_start_and_blind_policies_by_its_intervals():
    policies = {"uniform": {"return": 1.0}, "first": {"return": 1.0}}
    runs = {
        "blind": {game: {0: {"policies": policies}} for game in TRAINED},
        "reasoned_start": {"rounds": returns(1.4, 1.5, 1.6)},
        "reasoned": {"control_variates rounds": returns(3.0)},
    }
    assert night_page.improvement_verdict(runs) == []  # one seed has no interval
    runs["reasoned"]["control_variates rounds"] = returns(3.0, 3.1, 3.2)
    (text,) = night_page.improvement_verdict(runs)
    assert text.endswith("in 1 of 1 trained games: Rounds, 4 of them.")
    runs["reasoned"]["control_variates rounds"] = returns(1.5, 1.6, 1.7)
    runs["reasoned_start"]["rounds"] = returns(1.4, 1.7, 1.6)
    (text,) = night_page.improvement_verdict(runs)
    assert text.endswith("in 0 of 1 trained games.")


def of_seeds(key, *numbers):
    """Cells of seeds from 0 on, with one number."""
    return {seed: {key: number} for seed, number in enumerate(numbers)}


def longer_row(runs, title):
    *_, table, _ = night_page.longer_texts(runs)
    (row,) = [line for line in table.splitlines() if line.startswith(f"| {title}")]
    return row


def test_further_steps_are_compared_with_the_first_of_the_same_seeds():
    assert night_page.longer_texts({}) == []
    middles = {seed: {"nash_conv": {"11": 0.5}} for seed in (0, 1)}
    longer = {"control_variates curve": middles}
    longer["control_variates rounds"] = returns(3.3, 3.6)
    runs = {
        "reasoned_start": {"rounds": returns(1.0, 1.2, 9.0)},
        "reasoned": {"control_variates rounds": returns(3.0, 3.2, 9.0)},
        "longer": longer,
    }
    row = longer_row(runs, "Rounds")
    cells = "3.100 ± 1.271 | 3.450 ± 1.906 | +0.350 ± 0.635 | **+2.350 ± 0.635** |"
    assert cells in row
    assert row.endswith("| yes |")
    assert longer_row(runs, "Mini Hanabi |").endswith("| - |")  # not measured
    middle = night_page.longer_texts(runs)[-1].splitlines()[1]
    assert middle.startswith("0.500 ± 0.000 with `control_variates`")


def test_a_lower_nash_conv_is_what_was_expected():
    name = "control_variates kuhn_poker"
    low, high = of_seeds("nash_conv", 0.3, 0.3), of_seeds("nash_conv", 0.4, 0.4)
    for before, after, came in ((high, low, "yes"), (low, high, "no")):
        runs = {"reasoned": {name: before}, "longer": {name: after}}
        runs["longer"]["control_variates curve"] = {0: {"nash_conv": {"11": 0.5}}}
        assert longer_row(runs, "Kuhn poker, NashConv").endswith(f"| {came} |")


def test_credits_are_compared_where_both_have_runs():
    runs = {
        "reasoned": {
            "control_variates kuhn_poker": of_seeds("nash_conv", 0.3, 0.4),
            "mars kuhn_poker": of_seeds("nash_conv", 0.25),
            "episode rounds": returns(3.0),
        }
    }
    assert night_page.between_credits(runs) == [
        "`control_variates` less `mars`, paired by seed: NashConv of Kuhn poker (lower is better) +0.050 "
        "(one seed)."
    ]


def test_a_stage_that_goes_on_starts_from_the_run_before(tmp_path):
    before = tmp_path / "reasoned-episode-1" / "adapter"
    before.mkdir(parents=True)
    (before / ADAPTER).write_text("{}")
    place = night_runs.Place(tmp_path, str(tmp_path))
    assert night_runs.start_folder_of(place, "longer", "episode", 1) == before


def test_further_steps_measure_trained_games_and_no_start_of_their_own():
    tasks = night.tasks()
    games = {variant.split()[1] for stage, variant, _ in tasks if stage == "longer"}
    assert games == {"curve", *TRAINED}
    stages = {stage for stage, _, _ in tasks}
    assert stages == {"blind", "start", "reasoned_start", *STAGES}
    assert not [v for stage, v, _ in tasks if stage == "reasoned" and v in MEASURED]


def test_one_process_holds_a_folder_of_runs(tmp_path):
    second = night.alone(tmp_path)
    with night.alone(tmp_path), pytest.raises(ValueError, match="got a second"):
        second.__enter__()


@pytest.mark.slow
def test_a_run_that_stops_goes_on_as_if_it_had_not(tmp_path, monkeypatch):
    # the committed adapters are of SmolLM2, not of the tiny model
    monkeypatch.setattr(night_runs, "COMMITTED", tmp_path / "committed")
    options = {
        "model": "tiny",
        "games": [{"id": g, "params": p} for g, p in TRAINED.items()],
    }
    options |= {"reply_format": PROMPT.reply_format, "rules": PROMPT.rules}
    saved = make_saved_start(options, lambda _: {})
    adapters = []
    for until in (float("inf"), 0.0):
        place = night_runs.Place(
            tmp_path / str(until),
            str(saved.folder),
            targets=("all-linear",),
            max_steps=2,
        )
        night_runs.start(place)
        if until == 0:  # while the trainer is made
            hurried = replace(place, until=time.monotonic() + 0.2)
            with pytest.raises(night_runs.TimeIsUp):
                night_runs.run(hurried, "kuhn", "rae", 0)
            assert (place.runs / "kuhn-rae-0" / "checkpoint-1").is_dir()
        adapters.append(
            load_file(
                night_runs.run(place, "kuhn", "rae", 0) / "adapter_model.safetensors"
            )
        )
    assert adapters[0].keys() == adapters[1].keys()
    assert all((adapters[0][key] == adapters[1][key]).all() for key in adapters[0])
    saved.kept.cleanup()
