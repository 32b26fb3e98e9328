"""The page of terms, critics and rewards: made from its data, and controls that lack one part."""

import pytest

pytest.importorskip("torch")

import terms
from arena_envs import make_game
from arena_envs.solvers import uniform_table
from comparing import read


def runs_of(own, other, measure="nash_conv"):
    """Runs of `kickstart` with and without it, flat curves by seed."""
    both = zip(terms.VARIANTS, (own, other), strict=True)
    return {
        "kickstart": {
            variant: {
                seed: {measure: [value] * (terms.POINTS + 1)}
                for seed, value in enumerate(values)
            }
            for variant, values in both
        }
    }


def test_the_page_is_that_of_its_data():
    """Write it with: python benchmarks/terms.py --seeds 0"""
    runs = read(terms.FILE, terms.made_with())
    assert all(
        len(runs[n][v]) >= 3
        for n in terms.SETTINGS
        if n in runs
        for v in terms.VARIANTS
    )
    assert terms.PAGE.read_text() == terms.page(runs)


def test_differences_are_of_runs_of_one_seed():
    gap = terms.difference(
        runs_of([0.1, 0.2, 0.4], [0.2, 0.3, 0.5]), "kickstart", "nash_conv", True
    )
    assert (gap.value, gap.wide) == (pytest.approx(-0.1), pytest.approx(0, abs=1e-9))


def test_a_missing_seed_leaves_the_difference_out():
    runs = runs_of([0.1, 0.2], [0.2])
    assert terms.difference(runs, "kickstart", "nash_conv", True) is None


@pytest.mark.parametrize("name", ["kickstart", "hapo", "aepo", "length-limit"])
def test_a_control_differs_by_its_part_alone(name):
    own, control = (terms.options_of(name, variant) for variant in terms.VARIANTS)
    assert {key for key in own if own[key] != control.get(key)} == {
        *terms.SETTINGS[name].control
    }


def test_the_length_of_replies_is_a_mean_over_expected_turns():
    game = make_game("twenty_questions", **terms.GAMES["twenty_questions"])
    table = {
        key: [1.0, *[0.0] * (len(row) - 1)] for key, row in uniform_table(game).items()
    }

    class Words:
        def encode(self, text, add_special_tokens):
            return text.split()

    # "is it an animal", "do people eat it", then the first guess, of two words, and ends
    assert terms.tokens_of(game, table, Words()) == pytest.approx((5 + 5 + 3) / 3)
