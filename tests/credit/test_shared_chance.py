"""Groups whose episodes share the draws of chance, as in training, and parts of the reward."""

import itertools
import math

import numpy as np
import pytest

from arena_credit import estimate, estimator_names
from arena_credit.by_name import claims_of
from arena_credit.proofs import (
    DIAGNOSTICS,
    ExactGame,
    compare,
    gradient_estimate,
    play_of,
    undiscounted,
)
from arena_credit.proofs.findings import has_chance
from arena_envs import make_game

pytestmark = pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
WITH_CHANCE = [name for name in DIAGNOSTICS if has_chance(name)]
PLAIN = {"ddof": 0, "eps": 0.0}


def test_the_kth_number_drawn_decides_at_the_kth_chance_node():
    """After a call .2, else .5 wins: one number below .2 wins both, one above .5 neither."""
    chance, allowed = play_of("call").game.starts
    assert chance.tolist() == pytest.approx([0.2, 0.3, 0.5])
    won = play_of("call").game.flat.reward > 0.9
    wins = np.add.reduceat(won, play_of("call").game.flat.start) > 0
    assert [(wins & row).sum() for row in allowed] == [4, 2, 0]
    assert allowed.sum(axis=1).tolist() == [4, 4, 4]


def test_deals_of_kuhn_poker_are_its_starts():
    chance, allowed = ExactGame(make_game("kuhn_poker")).starts
    np.testing.assert_allclose(chance, np.full(6, 1 / 6))
    assert allowed.sum(axis=1).tolist() == [5] * 6
    assert allowed.sum(axis=0).tolist() == [1] * 30


@pytest.mark.parametrize("name", DIAGNOSTICS)
def test_starts_are_as_likely_as_what_they_allow(name):
    play = play_of(name)
    chance, allowed = play.game.starts
    assert chance.sum() == pytest.approx(1)
    likely = allowed * play.probability / play.game.flat.chance
    np.testing.assert_allclose(likely.sum(axis=1), 1)
    np.testing.assert_allclose(chance @ likely, play.probability)


@pytest.mark.parametrize("name", WITH_CHANCE)
def test_a_population_of_groups_holds_every_line_as_often_as_it_is_likely(name):
    play = play_of(name)
    drawn, group = play.grouped_population(100)
    count = np.bincount(drawn, minlength=play.game.num_lines)
    np.testing.assert_allclose(count, len(drawn) * play.probability)
    sizes = np.bincount(group)
    assert sizes.min() == sizes.max() >= 100
    for number in range(group.max() + 1):
        own = np.unique(drawn[group == number])
        assert play.game.starts[1][:, own].all(axis=1).any()
    turns = play.batch(drawn, group)
    assert turns.group.tolist() == group[turns.episode].tolist()


@pytest.mark.parametrize("game", ["umbrella", "hidden_card"])
@pytest.mark.parametrize(
    "name", [n for n in estimator_names() if claims_of(n).bias_two == "exact"]
)
def test_what_is_exact_in_batches_of_two_is_so_if_they_share_chance(name, game):
    play = play_of(game)
    total = np.zeros(len(play.policy))
    for chance, allowed in zip(*play.game.starts, strict=True):
        lines = np.flatnonzero(allowed)
        likely = play.probability / play.game.flat.chance
        for pair in map(list, itertools.product(lines, repeat=2)):
            weight = chance * likely[pair].prod()
            options = undiscounted(name)
            total += weight * gradient_estimate(name, play, pair, **options)
    np.testing.assert_allclose(total, play.gradient, atol=1e-12)


def kuhn_verdict(name, **options):
    """By deal, at a policy that bets or calls once in four times or evenly, in turns."""
    exact = ExactGame(make_game("kuhn_poker"))
    weights = {key: (3, 1) if i % 2 else (1, 1) for i, key in enumerate(exact.keys)}
    play = exact.at(exact.policy(weights))
    drawn, groups = play.grouped_population(2000)
    options |= undiscounted(name)
    found = gradient_estimate(name, play, drawn, groups, **options)
    return compare(found, play.gradient, exact.seat, 3e-3)


@pytest.mark.parametrize("name", ["dr_grpo", "rloo", "mars", "mars_loo", "gae"])
def test_kuhn_poker_by_deals_is_exact_without_a_scale(name):
    assert kuhn_verdict(name).kind == "exact"


@pytest.mark.parametrize("name", ["episode", "flow_grpo", "salt", "gigpo"])
def test_kuhn_poker_by_deals_is_turned_by_z_scores(name):
    found = kuhn_verdict(name)
    assert found.kind in ("direction", "reversed")
    assert found.cosine < 0.99


def test_mars_by_deals_as_the_default_job_has_it_is_exact_but_for_a_scale():
    by_deal = {"pool": ("group", "seat")}
    assert kuhn_verdict("mars", **by_deal).kind == "exact"
    assert kuhn_verdict("mars", scale="std", **by_deal).kind == "direction"


def test_z_scores_by_deal_turn_the_gradient_around():
    """Each deal is scored ±√(p(1-p)), .433 at p = 1/4: .8 times that towards daring. The
    true gradients are in `diagnostics`: of seat 0 against daring, of seat 1 for it."""
    play = play_of("hidden_card")
    groups = play.grouped_population(4)
    got = gradient_estimate("episode", play, *groups, **PLAIN)
    z = 0.8 * 0.1875**0.5
    np.testing.assert_allclose(got, [-z, z, -z, z])
    np.testing.assert_allclose(play.gradient, [0.0103125, -0.0103125, -0.015, 0.015])


