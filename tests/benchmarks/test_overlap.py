"""The prediction of what overlapping play with training gains: cases by hand, and the page."""

import sys
from pathlib import Path

import pytest

import overlap

PAGE = Path(__file__).parents[2] / "benchmarks" / "README.md"


def test_an_overlapped_step_takes_the_longer_of_play_and_training():
    assert overlap.step_seconds([10] * 4, [6] * 4, 0) == 16
    assert overlap.step_seconds([10] * 4, [6] * 4, 1) == 10
    assert overlap.step_seconds([6] * 4, [10] * 4, 1) == 10


def test_play_waits_for_prompts_and_slows_with_the_number_of_episodes():
    """By hand: prompts 3, a token of both 2, a prompt 1, a token of both 2, two of one 3."""
    rates = overlap.Rates(read=1, each=0.5, prefill=10, train=1)
    seconds = overlap.play_seconds([[10], [20, 10]], [[2], [1, 3]], rates)
    assert seconds == pytest.approx(11)


@pytest.mark.parametrize(
    ("gpus", "row"), [(1, (16, 16, 16, 0)), (2, (8, 16, 10, 1))], ids=["one", "two"]
)
def test_overlap_gains_where_play_and_training_are_apart(gpus, row):
    """Play takes 10 s on one GPU and 5 s on two, training 6 s and 3 s."""
    rates = overlap.Rates(read=0, each=0, prefill=10, train=100 / 6)
    found = overlap.predict([[50], [50]], [[[0], [0]]] * 4, gpus, rates)
    assert found == pytest.approx(row)


def test_the_table_of_the_page_is_what_the_script_prints(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["overlap.py"])
    overlap.main()
    assert capsys.readouterr().out in PAGE.read_text()
