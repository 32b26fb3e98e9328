"""Entropies from the likeliest tokens: exact means by summing over all tokens."""

import math

import numpy as np
import pytest

from arena_trainers.lm.backends.top_logprobs import NUM_TOP, entropy_estimate

VOCABULARY = 50


@pytest.mark.parametrize("cut", [0, 3, 30])
@pytest.mark.parametrize("adds_drawn", [True, False])
def test_the_surprise_of_the_likeliest_tokens_has_mean_zero(cut, adds_drawn):
    """Σ π(token) (log π(token) + e) = 0, also where a cut leaves fewer tokens than are listed."""
    rng = np.random.default_rng(cut)
    logprobs = rng.normal(scale=2.0, size=VOCABULARY)
    logprobs[cut or VOCABULARY :] = -np.inf
    logprobs -= np.log(np.exp(logprobs).sum())
    order = np.argsort(-logprobs)[:NUM_TOP]
    mean_surprise = mean_entropy = 0.0
    for token in np.flatnonzero(np.isfinite(logprobs)).tolist():
        top = {int(i): float(logprobs[i]) for i in order}
        if adds_drawn:
            top[token] = float(logprobs[token])
        estimate = entropy_estimate(token, float(logprobs[token]), top)
        assert estimate >= 0
        mean_surprise += math.exp(logprobs[token]) * (logprobs[token] + estimate)
        mean_entropy += math.exp(logprobs[token]) * estimate
    present = np.isfinite(logprobs)
    exact = -(np.exp(logprobs[present]) * logprobs[present]).sum()
    assert abs(mean_surprise) < 1e-12
    assert mean_entropy == pytest.approx(exact, abs=1e-12)


def test_a_token_that_is_not_listed_keeps_its_chance_in_spite_of_rounding():
    listed = {i: math.log(0.05000001) for i in range(NUM_TOP)}
    assert entropy_estimate(99, -30.0, listed) == pytest.approx(math.log(20), abs=1e-5)
