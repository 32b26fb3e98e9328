"""Bots that play what a solver found."""

import collections
import random

import pytest

import arena_envs
from arena_envs.bots import make_bot
from arena_envs.bots.solved import CFR, Tabular
from arena_envs.game import CHANCE
from arena_envs.solvers import CFRPlus, TooLarge, uniform_table


def test_a_table_is_played_as_often_as_it_says():
    game = arena_envs.make_game("kuhn_poker")
    state = game.apply(game.apply(game.initial_state(), 0), 1)
    table = {(0, (0, 0, ())): [0.3, 0.7]}
    bot = Tabular(table)
    assert bot.action_probs(game, state) == [0.3, 0.7]
    rng = random.Random(0)
    counts = collections.Counter(bot(game, state, rng) for _ in range(10_000))
    assert counts[1] / 10_000 == pytest.approx(0.7, abs=0.015)


def test_a_table_without_a_row_is_refused():
    game = arena_envs.make_game("kuhn_poker")
    state = game.apply(game.apply(game.initial_state(), 0), 1)
    with pytest.raises(ValueError, match="want 2 probabilities for information state"):
        Tabular({})(game, state, random.Random(0))


def test_cfr_plays_the_average_policy_of_its_game():
    """One bot in two games, by turns."""
    bot = make_bot("cfr:20")
    for num_players in (2, 3, 2):
        game = arena_envs.make_game("kuhn_poker", num_players=num_players)
        solver = CFRPlus(game)
        solver.run(20)
        state = game.initial_state()
        for card in range(num_players):
            state = game.apply(state, card)
        row = solver.average_policy()[0, (0, 0, ())]
        assert bot.action_probs(game, state) == row
        assert row != uniform_table(game)[0, (0, 0, ())]


def test_a_game_too_large_for_cfr_is_refused():
    game = arena_envs.make_game("goofspiel")
    with pytest.raises(ValueError, match=r"more than 999 states.*MCCFR"):
        CFR(max_states=999)(game, game.initial_state(), random.Random(0))


@pytest.mark.parametrize(
    ("spec", "id"), [("minimax", "connect_four"), ("cfr", "goofspiel")]
)
def test_bots_give_up_sooner_than_solvers(spec, id):
    game = arena_envs.make_game(id)
    state = game.initial_state()
    while game.current_player(state) == CHANCE:
        state = game.apply(state, game.chance_outcomes(state)[0][0])
    with pytest.raises(TooLarge, match="has more than 200000 states, want at most"):
        make_bot(spec)(game, state, random.Random(0))


def test_minimax_plays_perfectly_and_to_its_depth(after):
    game, state = after("tic_tac_toe", "a1", "a2", "b1", "b2")
    for spec in ("minimax", "minimax:1"):
        action = make_bot(spec)(game, state, random.Random(0))
        assert game.action_text(state, action) == "c1"
    game, state = after("tic_tac_toe", "a3", "b2", "b3")
    action = make_bot("minimax:2")(game, state, random.Random(0))
    assert game.action_text(state, action) == "c3"
    action = make_bot("minimax:1")(game, state, random.Random(0))
    assert game.action_text(state, action) == "a1"  # the threat is beyond its horizon
