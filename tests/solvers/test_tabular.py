"""Tabular solvers against closed forms and against OpenSpiel."""

import itertools
import random

import numpy as np
import pytest

import arena_envs
from arena_envs.game import CHANCE, TERMINAL
from arena_envs.solvers import (
    TooLarge,
    action_values,
    best_response,
    best_response_value,
    complete_table,
    expected_returns,
    exploitability,
    information_states,
    nash_conv,
    refuse_hopeless,
    uniform_table,
)


def kuhn_equilibrium(alpha):
    """The family of equilibria of Kuhn (1950): α from 0 to 1/3, probability of "bet"."""
    game = arena_envs.make_game("kuhn_poker")
    bet = {
        (0, 0, ()): alpha,  # bluff with J
        (0, 1, ()): 0.0,
        (0, 2, ()): 3 * alpha,
        (0, 0, (0, 1)): 0.0,
        (0, 1, (0, 1)): alpha + 1 / 3,
        (0, 2, (0, 1)): 1.0,
        (1, 0, (0,)): 1 / 3,
        (1, 1, (0,)): 0.0,
        (1, 2, (0,)): 1.0,
        (1, 0, (1,)): 0.0,
        (1, 1, (1,)): 1 / 3,
        (1, 2, (1,)): 1.0,
    }
    return game, {(key[0], key): [1 - p, p] for key, p in bet.items()}


@pytest.mark.parametrize("alpha", [0.0, 0.1, 1 / 3])
def test_kuhns_equilibria_cannot_be_exploited(alpha):
    game, table = kuhn_equilibrium(alpha)
    assert set(table) == set(information_states(game))
    assert nash_conv(game, table) == pytest.approx(0, abs=1e-12)
    assert expected_returns(game, table)[0] == pytest.approx(-1 / 18)


def test_beyond_the_family_there_is_a_gain():
    game, table = kuhn_equilibrium(0.5 / 3)
    table[0, (0, 2, ())] = [0.0, 1.0]
    assert nash_conv(game, table) > 0.01


@pytest.mark.parametrize(("num_players", "known"), [(2, 11 / 12), (3, 2.0625)])
def test_uniform_play_has_the_published_nash_conv(num_players, known):
    game = arena_envs.make_game("kuhn_poker", num_players=num_players)
    assert nash_conv(game, uniform_table(game)) == pytest.approx(known)


@pytest.mark.parametrize("num_players", [2, 3])
def test_best_responses_are_openspiels(num_players):
    """For a policy that differs between information states, seat by seat."""
    pyspiel = pytest.importorskip("pyspiel")
    from open_spiel.python import policy as openspiel_policy
    from open_spiel.python.algorithms import exploitability

    game = arena_envs.make_game("kuhn_poker", num_players=num_players)
    theirs = pyspiel.load_game("kuhn_poker", {"players": num_players})
    tabular = openspiel_policy.TabularPolicy(theirs)
    table = {}
    for (seat, key), state in information_states(game).items():
        other = theirs.new_initial_state()
        for action in (*state.cards, *state.bets):
            other.apply_action(action)
        p = (hash((seat, key[1], *key[2])) % 97 + 1) / 99  # ints hash alike everywhere
        table[seat, key] = [1 - p, p]
        tabular.policy_for_key(other.information_state_string())[:] = [1 - p, p]
    found = exploitability.nash_conv(theirs, tabular, return_only_nash_conv=False)
    returns = expected_returns(game, table)
    gains = [
        best_response_value(game, table, s) - returns[s] for s in range(num_players)
    ]
    assert gains == pytest.approx(list(found.player_improvements))
    assert nash_conv(game, table) == pytest.approx(found.nash_conv)


def test_best_response_of_a_team_game_is_found_by_trying_all_plans():
    """Every deterministic plan of seat 0 in Kuhn poker, against uniform play."""
    game = arena_envs.make_game("kuhn_poker")
    table = uniform_table(game)
    own = [key for key in table if key[0] == 0]
    best = max(
        expected_returns(game, {**table, **dict(zip(own, plan, strict=True))})[0]
        for plan in itertools.product([[1.0, 0.0], [0.0, 1.0]], repeat=len(own))
    )
    assert best_response_value(game, table, 0) == pytest.approx(best)


def test_a_table_that_lacks_a_row_is_refused():
    game = arena_envs.make_game("kuhn_poker")
    table = uniform_table(game)
    table.pop(next(iter(table)))
    with pytest.raises(ValueError, match="want 2 probabilities for information state"):
        nash_conv(game, table)


def test_a_game_too_large_is_refused_by_name():
    game = arena_envs.make_game("kuhn_poker")
    with pytest.raises(ValueError, match=r"KuhnPoker.* has .* states, want at most"):
        information_states(game, max_states=10)


UNIFORM = [  # id, parameters, NashConv of uniform play as published; liar's dice: its own test
    ("kuhn_poker", {"num_players": 3}, 2.0625),
    ("leduc_poker", {}, 4.747222),
]


@pytest.mark.parametrize(("id", "params", "known"), UNIFORM)
def test_our_games_have_the_published_nash_conv(id, params, known):
    game = arena_envs.make_game(id, **params)
    assert nash_conv(game, uniform_table(game)) == pytest.approx(known, abs=1e-6)


