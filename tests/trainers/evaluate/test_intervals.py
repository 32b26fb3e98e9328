"""Intervals hold the mean where payoffs are skewed, mostly zero or rarely very low."""

import numpy as np
import pytest

from arena_eval.intervals import (
    adjusted_interval,
    hull_interval,
    mean_interval,
    paired_interval,
    student_interval,
)

LEDUC = {  # half equilibrium, half uniform play against the equilibrium, by enumeration
    **{-13: 0.0124, -11: 0.0144, -9: 0.0429, -7: 0.0479, -5: 0.0528, -3: 0.0980},
    **{-1: 0.1670, 0: 0.1081, 1: 0.2237, 3: 0.1137, 5: 0.0701, 7: 0.0251, 9: 0.0192},
    **{11: 0.0016, 13: 0.0032},
}
POKER = {-13: 0.005, -1: 0.6, 1: 0.355, 13: 0.04}
MOSTLY_ZERO = {-6: 0.002, -4: 0.0222, -2: 0.0162, 0: 0.9188, 2: 0.0192, 4: 0.0216}
NUM_RUNS = 300


def samples_of(law: dict[int, float], size: int):
    values, chances = np.array([*law], float), np.array([*law.values()])
    chances /= chances.sum()
    rng = np.random.default_rng(1)
    samples = rng.choice(values, (NUM_RUNS, size), p=chances)
    return float(values @ chances), samples


@pytest.mark.parametrize("size", [8, 49, 50, 100])
def test_intervals_of_skewed_payoffs_hold_the_mean_at_every_n(size: int):
    """The bootstrap held 89 % at n = 100, from n = 50 on."""
    mean, samples = samples_of(POKER, size)
    ends = [mean_interval(sample, -13, 13) for sample in samples]
    assert sum(low <= mean <= high for low, high in ends) >= 0.93 * NUM_RUNS


@pytest.mark.parametrize("size", [20, 50, 100])
def test_intervals_of_differences_that_are_mostly_zero_hold_the_mean(size: int):
    """The bootstrap held 78 % at n = 50."""
    mean, samples = samples_of(MOSTLY_ZERO, size)
    ends = [paired_interval(sample, 26) for sample in samples]
    assert sum(low <= mean <= high for low, high in ends) >= 0.93 * NUM_RUNS


@pytest.mark.parametrize("size", [10, 20, 50])
def test_intervals_of_means_with_the_luck_taken_out_hold_rare_surprises(size: int):
    """Of Leduc poker, with imaginary observations."""
    law = {
        -0.5: 0.16,
        0: 0.563,
        0.5: 0.064,
        1: 0.05,
        1.5: 0.013,
        -1: 0.037,
        -1.5: 0.036,
    }
    law |= {
        -2: 0.017,
        -2.5: 0.015,
        -3: 0.01,
        -4: 0.025,
        -5: 0.003,
        -7: 0.005,
        -9: 0.003,
    }
    mean, samples = samples_of(law, size)
    ends = [adjusted_interval(sample, -13, 13) for sample in samples]
    held = sum(low <= mean <= high for low, high in ends)
    narrow = [hull_interval(sample, -13, 13) for sample in samples]
    assert held >= 0.93 * NUM_RUNS
    if size < 50:
        assert held > sum(low <= mean <= high for low, high in narrow)


def test_intervals_of_100_payoffs_are_at_most_a_quarter_wider_than_students():
    _, samples = samples_of(LEDUC, 100)
    bounded = [np.diff(mean_interval(sample, -13, 13)) for sample in samples]
    student = [np.diff(student_interval(sample)) for sample in samples]
    assert np.mean(bounded) <= 1.25 * np.mean(student)


def test_the_hull_holds_students_interval_and_its_own_ends_mirror():
    sample = np.array([0.0, 0.0, 1.0, 5.0, -2.0])
    low, high = hull_interval(sample)
    narrow = student_interval(sample)
    assert low < narrow[0] < narrow[1] < high
    assert hull_interval(-sample) == pytest.approx((-high, -low))


def test_bounds_cut_intervals_of_differences():
    assert paired_interval([2.0, -2.0, 2.0], 2.0) == (-2.0, 2.0)


def test_more_values_than_a_chunk_give_the_same_interval_up_to_the_draws():
    sample = np.random.default_rng(0).uniform(-1, 1, 600)
    ends = mean_interval(sample, -1, 1)
    assert ends == pytest.approx(student_interval(sample), abs=0.01)
