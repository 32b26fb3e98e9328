"""Leduc poker: its rules, its known values, and the whole tree beside OpenSpiel's."""

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from arena_envs import CHANCE, TERMINAL, IllegalAction
from arena_envs.games.kits.cards import Hand as State
from arena_envs.games.leduc_poker import LeducPoker
from arena_envs.solvers import (
    expected_returns,
    nash_conv,
    solve_zero_sum,
    uniform_table,
)

game, three = LeducPoker(), LeducPoker(3)
FOLD, CALL, RAISE = range(3)


def play(rules: LeducPoker, cards: list[int], actions: list[int]) -> State:
    """The state after these actions, with cards dealt as they are needed."""
    state, cards, actions = rules.initial_state(), cards[:], actions[:]
    while (player := rules.current_player(state)) != TERMINAL:
        if not (cards if player == CHANCE else actions):
            break
        state = rules.apply(state, (cards if player == CHANCE else actions).pop(0))
    assert not actions
    return state


def endings(rules: LeducPoker, state: State, num_turns: int) -> Iterator[int]:
    """Numbers of turns of all ways to play on with one deal of cards."""
    player = rules.current_player(state)
    if player == TERMINAL:
        yield num_turns
    elif player == CHANCE:
        card, _ = rules.chance_outcomes(state)[0]
        yield from endings(rules, rules.apply(state, card), num_turns)
    for action in rules.legal_actions(state):
        yield from endings(rules, rules.apply(state, action), num_turns + 1)


def theirs(rules: LeducPoker) -> Any:
    import pyspiel

    return pyspiel.load_game("leduc_poker", {"players": rules.num_players})


def test_the_tree_and_what_seats_know_are_those_of_openspiel(oracle: Any) -> None:
    knowledge, ends = oracle.Knowledge(game), []

    def visit(state: State, other: Any) -> None:
        knowledge(state, other)
        if game.current_player(state) == TERMINAL:
            ends.append(state)

    start, other = game.initial_state(), theirs(game).new_initial_state()
    assert oracle.walk_tree(game, start, other, visit) == 9457
    assert len(ends) == 5520


@pytest.mark.slow
def test_three_players_play_and_know_alike(oracle: Any) -> None:
    knowledge = oracle.Knowledge(three)
    oracle.play_games(three, theirs(three), 5000, knowledge)
    assert knowledge.num_repeated > 50_000


def test_three_players_keep_the_contract(check_contract: Any) -> None:
    check_contract(three)


def test_uniform_play_has_its_known_values() -> None:
    table = uniform_table(game)
    assert len(table) == 936
    assert expected_returns(game, table) == pytest.approx((-0.078125, 0.078125))
    assert nash_conv(game, table) == pytest.approx(4.747222, abs=1e-6)


def test_the_value_is_that_of_an_equilibrium() -> None:
    pytest.importorskip("scipy")
    value, table = solve_zero_sum(game)
    assert value == pytest.approx(-0.085606, abs=1e-6)
    assert nash_conv(game, table) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    ("rules", "lengths"), [(game, range(2, 9)), (three, range(3, 15))]
)
def test_episodes_are_as_long_as_the_page_says(
    rules: LeducPoker, lengths: range
) -> None:
    assert set(endings(rules, rules.initial_state(), 0)) == set(lengths)
    assert rules.max_turns == lengths[-1]


J1, J2, Q1, Q2, K1, K2 = range(6)


@pytest.mark.parametrize(
    ("cards", "actions", "returns"),
    [
        ([J1, K1], [RAISE, FOLD], (1, -1)),
        ([J1, K1], [CALL, RAISE, RAISE, FOLD], (3, -3)),
        ([J1, K1, Q1], [CALL, CALL, CALL, CALL], (-1, 1)),
        ([J1, K1, J2], [RAISE, CALL, RAISE, CALL], (7, -7)),
        ([Q1, K1, K2], [CALL, CALL, CALL, RAISE, CALL], (-5, 5)),
        ([Q1, Q2, K2], [RAISE, RAISE, CALL, CALL, CALL], (0, 0)),
        ([Q1, J1, K2], [RAISE, RAISE, CALL, RAISE, RAISE, CALL], (13, -13)),
    ],
)
def test_a_pair_wins_then_the_higher_card_and_equals_share(
    cards: list[int], actions: list[int], returns: tuple[int, ...]
) -> None:
    assert game.returns(play(game, cards, actions)) == returns


