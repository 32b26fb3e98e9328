"""The proof harness: true gradients, batches with exact columns, expectations, verdicts."""

import itertools

import numpy as np
import pytest

from arena_credit import FlatPoolWarning, estimate
from arena_credit.proofs import (
    DIAGNOSTICS,
    REINFORCE,
    ExactGame,
    agrees,
    compare,
    expected_gradient,
    gradient_estimate,
)
from arena_credit.proofs.exact import COLUMNS
from arena_credit.proofs.findings import Expectation
from arena_envs import make_game
from arena_envs.solvers import expected_returns

every_game = pytest.mark.parametrize("name", DIAGNOSTICS)
UNLIMITED = [name for name, game in DIAGNOSTICS.items() if game.max_turns is None]


def play_of(name):
    diagnostic = DIAGNOSTICS[name]
    game = ExactGame(diagnostic, diagnostic.max_turns)
    return game.at(game.policy(diagnostic.weights))


def return_of(game, table, seat):
    """Expected return of a seat, by the rules alone."""

    def value(state):
        player = game.current_player(state)
        if player == -1:
            return sum(p * value(game.apply(state, o)) for o, p in outcomes(state))
        if player < 0:
            return game.returns(state)[seat]
        row = table[player, game.information_state(state, player)]
        actions = game.legal_actions(state)
        return sum(
            p * value(game.apply(state, a)) for a, p in zip(actions, row, strict=True)
        )

    outcomes = game.chance_outcomes
    return value(game.initial_state())


def table_of(game, policy):
    parts = np.split(policy, np.flatnonzero(np.diff(game.infoset)) + 1)
    return dict(zip(game.keys, parts, strict=True))


@every_game
def test_the_gradient_is_the_one_worked_by_hand(name):
    play = play_of(name)
    for key, derivative in DIAGNOSTICS[name].known.items():
        here = play.game.infoset == play.game.keys.index(key)
        assert play.gradient[here][-1] == pytest.approx(derivative), key


@every_game
def test_the_gradient_is_the_slope_of_the_return(name):
    """Central differences of the whole game's return, recursively by the rules."""
    diagnostic = DIAGNOSTICS[name]
    play = play_of(name)
    game, logits = play.game, np.log(play.policy)
    for column, slope in enumerate(play.gradient):
        values = []
        for step in (1e-5, -1e-5):
            changed = logits.copy()
            changed[column] += step
            table = table_of(game, game.softmax(changed))
            values.append(return_of(diagnostic, table, game.seat[column]))
        beyond_the_limit = game.keys[game.infoset[column]][1] == "late"
        if not beyond_the_limit:
            expected = (values[0] - values[1]) / 2e-5
            assert slope == pytest.approx(expected, abs=1e-8)


def test_kuhn_poker_has_the_gradient_and_the_returns_of_the_solvers():
    game = make_game("kuhn_poker")
    exact = ExactGame(game)
    policy = exact.softmax(np.random.default_rng(0).normal(size=24))
    play = exact.at(policy)
    first = play.probability.sum()
    assert first == pytest.approx(1)
    before = np.array(expected_returns(game, table_of(exact, policy)))
    slope = np.zeros(24)
    for column in range(24):
        logits = np.log(policy)
        logits[column] += 1e-6
        after = expected_returns(game, table_of(exact, exact.softmax(logits)))
        slope[column] = (np.array(after) - before)[exact.seat[column]] / 1e-6
    np.testing.assert_allclose(play.gradient, slope, atol=1e-5)


