"""Tiny Hanabi: its known values by brute force, and OpenSpiel's game."""

import random
from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest

from arena_envs import IllegalAction
from arena_envs.games.tiny_hanabi import POINTS, State, TinyHanabi
from arena_envs.solvers import expected_returns, nash_conv, uniform_table

game = TinyHanabi()
DEALS = list(product((0, 1), repeat=2))


def mean_points(first: Sequence[int], second: Sequence[Sequence[int]]) -> float:
    """Of plays by the own card, and by the own card and the first play."""
    return sum(POINTS[a, b][first[a]][second[b][first[a]]] for a, b in DEALS) / 4


def test_the_whole_tree_is_that_of_openspiel(oracle: Any) -> None:
    pyspiel = pytest.importorskip("pyspiel")
    state, other_game = game.initial_state(), pyspiel.load_game("tiny_hanabi")
    assert game.num_actions == other_game.num_distinct_actions()
    visit = oracle.Knowledge(game)
    assert oracle.walk_tree(game, state, other_game.new_initial_state(), visit) == 55


def test_random_play_has_its_known_values() -> None:
    table = uniform_table(game)
    assert expected_returns(game, table) == pytest.approx([67 / 18, 67 / 18])
    assert nash_conv(game, table) == pytest.approx(35 / 9)


def test_the_best_pair_gets_10_and_the_best_that_ignores_its_cards_8() -> None:
    replies = list(product(range(3), repeat=3))
    pairs = product(product(range(3), repeat=2), product(replies, repeat=2))
    assert max(mean_points(first, second) for first, second in pairs) == 10
    blind = product(range(3), replies)
    assert max(mean_points((a, a), (reply, reply)) for a, reply in blind) == 8


def test_the_best_pair_tells_its_card_by_its_play() -> None:
    best = [
        first
        for first in product(range(3), repeat=2)
        for second in product(product(range(3), repeat=3), repeat=2)
        if mean_points(first, second) == 10
    ]
    assert set(best) == {(2, 0)}


@pytest.mark.parametrize("deal", DEALS)
def test_the_points_in_the_rules_are_those_that_are_paid(deal: tuple[int, int]) -> None:
    rules = game.rules(0)
    start = f"player_0 has card {deal[0]} and player_1 has card {deal[1]}: "
    table = rules.partition(start)[2].partition("\n")[0].split("; ")
    assert [row[:8] for row in table] == ["play 0: ", "play 1: ", "play 2: "]
    rows = [[int(x) for x in row[8:].split(", ")] for row in table]
    for first, second in product(range(3), repeat=2):
        points = game.returns(State(deal, (first, second)))
        assert points == (rows[first][second],) * 2


def test_a_player_reads_its_card_and_the_plays() -> None:
    state = State((0, 1), (2,))
    assert game.observe(state, 1) == (
        "You are player_1 and hold card 1. Played: player_0 played 2. You are to move."
    )
    assert game.observe(state, 0) == (
        "You are player_0 and hold card 0. Played: player_0 played 2. "
        "player_1 is to move."
    )
    assert game.observe(State((0, 1), (2, 2)), 0) == (
        "You are player_0 and hold card 0. Played: player_0 played 2, "
        "player_1 played 2. The game is over: 10 points."
    )


def test_points_at_the_end_rule_out_cards_that_would_give_others() -> None:
    rng = random.Random(0)
    drawn = {game.resample(State((0, 1), (2, 2)), 0, rng).cards for _ in range(50)}
    assert drawn == {(0, 1)}
    drawn = {game.resample(State((0, 1), (2,)), 0, rng).cards for _ in range(50)}
    assert drawn == {(0, 0), (0, 1)}
    drawn = {game.resample(State((0,), ()), 1, rng).cards for _ in range(50)}
    assert drawn == {(0,), (1,)}


def test_the_number_alone_is_an_action() -> None:
    assert (
        game.parse(State((0, 1)), " Play  2\n") == game.parse(State((0, 1)), "2") == 2
    )
    for text in ("3", "play", "play play 1", "-1"):
        with pytest.raises(IllegalAction, match="want play 0, play 1 or play 2"):
            game.parse(State((0, 1)), text)
