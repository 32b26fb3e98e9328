"""Outcomes from three starts: the starts, and that all runs of the file are done."""

import numpy as np

import credit_starts as bench


def test_every_run_is_done():
    known = bench.measured()
    for setting in bench.settings():
        assert bench.missing(known[setting]) == []


def test_the_starts_are_what_they_are_called():
    right = []
    for start in bench.STARTS:
        logits = bench.first_logits(start)
        policy = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        right.append(policy[:, 0])
    np.testing.assert_allclose(right[0], 1 / bench.NUM_ANSWERS)
    np.testing.assert_allclose(right[1], 0.34)
    wrong = np.arange(bench.NUM_SYMBOLS) < bench.NUM_SYMBOLS // 2
    assert right[2][wrong].max() < 0.05 < right[2][~wrong].min()


def test_a_policy_above_chance_learns_in_few_batches():
    setting = bench.Setting("right in 0.34", 8, "end")
    run = bench.Run("control_variates", 128.0, 0)
    batches = bench.learn(setting, run)
    assert 1 < batches < 30
    assert batches == bench.learn(setting, run)
