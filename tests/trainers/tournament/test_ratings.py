"""Ratings: Elo with a known maximum, OpenSkill's direction, Nash averages by hand."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import entropy

from arena_eval.tournament import (
    PairOutcome,
    fit_elo,
    nash_average,
    play_tournament,
    rate,
)
from arena_eval.tournament.round_robin import resampled_ratings, tournament_tables

CYCLE = np.array([[0, -1, 1], [1, 0, -1], [-1, 1, 0]], float)


def outcomes(first: int, second: int, wins: int, draws: int, losses: int):
    scores = [1.0] * wins + [0.5] * draws + [0.0] * losses
    return [PairOutcome(first, second, score) for score in scores]


@pytest.mark.parametrize(
    ("wins", "draws", "losses"), [(30, 0, 10), (10, 20, 10), (50, 0, 0), (0, 7, 33)]
)
def test_two_policies_are_as_far_apart_as_the_odds_say(wins, draws, losses):
    elos, errors = fit_elo(2, outcomes(0, 1, wins, draws, losses))
    own, other = wins + draws / 2 + 0.5, losses + draws / 2 + 0.5  # and one draw more
    assert elos[0] - elos[1] == pytest.approx(400 * np.log10(own / other), abs=1e-3)
    assert elos.mean() == pytest.approx(1500)
    # each rating is half of the gap away from the mean; its information is n p q
    total = own + other
    distance = 400 / np.log(10) * (total * own / total * other / total) ** -0.5
    assert errors == pytest.approx([distance / 2] * 2, rel=1e-4)


def test_ratings_do_not_depend_on_who_is_named_first():
    forward = outcomes(0, 1, 12, 3, 5) + outcomes(1, 2, 9, 0, 11)
    backward = [PairOutcome(b, a, 1 - score) for a, b, score in forward]
    elos, errors = fit_elo(3, forward)
    assert fit_elo(3, backward)[0] == pytest.approx(elos, abs=1e-3)
    assert fit_elo(3, backward)[1] == pytest.approx(errors, rel=1e-4)


def test_weighted_elo_is_the_fit_of_choix():
    choix = pytest.importorskip("choix")
    rng, wins = np.random.default_rng(0), np.zeros((5, 5))
    scores = rng.choice([0, 0.5, 1], 200, p=[0.6, 0.2, 0.2]).tolist()
    pairs = [rng.choice(5, 2, replace=False).tolist() for _ in scores]
    played = [PairOutcome(a, b, x) for (a, b), x in zip(pairs, scores, strict=True)]
    weights = (rng.random(200) * 3).tolist()
    for (first, second, score), weight in zip(played, weights, strict=True):
        wins[first, second] += weight * score
        wins[second, first] += weight * (1 - score)
    theta = choix.ilsr_pairwise_dense(wins + (1 - np.eye(5)) / 2)  # one draw more each
    elos, _ = fit_elo(5, played, weights)
    expected = 1500 + 400 / np.log(10) * (theta - theta.mean())
    assert elos == pytest.approx(expected, abs=1e-3)


def test_elo_finds_the_strengths_that_made_the_results():
    rng = np.random.default_rng(0)
    true = np.array([1350.0, 1450.0, 1550.0, 1650.0])
    num_runs, hits = 25, 0
    for _ in range(num_runs):
        played = [
            PairOutcome(
                a, b, float(rng.random() < 1 / (1 + 10 ** ((true[b] - true[a]) / 400)))
            )
            for a, b in product(range(4), range(4))
            for _ in range(60)
            if a != b
        ]
        elos, errors = fit_elo(4, played)
        hits += int((abs(elos - true) < 1.96 * errors).sum())
    assert 0.88 <= hits / (4 * num_runs) <= 1


def test_who_wins_more_is_rated_higher_by_both():
    names = ["strong", "weak", "middling"]
    played = [
        outcome
        for _ in range(10)
        for outcome in (
            *outcomes(0, 1, 3, 1, 0),
            *outcomes(0, 2, 2, 1, 1),
            *outcomes(1, 2, 1, 1, 2),
        )
    ]
    strong, weak, middling = rate(names, played)
    assert [strong.policy, weak.policy, middling.policy] == names
    assert strong.elo > middling.elo > weak.elo
    assert strong.mu > middling.mu > weak.mu
    for rating in (strong, weak, middling):
        assert rating.elo_low < rating.elo < rating.elo_high
        assert 0 < rating.sigma < 25 / 3


def test_nobody_who_has_not_played_is_rated():
    (first, second) = rate(["a", "b"], [])
    assert first.elo == second.elo == 1500
    assert [first.mu, first.sigma] == pytest.approx([25, 25 / 3])


def test_a_cycle_weighs_all_alike():
    found = nash_average(CYCLE)
    assert found.weights == pytest.approx([1 / 3] * 3)
    assert found.ratings == pytest.approx([0] * 3)


def test_a_copy_shares_the_weight_of_what_it_copies():
    order = [0, 0, 1, 2]
    found = nash_average(CYCLE[np.ix_(order, order)])
    assert found.weights == pytest.approx([1 / 6, 1 / 6, 1 / 3, 1 / 3], abs=1e-6)
    assert found.ratings == pytest.approx([0] * 4, abs=1e-9)


def test_who_loses_to_all_has_no_weight_and_does_not_move_the_others():
    payoffs = np.pad(CYCLE, (0, 1), constant_values=0.5)
    payoffs[3, :] = -0.5
    found = nash_average(payoffs)
    assert found.weights == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0])
    assert found.ratings == pytest.approx([0, 0, 0, -0.5])


def test_uneven_cycles_weigh_by_the_payoffs():
    # rock loses twice as much to paper: scissors, which beat paper, are worth more
    payoffs = [[0, -2, 1], [2, 0, -1], [-1, 1, 0]]
    assert nash_average(payoffs).weights == pytest.approx([1 / 4, 1 / 4, 1 / 2])


def test_equal_policies_weigh_the_same_and_a_winner_takes_all():
    assert nash_average(np.zeros((4, 4))).weights == pytest.approx([1 / 4] * 4)
    found = nash_average([[0, 1, 1], [-1, 0, 5], [-1, -5, 0]])
    assert found.weights == pytest.approx([1, 0, 0])
    assert found.ratings == pytest.approx([0, -1, -1])


def test_only_the_antisymmetric_part_counts_and_no_diagonal():
    noisy = CYCLE + 0.25
    np.fill_diagonal(noisy, np.nan)
    assert nash_average(noisy).weights == pytest.approx([1 / 3] * 3)


@pytest.mark.parametrize("size", [2, 3, 4, 7])
def test_the_weights_are_an_equilibrium(size: int):
    rng = np.random.default_rng(size)
    for _ in range(10):
        half = rng.normal(size=(size, size))
        found = nash_average(half)
        assert sum(found.weights) == pytest.approx(1)
        assert min(found.weights) >= 0
        assert max(found.ratings) < 1e-6
        for weight, rating in zip(found.weights, found.ratings, strict=True):
            assert weight < 1e-6 or rating > -1e-6


def test_no_other_equilibrium_is_more_even():
    # integer payoffs have many equilibria; this tries those on a grid
    grid = np.array([p for p in product(range(13), repeat=4) if sum(p) == 12]) / 12
    rng = np.random.default_rng(5)
    for _ in range(40):
        half = rng.integers(-1, 2, size=(4, 4))
        skew = (half - half.T) / 2
        found = nash_average(half)
        others = [p for p in grid if (skew @ p <= 1e-12).all()]
        most = max((entropy(p) for p in others), default=0)
        assert entropy(found.weights) >= most - 1e-5


@pytest.mark.parametrize(
    "payoffs", [[[0, 1]], [], [[0, float("nan")], [1, 0]], [[0, float("inf")], [1, 0]]]
)
def test_what_is_no_matrix_is_refused(payoffs):
    with pytest.raises(ValueError, match="want"):
        nash_average(payoffs)


def noisy_scores(payoffs, num_seeds, noise):
    draws = np.random.default_rng(4).normal(0, noise, (*payoffs.shape, num_seeds))
    scores = payoffs[:, :, None] + draws
    return scores - scores.transpose(1, 0, 2)  # zero-sum, and so twice the payoffs


def test_the_bootstrap_of_nash_averages_tells_apart_what_the_seeds_tell_apart():
    payoffs = np.array([[0, 0.1, 1], [-0.1, 0, 1], [-1, -1, 0]])
    few, many = (
        np.quantile(resampled_ratings(noisy_scores(payoffs, n, 1.0)), [0.025, 0.975], 0)
        for n in (20, 4000)
    )
    assert few[1, 1] == 0, "with few seeds the second may be as good as the first"
    assert many[1, 1] < 0
    assert many[0, 1] < -0.2 < many[1, 1]
    assert few[1, 2] < -0.5, "the third is worse than both"


def test_policies_that_few_seeds_do_not_tell_apart_share_a_rank():
    names = ["constant:0", "constant:1", "cfr:10"]
    (few,) = play_tournament(names, ["kuhn_poker"], 6).games
    assert few.ranks == (1, 1, 1)
    (table,) = [
        table
        for table in tournament_tables(play_tournament(names, ["kuhn_poker"], 6))
        if "Ranking" in str(table.title)
    ]
    ranks = next(column for column in table.columns if column.header == "rank")
    assert [*ranks.cells] == ["1", "1", "1"]
    (sure,) = play_tournament(["minimax", "random"], ["tic_tac_toe"], 20).games
    assert sure.ranks == (1, 2)
