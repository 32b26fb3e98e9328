"""The credit of others that `docs/audit/formulas.py` writes again, against numbers by hand."""

import runpy
from pathlib import Path

import numpy as np
import pytest

from arena_credit import estimate

FORMULAS = runpy.run_path(str(Path(__file__).parents[2] / "docs/audit/formulas.py"))
GROUP = [np.array([1.0, 2.0]), np.array([0.0, 4.0, -1.0])]


def credit(name, **options):
    return [own.tolist() for own in FORMULAS[name](GROUP, **options)]


def test_prime_rl_subtracts_a_mean_or_what_earlier_traces_left():
    assert credit("prime_rl_grpo") == [[0.0] * 2, [0.0] * 3]
    assert credit("prime_rl_max_rl") == [[0.0] * 2, [0.0] * 3]
    later = 3 - 0.25 * 3  # 1 - decay of the first one's return
    assert credit("prime_rl_rae", decay=0.75) == [[3.0] * 2, [later] * 3]


def test_traces_that_end_first_are_scored_first():
    group = [np.array([0.0, 4.0]), np.array([2.0])]
    found = FORMULAS["prime_rl_rae_by_end"](group, decay=0.5)
    assert [own.tolist() for own in found] == [[4 - 0.5 * 2] * 2, [2.0]]


def test_turn_credit_spreads_progress_backwards():
    """Progress 0, 2 and 0, 4, -1: levels ∓ 1/2. γ = 1 spreads a progress evenly, γ = 0 not at all."""
    one = [1.0, 1.0]
    two = [2 - 1 / 3, 2 - 1 / 3, -1 / 3]
    for gamma, parts in ((1.0, (one, two)), (0.0, ([0.0, 2.0], [0.0, 4.0, -1.0]))):
        expected = [
            level + np.array(part) - np.mean(part)
            for level, part in zip((-0.5, 0.5), parts, strict=True)
        ]
        for own, wanted in zip(
            credit("turn_credit", gamma=gamma), expected, strict=True
        ):
            assert own == pytest.approx(wanted)
    # with the return as the final reward: 3 + 2 and 3 + 3, the same levels
    assert credit("turn_credit_final") == credit("turn_credit")


def test_step_rewards_are_compared_over_all_steps():
    """Returns-to-go 3, 2, 3, 3, -1: mean 2, variance 12 / 5."""
    spread = (12 / 5) ** 0.5
    flat = [x for own in credit("verifiers_1554") for x in own]
    assert flat == pytest.approx(np.array([1, 0, 1, 1, -3]) / spread)
    assert GROUP[0].tolist() == [1.0, 2.0]  # the rewards stay as they are


def test_at_grpo_compares_payments_of_equal_turns():
    """1 against 0, 2 against 4: ± 1 / √2. A turn alone keeps its reward, as in verl's GRPO."""
    half = 0.5**0.5
    first, second = credit("at_grpo")
    assert first == pytest.approx([half, -half], abs=1e-5)
    assert second == pytest.approx([-half, half, -1.0], abs=1e-5)
    first, second = credit("verl_7244")
    assert first == pytest.approx([0.0, -half], abs=1e-5)
    assert second == pytest.approx([-1.0, half - 1, -1.0], abs=1e-5)


def test_mars_released_is_our_estimator_for_one_seat_and_tokens_alone(batch):
    turns = batch(
        (0, 0, 0, GROUP[0].tolist()), (1, 0, 0, GROUP[1].tolist()), num_tokens=[1] * 5
    )
    expected = estimate("mars_released", turns).advantage
    assert np.concatenate(credit("mars_released")) == pytest.approx(expected, abs=1e-6)