@pytest.mark.parametrize(
    ("cards", "actions", "returns"),
    [  # two cards each of 10, J, Q, K
        ([6, 7, 0, 2], [CALL] * 6, (0.5, 0.5, -1)),
        ([6, 7, 2, 3], [CALL] * 6, (-1, -1, 2)),
        ([6, 7, 2, 0], [RAISE, CALL, CALL, CALL, RAISE, CALL, FOLD], (-3, 10, -7)),
        ([0, 1, 2, 3], [RAISE, FOLD, FOLD], (2, -1, -1)),
    ],
)
def test_three_players_share_the_pot_among_the_best(
    cards: list[int], actions: list[int], returns: tuple[float, ...]
) -> None:
    assert three.returns(play(three, cards, actions)) == returns


def test_the_bounds_of_the_returns_are_reached() -> None:
    everything = [RAISE, RAISE, CALL, CALL] * 2
    won = three.returns(play(three, [6, 0, 2, 4], everything))
    assert won == (three.max_return, three.min_return, three.min_return)
    won = game.returns(play(game, [K1, J1, Q1], [RAISE, RAISE, CALL] * 2))
    assert won == (game.max_return, game.min_return)


def test_folding_players_are_passed_over() -> None:
    state = play(three, [0, 2, 4, 6], [RAISE, CALL, RAISE, FOLD, CALL, CALL])
    assert three.current_player(state) == 2
    assert state.betting.paid == (3, 5, 5)


def test_check_and_bet_are_read_where_nothing_is_to_be_paid() -> None:
    state = play(game, [J1, K1], [])
    assert game.parse(state, " Check") == CALL
    assert game.parse(state, "BET") == RAISE
    state = play(game, [J1, K1], [RAISE])
    for word in ("check", "bet"):
        with pytest.raises(IllegalAction):
            game.parse(state, word)


def test_the_text_says_what_happened_and_shows_hands_at_the_showdown() -> None:
    actions = [CALL, RAISE, CALL, CALL]
    state = play(game, [J1, K1, Q1], actions)
    assert game.observe(state, 1).split("\n") == [
        "You are player_1 and hold K.",
        "Public card: Q.",
        "Round 1: player_0 call, player_1 raise, player_0 call.",
        "Round 2: player_0 call.",
        "Chips in the pot: 6, from player_0 3, player_1 3.",
        "You are to move. A call costs nothing.",
    ]
    state = play(game, [J1, K1, Q1], [*actions, CALL])
    assert game.observe(state, 0).split("\n")[-2:] == [
        "Shown: player_1 K.",
        "The hand is over: player_0 loses 3, player_1 wins 3.",
    ]
    state = play(game, [J1, J2, Q1], [*actions, CALL])
    end = "The hand is over: player_0 breaks even, player_1 breaks even."
    assert game.observe(state, 0).endswith(end)
    state = play(three, [0, 2, 4, 6], [RAISE, FOLD, CALL, CALL, CALL])
    assert "Shown: player_0 10, player_2 Q." in three.observe(state, 1)
    assert "player_1" not in three.observe(state, 0).split("Shown")[1].split("\n")[0]


@pytest.mark.parametrize("rules", [game, three], ids=repr)
def test_features_tell_apart_all_but_suits_and_hands_that_were_shown(
    rules: LeducPoker, check_features: Any
) -> None:
    assert check_features(rules, 1000, rules.observe) > 400


def test_a_new_deal_is_uniform_over_the_cards_that_a_seat_cannot_see() -> None:
    state = play(three, [0, 2, 4, 6], [CALL, CALL, CALL])
    rng = random.Random(0)
    drawn = Counter(three.resample(state, 1, rng).cards for _ in range(6000))
    assert len(drawn) == 6 * 5
    assert {(cards[1], cards[3]) for cards in drawn} == {(2, 6)}
    assert min(drawn.values()) > 130


@pytest.mark.parametrize("value", [1, 4, 2.0, "2", True])
def test_a_number_of_players_out_of_range_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"num_players from 2 to 3, got"):
        LeducPoker(value)
