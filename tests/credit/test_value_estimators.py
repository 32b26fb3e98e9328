"""Credit by values: `archer` and `counterfactual`."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena_credit import estimate
from arena_envs import make_game
from arena_envs.game import CHANCE, TERMINAL
from arena_envs.solvers import action_values, expected_returns, uniform_table

pytestmark = pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")


def credit(turns, name, **options):
    return estimate(name, turns, **options).advantage


HAND = [(0, 0, 0, [1, 3]), (1, 0, 0, [2]), (1, 0, 1, [0, 0, 4])]
VALUES = {
    "value": [2, 4, 1, 3, 0, 2],
    "truncated": [False, False, True, False, False, False],
    "next_value": [np.nan, np.nan, 6, np.nan, np.nan, np.nan],
    "action_value": [5, 6, 7, 2, 1, 0],
}


def test_archer_by_hand(batch):
    """γ = 1/2: 1 + 4/2 - 2, 3 - 4; truncated 2 + 6/2 - 1; 0 + 0 - 3, 0 + 2/2 - 0, 4 - 2.
    By the column: 5 - 2, 6 - 4; 7 - 1; 2 - 3, 1 - 0, 0 - 2."""
    turns = batch(*HAND, **VALUES)
    assert credit(turns, "archer", discount=0.5).tolist() == [1, -1, 4, -3, 1, 2]
    got = credit(turns, "archer", action_value="column")
    assert got.tolist() == [3, 2, 6, -1, 1, -2]


def test_counterfactual_by_hand(batch):
    """5 - 2, 6 - 4; 7 - 1; 2 - 3, 1 - 0, 0 - 2. The report has Q of each seat: 5 6 7 with
    mean 6, and 2 1 0 with mean 1."""
    result = estimate("counterfactual", batch(*HAND, **VALUES))
    assert result.advantage.tolist() == [3, 2, 6, -1, 1, -2]
    assert result.report.mean.tolist() == [6, 1]
    assert result.report.size.tolist() == [3, 3]


def test_archer_without_discount_is_the_reward_less_the_value(batch):
    got = credit(batch(*HAND, **VALUES), "archer", discount=0.0)
    assert got.tolist() == [-1, -1, 1, -3, 0, 2]


def test_a_value_after_the_end_is_read_where_a_trajectory_was_truncated_only(batch):
    whole = VALUES | {"truncated": [False] * 6, "next_value": None}
    got = credit(batch(*HAND, **whole), "archer", discount=0.5)
    assert got.tolist() == [1, -1, 1, -3, 1, 2]
    for next_value, message in (
        (None, "want the column 'next_value'"),
        ([0, 0, np.nan, 0, 0, 0], r"want finite numbers, got next_value\[2\] = nan"),
    ):
        turns = batch(*HAND, **VALUES | {"next_value": next_value})
        with pytest.raises(ValueError, match=message):
            credit(turns, "archer")


# Kuhn poker, in which all play by a table of softmax policies


def softmax_table(game, theta):
    table, used = {}, 0
    for key, row in uniform_table(game).items():
        exp = np.exp(theta[used : used + len(row)])
        table[key] = (exp / exp.sum()).tolist()
        used += len(row)
    return table


def histories(game, table):
    """Every episode: its probability, returns, and decisions (seat, state, action index)."""

    def walk(state, chance, decisions):
        player = game.current_player(state)
        if player == TERMINAL:
            yield chance, game.returns(state), decisions
        elif player == CHANCE:
            for outcome, p in game.chance_outcomes(state):
                yield from walk(game.apply(state, outcome), chance * p, decisions)
        else:
            key = player, game.information_state(state, player)
            legal = game.legal_actions(state)
            for i, (action, p) in enumerate(zip(legal, table[key], strict=True)):
                made = [*decisions, (key, i)]
                yield from walk(game.apply(state, action), chance * p, made)

    yield from walk(game.initial_state(), 1.0, [])


def true_gradient(game, theta):
    """By central differences of the exact return of the seat that decides."""
    gradient, step = np.zeros(len(theta)), 1e-5
    seats = [key[0] for key, row in uniform_table(game).items() for _ in row]
    for i, seat in enumerate(seats):
        ends = []
        for sign in (1, -1):
            moved = theta.copy()
            moved[i] += sign * step
            ends.append(expected_returns(game, softmax_table(game, moved))[seat])
        gradient[i] = (ends[0] - ends[1]) / (2 * step)
    return gradient


def kuhn_gradient(batch, theta, name, believed=None, offset=0.0, **options):
    """Expectation of advantage times score, with the values of a believed table."""
    game = make_game("kuhn_poker")
    table = softmax_table(game, theta)
    worth = action_values(game, believed or table)
    value = {key: np.dot((believed or table)[key], row) for key, row in worth.items()}
    episodes = list(histories(game, table))
    rows, columns = [], {"value": [], "action_value": []}
    for number, (_, returns, decisions) in enumerate(episodes):
        for seat in (0, 1):
            own = [d for d in decisions if d[0][0] == seat]
            rows.append((number, 0, seat, [0.0] * (len(own) - 1) + [returns[seat]]))
            columns["value"] += [value[key] + offset for key, _ in own]
            columns["action_value"] += [worth[key][i] for key, i in own]
    truncated = [False] * len(columns["value"])
    turns = batch(*rows, **columns, truncated=truncated)
    advantage = dict(
        zip(
            zip(turns.episode, turns.seat, turns.turn, strict=True),
            credit(turns, name, **options),
            strict=True,
        )
    )
    places = {}
    for key, row in table.items():
        places[key] = sum(map(len, [table[k] for k in places])), len(row)
    gradient = np.zeros(len(theta))
    for number, (chance, _, decisions) in enumerate(episodes):
        played = [0, 0]
        for key, i in decisions:
            first, width = places[key]
            score = -np.array(table[key])
            score[i] += 1
            a = advantage[number, key[0], played[key[0]]]
            gradient[first : first + width] += chance * a * score
            played[key[0]] += 1
    return gradient


THETA = np.random.default_rng(0).normal(size=24)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("counterfactual", {}),
        ("archer", {"action_value": "column"}),
        ("archer", {"discount": 1.0}),
    ],
)
def test_exact_values_give_the_exact_gradient(batch, name, options):
    """Batches of one episode in expectation: nothing is compared, so size is no matter."""
    got = kuhn_gradient(batch, THETA, name, **options)
    true = true_gradient(make_game("kuhn_poker"), THETA)
    np.testing.assert_allclose(got, true, atol=1e-8)


def test_a_constant_error_of_the_value_alone_changes_nothing(batch):
    got = kuhn_gradient(batch, THETA, "counterfactual", offset=7.0)
    np.testing.assert_allclose(
        got, true_gradient(make_game("kuhn_poker"), THETA), atol=1e-8
    )


def test_values_of_other_policies_give_another_gradient(batch):
    game = make_game("kuhn_poker")
    true = true_gradient(game, THETA)
    for name, options in (("counterfactual", {}), ("archer", {"discount": 1.0})):
        believed = uniform_table(game)
        got = kuhn_gradient(batch, THETA, name, believed=believed, **options)
        assert np.abs(got - true).max() > 0.01


@given(data=st.data())
def test_with_optimal_values_nothing_but_regret_is_left(batch, data):
    """V is the largest Q, as for optimal play."""
    worth = data.draw(
        st.lists(
            st.lists(st.integers(-4, 4), min_size=3, max_size=3), min_size=1, max_size=5
        )
    )
    done = data.draw(
        st.lists(st.integers(0, 2), min_size=len(worth), max_size=len(worth))
    )
    rows = [(i, 0, 0, [0.0]) for i in range(len(worth))]
    q = [row[a] for row, a in zip(worth, done, strict=True)]
    turns = batch(*rows, value=[max(row) for row in worth], action_value=q)
    got = credit(turns, "counterfactual")
    assert (got <= 0).all()
    best = [max(row) == x for row, x in zip(worth, q, strict=True)]
    assert (got == 0).tolist() == best


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("archer", {"discount": 1.5}, "want discount between 0 and 1, got 1.5"),
        (
            "archer",
            {"action_value": "q"},
            "want action_value among td, column, got 'q'",
        ),
    ],
)
def test_options_out_of_range_are_named(batch, name, options, message):
    with pytest.raises(ValueError, match=message):
        credit(batch(*HAND, **VALUES), name, **options)


@pytest.mark.parametrize(
    ("name", "missing", "options"),
    [
        ("archer", "value", {}),
        ("archer", "truncated", {}),
        ("archer", "action_value", {"action_value": "column"}),
        ("counterfactual", "value", {}),
        ("counterfactual", "action_value", {}),
    ],
)
def test_missing_columns_are_named(batch, name, missing, options):
    turns = batch(*HAND, **VALUES | {missing: None})
    with pytest.raises(ValueError, match=f"want the column '{missing}'"):
        credit(turns, name, **options)


def test_a_trajectory_whose_truncated_turn_is_masked_ends_before_it(batch):
    """1 - 3, and not 1 + 5 + 9 - 3: neither the masked reward nor what follows is read."""
    columns = {"value": [3, 3], "truncated": [False, True], "next_value": [np.nan, 9]}
    turns = batch((0, 0, 0, [1, 5]), **columns, mask=[True, False])
    assert estimate("gae", turns, lambda_=1.0).advantage.tolist() == [-2, 0]
