"""The noise of `control_variates`: the file, its page, and what it must not exceed."""

import json
import math

import numpy as np
import pytest

import credit_noise as bench

ROWS = [(bench.Cell(**row["cell"]), row["noise"]) for row in json.loads(bench.FILE.read_text())]  # fmt: skip


def noise(section, groups=16, size=8, game="rounds", **options):
    """The noise of all estimators in one row of the file."""
    for cell, values in ROWS:
        if (cell.section, cell.game, cell.groups, cell.size) == (
            section,
            game,
            groups,
            size,
        ) and all(cell.options.get(key) == value for key, value in options.items()):
            return {name: value[0] for name, value in values.items()}
    raise AssertionError(f"no row {section} {options}")


def test_every_setting_is_measured():
    assert [bench.key_of(cell) for cell, _ in ROWS] == [
        bench.key_of(cell) for cell in bench.cells()
    ]


def test_the_page_is_up_to_date():
    """Write it with: python benchmarks/credit_noise.py --write"""
    assert bench.PAGE.read_text() == bench.page()


@pytest.mark.parametrize(
    ("section", "options"),
    [
        ("rounds", {"num": 4, "pay": "each"}),
        ("lengths", {"game": "stopped", "groups": 4, "size": 4, "mean": 10.0}),
    ],
)
def test_a_row_is_measured_again(section, options):
    """Batches do not depend on how many are drawn: two give the same noise as before."""
    for cell, _ in ROWS:
        if cell.section == section:
            first, again = (bench.noises(cell, 2) for _ in range(2))
            assert first == again
            assert all(value[0] > 0.5 for value in first.values())
            return


@pytest.mark.parametrize(
    ("most", "section", "options"),
    [
        (1.1, "rounds", {"num": 32, "pay": "each"}),
        (1.1, "rounds", {"num": 32, "pay": "end"}),
        (1.1, "rounds", {"num": 12, "pay": "luck last"}),
        (7.5, "partly", {"num": 32, "pay": "each"}),
        (4.2, "games", {"game": "tic_tac_toe", "skill": 0.8}),
    ],
)
def test_noise_is_at_most(most, section, options):
    assert noise(section, **options)[bench.NEW] <= most


@pytest.mark.parametrize("num", [8, 32, 48])
def test_one_slope_explains_about_what_it_can(num):
    """1 + (1 - R²)(T - 1) / 2 where each round pays, R² of the best slope of all."""
    least = 1 + (1 - bench.explained("skill", 0.3)) * (num - 1) / 2
    row = noise("wrong", num=num, pay="each", wrong=0.3)
    assert row[bench.NEW] <= 1.2 * least


def test_in_card_games_a_small_batch_loses_nothing():
    """Also near an equilibrium, where rare choices have a large surprise."""
    rows = [(c, v) for c, v in ROWS if c.game in ("kuhn_poker", "leduc_poker")]
    assert rows
    for cell, values in rows:
        most = 1.03 if cell.groups == 16 else 1.08
        assert values[bench.NEW][0] <= most * values["random_effects"][0]


def test_turns_that_few_reach_are_compared_with_their_seat():
    for groups, size, most in ((4, 4, 0.95), (16, 8, 0.45)):
        row = noise("lengths", groups, size, "stopped", mean=10.0, wrong=0.0)
        assert row[bench.NEW] <= most * row["mars"]


def test_pairs_of_pairs_are_about_as_noisy_as_mars():
    for options in ({"num": 2, "pay": "end"}, {"num": 2, "pay": "each"}):
        row = noise("pairs", 2, 2, **options)
        assert row[bench.NEW] <= 1.1 * row["mars"]


def test_where_surprise_says_nothing_little_is_lost():
    rows = [
        values
        for cell, values in ROWS
        if cell.section == "unrelated" and cell.groups * cell.size >= 128
    ]
    assert rows
    for values in rows:
        assert values[bench.NEW][0] <= 1.03 * values["random_effects"][0]


def test_an_interval_of_equal_batches_has_no_width():
    squares = np.tile([4.0, 1.0, 1.0], (5, 1))
    assert bench.interval(squares) == [4.0, 4.0, 4.0]
    assert bench.interval(squares * [1, 1, -1])[0] == math.inf


@pytest.mark.parametrize("kind", ["skill", "lift", "unrelated"])
def test_surprise_and_value_have_mean_zero(kind):
    policy, value, surprise, entropy = bench.answers(kind, 0.3)
    for column in (value, surprise):
        np.testing.assert_allclose((policy * column).sum(axis=1), 0, atol=1e-12)
    np.testing.assert_allclose(
        (policy * (np.log(policy) + entropy[:, None])).sum(), 0, atol=1e-12
    )