def test_means_by_deal_that_are_usual_weigh_less_than_rare_ones():
    """Seat 1: returns of -1 to 0.2 are shares of 0 to 1. Nine means of 0.875 and one of 0.625
    have mean 0.85 and variance 0.00625: 0.1275 / 0.00625 - 1 = 19.4, of which 0.85 / 3 and
    0.15 / 3 are added to 1: α = 6.4967, β = 1.97."""
    play = play_of("hidden_card")
    got = gradient_estimate("bnpo", play, *play.grouped_population(4))
    a, b = 1 + 19.4 * 0.85 / 3, 1 + 19.4 * 0.15 / 3
    whole = math.gamma(a) * math.gamma(b) / math.gamma(a + b)
    usual, rare = (x ** (a - 1) * (1 - x) ** (b - 1) / whole for x in (0.875, 0.625))
    expected = 0.1875 / 1.2 * (0.9 * 0.2 / usual - 0.1 / rare)
    assert got[3] == pytest.approx(expected)
    assert expected < 0 < play.gradient[3]


@pytest.mark.parametrize("name", DIAGNOSTICS)
def test_parts_of_the_reward_add_up(name):
    play = play_of(name)
    turns = play.batch(range(play.game.num_lines))
    parts = turns.rewards["game"] + turns.rewards["side_reward"]
    np.testing.assert_allclose(parts, turns.reward)
    assert turns.rewards["side_reward"].any() == (name == "call")


def test_a_call_is_paid_at_once_besides_the_outcome():
    play = play_of("call")
    turns = play.batch(range(play.game.num_lines))
    first = turns.turn == 0
    assert turns.rewards["side_reward"][first].tolist() == [0] * 4 + [0.1] * 4
    assert turns.rewards["game"][~first].tolist() == [1, 0] * 4
    neat = pytest.approx([0, 0, 0.25, 0.25] * 2)
    assert turns.rewards["side_reward"][~first].tolist() == neat


def test_mt_grpo_takes_a_small_part_for_as_much_as_the_outcome():
    """One large group. The outcome is 1 with 0.35, deviation √.2275, and worth .3 less after
    a call. What else is paid, 0 or .1 and 0 or .25, deviates by √(.05² + .125²), and a call
    adds .1. At the end neatness counts for nothing."""
    play = play_of("call")
    got = gradient_estimate("mt_grpo", play, play.population(40), **PLAIN)
    call = -0.3 / 0.2275**0.5 + 0.1 / (0.05**2 + 0.125**2) ** 0.5
    np.testing.assert_allclose(got[1], 0.25 * call)
    np.testing.assert_allclose(got[2:], 0, atol=1e-12)
    assert call > 0 > play.gradient[1]


def test_flow_grpo_of_the_outcome_follows_the_outcome_alone():
    """The same: a call is worth -.3 and neatness nothing, over the outcome's deviation."""
    play = play_of("call")
    drawn = play.population(40)
    got = gradient_estimate("flow_grpo", play, drawn, outcome="game", **PLAIN)
    expected = -0.25 * 0.3 / 0.2275**0.5
    np.testing.assert_allclose(got[:2], [-expected, expected])
    np.testing.assert_allclose(got[2:], 0, atol=1e-12)


# Delegation: a planner answers itself and is paid 1, or sends a worker, who does it well or
# not. Then the planner ends, and is paid 3 for what was done well; the worker's own part,
# for its reply, is 0.5 then. Sending is worth 3.5 q. Both choose by chance.

P, Q = 0.25, 0.4  # sending, doing it well
ENDS = {"alone": 1 - P, "well": P * Q, "badly": P * (1 - Q)}
TRUE = {"send": P * (1 - P) * (3.5 * Q - 1), "well": P * Q * (1 - Q) * 3.5}


def delegated(batch, ends):
    """The gradient that `matpo` makes of episodes with these ends."""
    rows, parent, whose = [], [], []
    for i, end in enumerate(ends):
        sent, well = end != "alone", end == "well"
        plan = [0.0, 3.0 * well] if sent else [1.0]
        rows.append((2 * i, 0, 0, plan))
        parent += [-1] * len(plan)
        whose += ["send", None][: len(plan)]
        if sent:
            rows.append((2 * i + 1, 0, 0, [0.5 * well]))
            parent.append(2 * i)
            whose.append("well")
    turns = batch(*rows, parent=parent)
    advantage = estimate("matpo", turns, **PLAIN).advantage
    total = {"send": 0.0, "well": 0.0}
    for choice, episode, a in zip(whose, turns.episode, advantage, strict=True):
        end = ends[episode // 2]
        if choice == "send":
            total["send"] += a * ((end != "alone") - P)
        elif choice == "well":
            total["well"] += a * ((end == "well") - Q)
    return {choice: value / len(ends) for choice, value in total.items()}


def test_matpo_has_a_factor_for_planner_and_worker_in_one_large_group(batch):
    """Of 20 planners 15 answer themselves, and 5 send; one deviation for all returns."""
    ends = ["alone"] * 15 + ["well"] * 2 + ["badly"] * 3
    got = delegated(batch, ends)
    std = np.std([1.0] * 15 + [3.5] * 2 + [0.0] * 3)
    for choice, true in TRUE.items():
        assert got[choice] == pytest.approx(true / std)


def test_matpo_of_two_prefers_what_is_often_good(batch):
    """Sending is worth 1.4, but pays less than 1 three times in five. The higher of two
    different returns gets 1 and the lower -1."""
    total = {"send": 0.0, "well": 0.0}
    for pair in itertools.product(ENDS, repeat=2):
        weight = ENDS[pair[0]] * ENDS[pair[1]]
        for choice, value in delegated(batch, pair).items():
            total[choice] += weight * value
    often_alone = (1 - P) * P * (1 - 2 * Q)
    assert total["send"] == pytest.approx(-often_alone)
    assert total["send"] < 0 < TRUE["send"]
    assert total["well"] > 0
