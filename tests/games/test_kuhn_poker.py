"""Kuhn poker: its rules, and its known values by going through the whole tree."""

import random
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena_envs import CHANCE, TERMINAL
from arena_envs.games.kuhn_poker import BET, PASS, KuhnPoker, State

game = KuhnPoker()
J, Q, K = range(3)


def histories(rules: KuhnPoker, state: State) -> Iterator[State]:
    """All states from this one on."""
    yield state
    if rules.current_player(state) == CHANCE:
        actions = [outcome for outcome, _ in rules.chance_outcomes(state)]
    else:
        actions = list(rules.legal_actions(state))
    for action in actions:
        yield from histories(rules, rules.apply(state, action))


def uniform_values(rules: KuhnPoker, state: State) -> list[Fraction]:
    """Exact values of all seats when everybody chooses at random."""
    player = rules.current_player(state)
    if player == TERMINAL:
        return [Fraction(x) for x in rules.returns(state)]
    if player == CHANCE:
        actions = [outcome for outcome, _ in rules.chance_outcomes(state)]
    else:
        actions = list(rules.legal_actions(state))
    after = [uniform_values(rules, rules.apply(state, a)) for a in actions]
    return [sum(column) / len(after) for column in zip(*after, strict=True)]


@pytest.mark.parametrize("num_players", [3, 4])
def test_more_players_keep_the_contract(num_players: int, check_contract: Any) -> None:
    check_contract(KuhnPoker(num_players))


@pytest.mark.parametrize(
    ("num_players", "num_ends", "num_information_states"),
    [(2, 30, 12), (3, 312, 48), (4, 3960, 160)],
)
def test_the_tree_has_its_known_size(
    num_players: int, num_ends: int, num_information_states: int
) -> None:
    rules = KuhnPoker(num_players)
    states = list(histories(rules, rules.initial_state()))
    players = [rules.current_player(state) for state in states]
    assert players.count(TERMINAL) == num_ends
    keys = {
        rules.information_state(state, player)
        for state, player in zip(states, players, strict=True)
        if player >= 0
    }
    assert len(keys) == num_information_states


@pytest.mark.parametrize(
    ("num_players", "values"),
    [(2, [0.125, -0.125]), (3, [0.234375, -0.046875, -0.1875])],
)
def test_random_play_has_its_known_values(
    num_players: int, values: list[float]
) -> None:
    rules = KuhnPoker(num_players)
    assert [float(v) for v in uniform_values(rules, rules.initial_state())] == values


@pytest.mark.parametrize("bluff", [Fraction(0), Fraction(1, 6), Fraction(1, 3)])
def test_the_value_is_minus_one_eighteenth(bluff: Fraction) -> None:
    """Kuhn's equilibria: neither seat does better against them with any fixed reply."""
    third = Fraction(1, 3)
    first = {
        (J, ()): bluff,
        (Q, ()): Fraction(0),
        (K, ()): 3 * bluff,
        (J, (0, 1)): Fraction(0),
        (Q, (0, 1)): bluff + third,
        (K, (0, 1)): Fraction(1),
    }
    second = {
        **{(J, (0,)): third, (Q, (0,)): Fraction(0), (K, (0,)): Fraction(1)},
        **{(J, (1,)): Fraction(0), (Q, (1,)): third, (K, (1,)): Fraction(1)},
    }
    assert best_value(0, second) == Fraction(-1, 18)
    assert best_value(1, first) == Fraction(1, 18)


def best_value(
    seat: int, policy: dict[tuple[int, tuple[int, ...]], Fraction]
) -> Fraction:
    """What a seat can get at most when the other bets with these probabilities."""

    def value(reached: list[tuple[State, Fraction]]) -> Fraction:
        """Of states that are one information state of the seat, weighted."""
        state = reached[0][0]
        player = game.current_player(state)
        if player == TERMINAL:
            return sum(
                (w * Fraction(game.returns(s)[seat]) for s, w in reached), Fraction()
            )
        if player == seat:
            return max(
                value([(game.apply(s, a), w) for s, w in reached]) for a in (0, 1)
            )
        weights = [policy[s.cards[1 - seat], s.bets] for s, _ in reached]
        after = (
            value(
                [
                    (game.apply(s, a), w * (p if a == BET else 1 - p))
                    for (s, w), p in zip(reached, weights, strict=True)
                ]
            )
            for a in (PASS, BET)
        )
        return sum(after, Fraction())

    total = Fraction()
    for own in (J, Q, K):
        deals = [(own, c) if seat == 0 else (c, own) for c in (J, Q, K) if c != own]
        total += value([(State(cards), Fraction(1, 6)) for cards in deals])
    return total