SIZES = [
    ("kuhn_poker", {}, 11 / 12),
    ("kuhn_poker", {"players": 3}, 2.0625),
    ("leduc_poker", {}, 4.747222),
]


@pytest.mark.parametrize(("name", "params", "known"), SIZES)
def test_openspiels_games_have_the_published_nash_conv(name, params, known, spiel_game):
    game = spiel_game(name, **params)
    table = uniform_table(game)
    assert nash_conv(game, table) == pytest.approx(known, abs=1e-6)
    share = nash_conv(game, table) / game.num_players
    assert exploitability(game, table) == pytest.approx(share)


@pytest.mark.parametrize("name", ["leduc_poker", "tiny_hanabi"])
def test_best_responses_to_random_tables_are_openspiels(name, spiel_game):
    from open_spiel.python import policy as openspiel_policy
    from open_spiel.python.algorithms import exploitability as theirs

    game = spiel_game(name)
    tabular = openspiel_policy.TabularPolicy(game.theirs)
    rng = random.Random(3)
    table = {}
    for key, state in information_states(game).items():
        row = [rng.random() for _ in game.legal_actions(state)]
        table[key] = [p / sum(row) for p in row]
        probabilities = tabular.policy_for_key(key[1])
        probabilities[list(game.legal_actions(state))] = table[key]
    found = theirs.nash_conv(game.theirs, tabular, return_only_nash_conv=False)
    returns = expected_returns(game, table)
    gains = [best_response_value(game, table, s) - returns[s] for s in range(2)]
    assert gains == pytest.approx(list(found.player_improvements))


@pytest.mark.parametrize("num_players", [2, 3])
def test_a_best_response_earns_what_it_says(num_players):
    game = arena_envs.make_game("kuhn_poker", num_players=num_players)
    table = uniform_table(game)
    for seat in range(num_players):
        response = best_response(game, table, seat)
        assert {key[0] for key in response.table} == {seat}
        returns = expected_returns(game, {**table, **response.table})
        assert returns[seat] == pytest.approx(response.value)


def test_a_seat_that_does_not_exist_has_no_best_response():
    game = arena_envs.make_game("kuhn_poker")
    with pytest.raises(ValueError, match="want a seat from 0 to 1, got 2"):
        best_response(game, uniform_table(game), 2)


def test_missing_rows_are_completed_with_uniform_play():
    game = arena_envs.make_game("kuhn_poker")
    table = complete_table(game, {(0, (0, 2, ())): [0.0, 1.0]})
    assert table == {**uniform_table(game), (0, (0, 2, ())): [0.0, 1.0]}


def walked_action_values(game, table):
    """Σ π₋ᵢ(h) v(ha) over Σ π₋ᵢ(h), history by history, straight from the rules."""
    total, mass = {}, {}

    def value(state, reach):
        """Expected returns; `reach` has the probability of all others for each seat."""
        player = game.current_player(state)
        if player == TERMINAL:
            return np.array(game.returns(state))
        if player == CHANCE:
            outcomes = game.chance_outcomes(state)
            return sum(p * value(game.apply(state, a), reach * p) for a, p in outcomes)
        key = player, game.information_state(state, player)
        worth = []
        for action, p in zip(game.legal_actions(state), table[key], strict=True):
            after = reach * np.where(np.arange(len(reach)) == player, 1.0, p)
            worth.append(value(game.apply(state, action), after))
        rows = np.array(worth)
        total[key] = total.get(key, 0.0) + reach[player] * rows[:, player]
        mass[key] = mass.get(key, 0.0) + reach[player]
        return np.array(table[key]) @ rows

    value(game.initial_state(), np.ones(game.num_players))
    return {key: total[key] / mass[key] for key in total}


@pytest.mark.parametrize("num_players", [2, 3])
def test_action_values_are_those_of_a_walk_over_all_histories(num_players):
    game = arena_envs.make_game("kuhn_poker", num_players=num_players)
    rng = np.random.default_rng(1)
    table = {
        key: rng.dirichlet(np.ones(len(row))).tolist()
        for key, row in uniform_table(game).items()
    }
    found, expected = action_values(game, table), walked_action_values(game, table)
    assert found.keys() == expected.keys()
    for key, row in expected.items():
        np.testing.assert_allclose(found[key], row, atol=1e-12)


def test_an_information_state_that_the_others_never_reach_has_no_values():
    """Player 0 never bets first: nobody knows what a bet would find."""
    game = arena_envs.make_game("kuhn_poker")
    table = {
        (seat, state): [1.0, 0.0] if seat == 0 and not state[2] else row
        for (seat, state), row in uniform_table(game).items()
    }
    found = action_values(game, table)
    assert np.isnan(found[1, (1, 2, (1,))]).all()
    assert np.isfinite(found[1, (1, 2, (0,))]).all()


def test_the_refusal_of_a_hidden_secret_names_the_bot_that_finds_secrets():
    for id, refuse in (
        ("guess_number", information_states),
        ("twenty_questions", refuse_hopeless),
    ):
        with pytest.raises(TooLarge, match='"ismcts" or "information_gain"'):
            refuse(arena_envs.make_game(id), 1_000)