@every_game
def test_values_are_what_is_expected_next(name):
    """Bellman: V = E[r + V'], the critic's own next value where the limit cuts."""
    play = play_of(name)
    total = np.zeros(len(play.policy))
    for line, p in enumerate(play.probability):
        turns = play.batch([line])
        for seat in set(turns.seat.tolist()):
            own = np.flatnonzero(turns.seat == seat)
            after = [*turns.value[own][1:], 0.0]
            if turns.truncated[own[-1]]:
                after[-1] = turns.next_value[own[-1]]
            column = play.game.flat.column[play.game.flat.rows([line])][own]
            np.add.at(total, column, p * (turns.reward[own] + after - turns.value[own]))
    infoset = np.bincount(play.game.infoset, total)
    np.testing.assert_allclose(infoset, 0, atol=1e-12)


@every_game
def test_batches_have_every_column_that_is_promised(name):
    turns = play_of(name).batch([0, 1])
    for column in COLUMNS:
        owner, _, part = column.partition(".")
        found = getattr(turns, owner)
        assert (found[part] if part else found) is not None
    read = turns.truncated
    assert np.isfinite(turns.next_value[read]).all()
    assert np.isnan(turns.next_value[~read]).all()
    ends = np.bincount(
        3 * turns.episode + turns.seat, turns.terminated | turns.truncated
    )
    assert set(ends.tolist()) <= {0, 1}


def test_a_limit_of_turns_cuts_and_the_critic_knows_what_was_cut_off():
    play = play_of("patience")
    turns = play.batch(range(4))
    quick, slow = turns.episode < 2, turns.episode >= 2
    assert turns.terminated[quick].tolist() == [False, True] * 2
    assert turns.truncated[slow].tolist() == [False, True] * 2
    assert turns.next_value[turns.truncated].tolist() == [3, 3]
    assert turns.reward[slow].tolist() == [0, 0, 0, 0.25]
    assert turns.value[slow].tolist() == [2.125, 3.125] * 2  # (1.125 + 3.125) / 2


def test_a_judge_finds_the_better_actions():
    play = play_of("bandit")
    assert play.action_value.tolist() == [1, 2]
    assert play.judge.tolist() == [-1, 1]


@pytest.mark.parametrize("name", UNLIMITED)
@pytest.mark.parametrize("size", [1, 2])
def test_the_return_to_go_is_unbiased(name, size):
    play = play_of(name)
    found = expected_gradient(REINFORCE, play, size)
    assert found.num_batches == play.game.num_lines**size
    assert agrees(found, play.gradient)


@pytest.mark.parametrize("name", UNLIMITED)
def test_larger_batches_divide_the_variance(name):
    play = play_of(name)
    one, two = (expected_gradient(REINFORCE, play, size) for size in (1, 2))
    np.testing.assert_allclose(two.variance, one.variance / 2, atol=1e-12)


@pytest.mark.slow
def test_expectations_of_drawn_batches_pass_and_fail_the_z_test():
    """Kuhn poker, batches of 8: leaving the own episode out is unbiased, the mean with the
    own episode is shrunk, which 1,000 batches of 8 do not hide."""
    exact = ExactGame(make_game("kuhn_poker"))
    play = exact.at(exact.policy())
    found = expected_gradient("mars_loo", play, 8, num_batches=1000)
    assert found.num_batches == 1000
    assert found.error.any()
    assert agrees(found, play.gradient)
    assert not agrees(expected_gradient("mars", play, 2, 4000), play.gradient)
    assert not agrees(found, -play.gradient)


def test_a_z_test_allows_for_its_errors_and_no_more():
    """One component: 3.29 standard errors leave 0.001."""
    for deviation, expected in ((3.2, True), (3.4, False)):
        found = Expectation(np.array([deviation]), np.ones(1), np.ones(1), 100)
        assert agrees(found, np.zeros(1)) == expected


@every_game
def test_a_population_holds_every_line_as_often_as_it_is_likely(name):
    play = play_of(name)
    drawn = play.population(100)
    count = np.bincount(drawn, minlength=play.game.num_lines)
    np.testing.assert_allclose(count, len(drawn) * play.probability)
    assert len(drawn) >= 100


