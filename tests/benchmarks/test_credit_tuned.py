"""Outcomes with tuned step and bonus: the learner, the choice, and the committed page."""

from pathlib import Path

import numpy as np
import pytest

import credit_bench
import credit_tuned
from credit_payments import VARIANTS
from credit_tuned import Outcome, Payment, best, learn_rounds, outcomes, todo, tried

pytestmark = pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
EASY = Payment({"num_rounds": 2, "stakes": "falling"}, (8.0, 32.0), (0.0,), (100,))
NAME = "random_effects"


@pytest.fixture
def easy(monkeypatch):
    monkeypatch.setattr(credit_tuned, "TUNED", {"easy": EASY})
    monkeypatch.setattr(credit_tuned, "VARIANTS", {NAME: VARIANTS[NAME]})


def test_a_run_learns_and_counts_batches_until_the_goal():
    found = learn_rounds(EASY, VARIANTS[NAME], 0, 32.0, 0.0)
    assert 1 < found.batches < 30
    assert found.last > 0.95


def test_rounds_share_their_logits(monkeypatch):
    tables = []

    def kept(table, *rest):
        tie(table, *rest)
        tables.append(table)

    tie = credit_tuned._tie
    monkeypatch.setattr(credit_tuned, "NUM_BATCHES", 3)
    monkeypatch.setattr(credit_tuned, "_tie", kept)
    learn_rounds(EASY, VARIANTS[NAME], 0, 8.0, 0.0)
    first, second = tables[-1].logits[:16], tables[-1].logits[16:32]
    assert np.abs(first).max() > 0
    np.testing.assert_allclose(first, second)


def test_the_pair_that_is_best_on_its_own_seeds_is_run_on_ten_others(easy):
    slow, fast = tried("easy", NAME)
    tuning = todo("easy", {}, [NAME])
    assert tuning == [("easy", slow.key, 100), ("easy", fast.key, 100)]
    runs = {
        "easy": {slow.key: {100: Outcome(9, 0.9, 0.5)}, fast.key: {100: (9, 0.5, 0.6)}}
    }
    assert best("easy", NAME, runs["easy"]) == fast
    rest = todo("easy", runs, [NAME])
    assert rest == [("easy", fast.key, seed) for seed in range(10)]
    runs["easy"][fast.key] |= {seed: (seed, 0.5, 0.6) for seed in range(10)}
    assert outcomes("easy", runs) == {NAME: [float(seed) for seed in range(10)]}
    assert not todo("easy", runs, [NAME])


def test_the_committed_page_is_that_of_the_committed_figures():
    """Write it with: python benchmarks/credit_bench.py"""
    page = Path(__file__).parents[2] / "docs" / "credit" / "README.md"
    assert page.read_text() == credit_bench.first_page()


def test_an_empty_list_of_defeats_says_none():
    assert credit_bench._listed([]) == "none\n"
