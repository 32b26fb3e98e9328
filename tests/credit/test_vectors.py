"""The worked vectors: sparse, dense and mixed games, by every form of every estimator."""

import numpy as np
import pytest

from arena_credit import FlatPoolWarning, TurnBatch, estimate, trajectories
from arena_credit import returns_to_go as sum_to_go

PER_GAME = {"pool": ("game",), "eps": 1e-6}
OFF = {"whiten_rewards": False, "whiten_advantages": False}
FORMS = {
    "mars_paper": ("mars", {}),
    "mars_paper_gamma_0.9": ("mars", {"discount": 0.9}),
    "mars_paper_one_pool_per_game": ("mars", {"pool": ("game",)}),
    "mars_paper_key_role_only": ("mars", {"pool": ("seat",)}),
    "mars_paper_divided_by_std": ("mars", {"scale": "std"}),
    "mars_paper_episode_return_baseline": ("mars", {"baseline": "episode_returns"}),
    "grpo_episode_ddof1": ("episode", PER_GAME),
    "grpo_episode_ddof0": ("episode", PER_GAME | {"ddof": 0}),
    "normalise_then_sum_ddof1": ("normalise_then_sum", {}),
    "mars_released_after_step4_suffix_sum": (
        "mars_released",
        {"whiten_advantages": False, "advantage_norm": "none"},
    ),
    "mars_released": ("mars_released", {}),
    "mars_released_without_whitening": ("mars_released", OFF),
}


def flat(vector, expected):
    """One number per turn, where a trajectory may have one for all its turns."""
    rows = zip(vector["trajectories"], expected, strict=True)
    turns = [np.broadcast_to(row, len(t["turn_rewards"])) for t, row in rows]
    return np.concatenate(turns)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["V1", "V2", "V3"])
def test_advantages(vectors, vector_batches, name, form):
    vector = vectors[name]
    estimator, options = FORMS[form]
    got = estimate(estimator, vector_batches[name], **options).advantage
    np.testing.assert_allclose(got, flat(vector, vector["expected"][form]), atol=1e-5)


@pytest.mark.parametrize("name", ["V1", "V2", "V3"])
def test_returns_to_go(vectors, vector_batches, name):
    vector, turns = vectors[name], trajectories(vector_batches[name])
    for key, discount in (("turn_returns", 1.0), ("turn_returns_gamma_0.9", 0.9)):
        got = turns.scatter(sum_to_go(turns, turns.column("reward"), discount))
        np.testing.assert_allclose(
            got, flat(vector, vector["expected"][key]), atol=1e-5
        )


@pytest.mark.parametrize("name", ["V1", "V2", "V3"])
def test_centred_turn_rewards_are_what_the_released_form_sums(
    vectors, vector_batches, name
):
    """They are not returned: each is the difference of a suffix sum and the next."""
    vector = vectors[name]
    options = dict(advantage_norm="none", **OFF)
    sums = estimate("mars_released", vector_batches[name], **options).advantage
    ends = np.cumsum([len(t["turn_rewards"]) for t in vector["trajectories"]])
    after = np.append(sums[1:], 0.0)
    after[ends - 1] = 0.0
    expected = vector["expected"]["mars_released_step2_centred_turn_rewards"]
    np.testing.assert_allclose(sums - after, flat(vector, expected), atol=1e-5)


def test_every_expected_form_is_tested(vectors):
    tested = {*FORMS, "turn_returns", "turn_returns_gamma_0.9"}
    tested.add("mars_released_step2_centred_turn_rewards")
    forms = {key for name in ("V1", "V2", "V3") for key in vectors[name]["expected"]}
    assert forms == tested


def one_turn_each(returns, **columns):
    zeros, numbers = [0] * len(returns), range(len(returns))
    return TurnBatch(returns, zeros, numbers, zeros, zeros, zeros, **columns)


@pytest.mark.parametrize("index", range(3))
@pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
def test_groups(vectors, index):
    group = vectors["V5"]["groups"][index]
    turns = one_turn_each(group["returns"])
    scaled = estimate("episode", turns, eps=1e-6).advantage
    expected = group["expected_standardised_ddof1_eps1e-6"]
    np.testing.assert_allclose(scaled, expected, atol=1e-5)
    plain = estimate("episode", turns, scale="none").advantage
    np.testing.assert_allclose(plain, group["expected_mean_only"], atol=1e-5)


@pytest.mark.parametrize("returns", [[5, 5, 5], [2]])
def test_groups_without_spread_are_warned_about(returns):
    with pytest.warns(FlatPoolWarning, match="a single value or equal values"):
        estimate("episode", one_turn_each(returns))


def test_a_masked_sample_is_in_no_group(vectors):
    sample = vectors["V5"]["masked_sample"]
    turns = one_turn_each(sample["returns"], mask=sample["mask"])
    got = estimate("episode", turns, scale="none").advantage
    np.testing.assert_allclose(got, sample["expected_mean_only"], atol=1e-5)


@pytest.mark.parametrize(
    ("episode", "turn"), [([0, 0, 1], [0, 1, 0]), ([0, 1, 2], [0, 0, 0])]
)
def test_segments_of_a_rollout_count_once(vectors, episode, turn):
    """Rollout A is paid .4 in one segment and .6 in the other, 1.0 in all."""
    expected = vectors["V5"]["segments"]
    zeros, rollout = [0, 0, 0], [0, 0, 1]
    reward = [0.4, 0.6, 0.5]
    turns = TurnBatch(reward, zeros, episode, zeros, turn, zeros, rollout=rollout)
    advantage, _, report = estimate("episode", turns, scale="none")
    np.testing.assert_allclose(report.mean, expected["baseline_over_rollouts"])
    np.testing.assert_allclose(advantage, expected["expected_segment_advantages"])