def test_a_policy_without_a_population_is_refused():
    exact = ExactGame(DIAGNOSTICS["bandit"])
    with pytest.raises(ValueError, match="want lines of play with probabilities k / n"):
        exact.at(exact.policy({(0, "arms"): (1, 2**0.5)})).population(1)


def test_a_game_with_too_many_lines_is_refused():
    with pytest.raises(
        ValueError, match="want at most 10000 lines of play, got more in"
    ):
        ExactGame(make_game("tic_tac_toe"))


@pytest.mark.filterwarnings("ignore:::arena_credit.by_name")
def test_an_estimate_is_the_sum_written_out():
    """Umbrella, lines 0 and 9: Σ A (1[a = chosen] - π) over the turns, halved."""
    play = play_of("umbrella")
    drawn = [0, 9]
    turns = play.batch(drawn)
    advantage = estimate("mars", turns).advantage
    rows = play.game.flat.rows(drawn)
    expected = np.zeros(len(play.policy))
    for column, a in zip(play.game.flat.column[rows], advantage, strict=True):
        for other in np.flatnonzero(play.game.infoset == play.game.infoset[column]):
            expected[other] += a * ((other == column) - play.policy[other]) / 2
    np.testing.assert_allclose(gradient_estimate("mars", play, drawn), expected)


@pytest.mark.parametrize(
    ("mean", "kind", "cosine", "factor"),
    [
        ([1.0, -1.0, 2.0, 0.0], "exact", 1, 1),
        ([0.5, -0.5, 1.0, 0.0], "scaled", 1, 0.5),
        ([0.5, -0.5, 4.0, 0.0], "scaled", 1, 1.5),
        ([1.0, -1.0, 2.0, 2.0], "direction", 0.5**0.5, 1),
        ([1.0, -1.0, -2.0, 0.0], "reversed", -1, -1 / 3),
        ([1.0, -1.0, 0.0, 0.0], "reversed", 0, 1 / 3),
    ],
)
def test_verdicts(mean, kind, cosine, factor):
    truth, seat = np.array([1.0, -1.0, 2.0, 0.0]), np.array([0, 0, 1, 1])
    found = compare(np.array(mean), truth, seat)
    assert found.kind == kind
    assert found.cosine == pytest.approx(cosine)
    assert found.factor == pytest.approx(factor)


def test_the_toy_of_the_published_table(batch):
    """Evenly chosen, as in `test_bias`: batches of 2, 4 and 8 of the mean of episodes."""
    play = play_of("stop_or_go")
    for size in (2, 4, 8):
        got = expected_gradient("mars", play, size, baseline="episode_returns")
        np.testing.assert_allclose(got.mean, (1 - 1 / size) * play.gradient, atol=1e-12)


def test_lines_pay_what_the_rules_pay():
    for diagnostic in DIAGNOSTICS.values():
        exact = ExactGame(diagnostic)
        play = exact.at(exact.policy(diagnostic.weights))
        table = table_of(exact, play.policy)
        for seat in range(diagnostic.num_players):
            own = exact.flat.seat == seat
            weight = np.repeat(play.probability, exact.flat.size)
            got = (weight * exact.flat.reward)[own].sum()
            assert got == pytest.approx(return_of(diagnostic, table, seat))


def test_flat_pools_of_tiny_batches_are_not_warned_about():
    with pytest.warns(FlatPoolWarning):
        estimate("mars", play_of("bandit").batch([0, 0]))
    expected_gradient("mars", play_of("bandit"), 1)  # warnings are errors here


def test_every_line_is_different():
    for name in DIAGNOSTICS:
        game = play_of(name).game
        flat, allowed = game.flat, game.starts[1].T
        parts = np.split(np.arange(len(flat.seat)), flat.start[1:])
        rows = [
            (tuple(flat.column[p]), tuple(flat.reward[p]), tuple(starts))
            for p, starts in zip(parts, allowed, strict=True)
        ]
        assert all(a != b for a, b in itertools.combinations(rows, 2)), name