@pytest.mark.parametrize(
    ("cards", "bets", "returns"),
    [
        ((K, J), (PASS, PASS), (1, -1)),
        ((J, Q), (PASS, PASS), (-1, 1)),
        ((J, K), (BET, PASS), (1, -1)),
        ((K, J), (PASS, BET, PASS), (-1, 1)),
        ((Q, K), (BET, BET), (-2, 2)),
        ((K, Q), (PASS, BET, BET), (2, -2)),
        ((0, 3, 1), (PASS, PASS, BET, BET, PASS), (-2, -1, 3)),
    ],
)
def test_the_pot_goes_to_the_best_card_that_has_not_folded(
    cards: tuple[int, ...], bets: tuple[int, ...], returns: tuple[int, ...]
) -> None:
    rules = KuhnPoker(len(cards))
    state = State(cards, bets)
    assert rules.current_player(state) == TERMINAL
    assert rules.returns(state) == returns


def test_nothing_is_paid_before_the_end() -> None:
    assert game.returns(State((K, J), (BET,))) == (0, 0)


@given(st.permutations(range(5)), st.lists(st.sampled_from([PASS, BET]), max_size=7))
def test_a_new_deal_keeps_the_own_card_and_deals_no_card_twice(
    cards: list[int], bets: list[int]
) -> None:
    rules = KuhnPoker(4)
    state = State(tuple(cards[:4]), tuple(bets))
    for seat in range(4):
        drawn = rules.resample(state, seat, random.Random(0))
        assert drawn.cards[seat] == cards[seat]
        assert len(set(drawn.cards)) == 4
        assert drawn.bets == state.bets


@pytest.mark.parametrize("value", [1, 5, 2.0, "2", None, True])
def test_a_number_of_players_out_of_range_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"num_players from 2 to 4, got"):
        KuhnPoker(value)


@pytest.mark.parametrize(
    ("state", "seat", "text"),
    [
        (
            State((J,)),
            1,
            "You are player_1 and have no card yet. Actions: none. "
            "The next card is being dealt.",
        ),
        (
            State((J, K), (PASS,)),
            1,
            "You are player_1 and hold K. Actions: player_0 pass. Your turn.",
        ),
        (
            State((J, K), (PASS, BET)),
            1,
            "You are player_1 and hold K. Actions: player_0 pass, player_1 bet. "
            "player_0 is to move.",
        ),
        (
            State((Q, K), (BET, BET)),
            0,
            "You are player_0 and hold Q. Actions: player_0 bet, player_1 bet. "
            "Shown: player_1 K. The hand is over: player_0 loses 2, player_1 wins 2.",
        ),
        (
            State((Q, K), (PASS, BET, PASS)),
            0,
            "You are player_0 and hold Q. "
            "Actions: player_0 pass, player_1 bet, player_0 pass. "
            "The hand is over: player_0 loses 1, player_1 wins 1.",
        ),
    ],
)
def test_the_text_tells_whose_turn_it_is_and_the_result(
    state: State, seat: int, text: str
) -> None:
    assert game.observe(state, seat) == text


def test_the_rules_say_that_cards_are_hidden() -> None:
    assert "one card, which the others do not see." in game.rules(0)


def test_a_new_deal_after_a_showdown_keeps_the_cards_that_were_shown() -> None:
    rules = KuhnPoker(4)
    state = State((0, 4, 2, 3), (BET, PASS, BET, PASS))
    for seed in range(20):
        drawn = rules.resample(state, 1, random.Random(seed))
        assert drawn.cards[:3] == (0, 4, 2)
    hidden = {rules.resample(state, 1, random.Random(s)).cards[3] for s in range(20)}
    assert hidden == {1, 3}
