"""The exact variance of estimators: by hand, by sampling, and as a claim."""

import numpy as np
import pytest

from arena_credit import Claims
from arena_credit.by_name import claims_of
from arena_credit.proofs import (
    DIAGNOSTICS,
    exact_variance,
    gradient_estimate,
    play_of,
)
from arena_credit.testing import BrokenPromise, check_noise

NAME = "random_effects"
pytestmark = pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")


@pytest.mark.parametrize(
    ("name", "known"), [("rloo", 0.0025), ("random_effects", 0.001875)]
)
def test_the_variance_in_stop_or_go_is_that_worked_by_hand(name, known):
    """A pair of unequal actions of which the returns differ by 0.2 gives (-0.2, 0.2) with
    `rloo`, an equal pair 0, each half of the time: 2 · (2 · 0.01 / 16).

    With `random_effects` w is 0 beside an unequal pair, and every pair gives half of it; else
    w is 1 and all is as in `rloo`. The sum of two pairs is 1, 1.5, 1.5 or 0 times (-0.2, 0.2):
    2 · 0.375 · 0.04 / 16.
    """
    assert exact_variance(name, "stop_or_go") == pytest.approx(known)


def test_the_variance_is_that_of_sampled_batches():
    """Groups drawn one by one: first the draws of chance, then two lines that they allow."""
    play, rng = play_of("signal"), np.random.default_rng(0)
    chance, allowed = play.game.starts
    found = []
    for _ in range(600):
        drawn: list[int] = []
        for start in rng.choice(len(chance), 2, p=chance):
            likely = np.where(allowed[start], play.probability, 0)
            drawn += rng.choice(len(likely), 2, p=likely / likely.sum()).tolist()
        found.append(gradient_estimate(NAME, play, drawn, np.array([0, 0, 1, 1])))
    estimates = np.array(found)
    factor = estimates.mean(axis=0) @ play.gradient / (play.gradient @ play.gradient)
    sampled = estimates.var(axis=0).sum() / factor**2
    assert sampled == pytest.approx(exact_variance(NAME, "signal"), rel=0.15)


def test_a_noise_above_the_claim_breaks_it(monkeypatch):
    one = {"bandit": DIAGNOSTICS["bandit"]}
    monkeypatch.setattr("arena_credit.proofs.findings.DIAGNOSTICS", one)
    assert check_noise("mars_loo", Claims(noise=0.9))["bandit"] == pytest.approx(9 / 11)
    with pytest.raises(
        BrokenPromise, match=r"at most 0.8 times .* got 0.818 in bandit"
    ):
        check_noise("mars_loo", Claims(noise=0.8))


def test_the_order_of_episodes_has_no_exact_variance():
    with pytest.raises(
        ValueError, match="want an estimator without a state, got 'rae'"
    ):
        exact_variance("rae", "bandit")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["random_effects", "rloo", "dr_grpo", "gae"])
def test_the_claims_of_noise_hold(name):
    assert max(check_noise(name, claims_of(name)).values()) > 0.8
