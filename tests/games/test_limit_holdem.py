"""Limit hold'em: its rules by hand, its size, and play beside pokerkit's."""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from math import comb
from typing import Any

import numpy as np
import pytest

from arena_envs import CHANCE, TERMINAL, IllegalAction
from arena_envs.games.kits.cards import Hand as State
from arena_envs.games.limit_holdem import (
    CARDS,
    LimitHoldem,
    hand_strength,
    hand_strengths,
)

game = LimitHoldem()
GAMES = [
    *(LimitHoldem(num_players) for num_players in range(2, 7)),
    LimitHoldem(2, small_blind=1, small_bet=3, big_bet=3, max_bets=1),
    LimitHoldem(3, small_blind=2, small_bet=5, big_bet=7, max_bets=3),
    LimitHoldem(4, max_bets=10),
]
FOLD, CALL, RAISE = range(3)
UNIT = 60  # pokerkit's chips are whole: one of ours can be shared by up to six


def play(rules: LimitHoldem, cards: str, actions: str) -> State:
    """The state after actions ("f c r"), with cards dealt as they are needed."""
    state, left = rules.initial_state(), [CARDS.index(card) for card in cards.split()]
    moves = ["fcr".index(letter) for letter in actions.split()]
    while (player := rules.current_player(state)) != TERMINAL:
        if not (left if player == CHANCE else moves):
            break
        state = rules.apply(state, (left if player == CHANCE else moves).pop(0))
    assert not moves
    return state


def theirs(rules: LimitHoldem) -> Any:
    """A hand of pokerkit's, in which by default the big blind is none of the raises."""
    pokerkit = pytest.importorskip("pokerkit")
    manual = ("CARD_BURNING", "HOLE_DEALING", "BOARD_DEALING", "RUNOUT_COUNT_SELECTION")
    table = pokerkit.FixedLimitTexasHoldem(
        tuple(a for a in pokerkit.Automation if a.name not in manual),
        True,
        0,
        (rules.small_blind * UNIT, rules.small_bet * UNIT),
        rules.small_bet * UNIT,
        rules.big_bet * UNIT,
    )
    most = [rules.max_bets - 1, *[rules.max_bets] * 3]
    table.streets = tuple(
        replace(street, max_completion_betting_or_raising_count=num)
        for street, num in zip(table.streets, most, strict=True)
    )
    return table((rules.max_paid + 1) * UNIT, rules.num_players)


def play_beside(rules: LimitHoldem, rng: random.Random, weights: list[int]) -> State:
    """A random hand, compared with pokerkit's at every decision and at the end."""
    n, stack = rules.num_players, (rules.max_paid + 1) * UNIT
    state, other, num_shown = rules.initial_state(), theirs(rules), 0
    while (player := rules.current_player(state)) != TERMINAL:
        if player == CHANCE:
            outcomes = [card for card, _ in rules.chance_outcomes(state)]
            state = rules.apply(state, rng.choice(outcomes))
            if len(state.cards) == 2 * n:
                for seat in range(n):
                    own = state.cards[seat : 2 * n : n]
                    other.deal_hole("".join(CARDS[card] for card in own))
            elif rules.current_player(state) != CHANCE:
                other.burn_card("??")
                new = state.cards[2 * n + num_shown :]
                num_shown += len(new)
                other.deal_board("".join(CARDS[card] for card in new))
            continue
        legal = rules.legal_actions(state)
        can = (other.can_fold(), True, other.can_complete_bet_or_raise_to())
        assert player == other.actor_index
        assert list(legal) == [action for action in range(3) if can[action]]
        assert [stack - chips * UNIT for chips in state.betting.paid] == other.stacks
        assert sum(state.betting.paid) * UNIT == other.total_pot_amount
        action = rng.choices(legal, [weights[action] for action in legal])[0]
        moves = (other.fold, other.check_or_call, other.complete_bet_or_raise_to)
        moves[action]()
        state = rules.apply(state, action)
    assert not other.status
    returns = [chips * UNIT for chips in rules.returns(state)]
    assert returns == pytest.approx([chips - stack for chips in other.stacks])
    return state


@pytest.mark.parametrize("rules", GAMES, ids=repr)
def test_play_is_as_in_pokerkit(rules: LimitHoldem) -> None:
    rng, num_showdowns = random.Random(0), 0
    for _ in range(15):
        play_beside(rules, rng, [1, 1, 1])
        state = play_beside(rules, rng, [1, 20, 10])
        num_showdowns += state.betting.folded.count(False) > 1
    assert num_showdowns > 5


@pytest.mark.slow
@pytest.mark.parametrize("rules", GAMES, ids=repr)
def test_thousands_of_hands_are_played_as_in_pokerkit(rules: LimitHoldem) -> None:
    rng = random.Random(1)
    for _ in range(1000):
        play_beside(rules, rng, [1, 1, 1])
        play_beside(rules, rng, [1, 20, 10])


@pytest.mark.parametrize("rules", [GAMES[1], *GAMES[4:7]], ids=repr)
def test_other_parameters_keep_the_contract(
    rules: LimitHoldem, check_contract: Any
) -> None:
    check_contract(rules)


def betting_states(state: State, num_turns: int = 0) -> Iterator[tuple[State, int]]:
    """All states after one deal of the cards, with the number of turns before each."""
    yield state, num_turns
    if game.current_player(state) == CHANCE:
        card, _ = game.chance_outcomes(state)[0]
        yield from betting_states(game.apply(state, card), num_turns)
    for action in game.legal_actions(state):
        yield from betting_states(game.apply(state, action), num_turns + 1)


def test_two_players_have_as_many_information_states_as_is_known() -> None:
    """Ways to bet times own cards times boards: the flop as a set, then card by card."""
    num_nodes, lengths = Counter[int](), set()
    for state, num_turns in betting_states(game.initial_state()):
        player = game.current_player(state)
        if player == TERMINAL:
            lengths.add(num_turns)
        elif player != CHANCE:
            num_nodes[len(state.history)] += 1
    own, flop = comb(52, 2), comb(50, 3)
    deals = [own, own * flop, own * flop * 47, own * flop * 47 * 46]
    total = sum(num_nodes[street] * num for street, num in enumerate(deals, 1))
    assert total == 319_365_922_522_608
    assert lengths == set(range(1, 24))


@pytest.mark.parametrize("rules", GAMES, ids=repr)
def test_the_longest_hand_is_as_long_as_declared(rules: LimitHoldem) -> None:
    """A call unless it ends the round; then a raise."""
    state, num_turns, rng = rules.initial_state(), 0, random.Random(0)
    while (player := rules.current_player(state)) != TERMINAL:
        if player == CHANCE:
            outcomes = [card for card, _ in rules.chance_outcomes(state)]
            state = rules.apply(state, rng.choice(outcomes))
            continue
        last = state.betting.num_left == 1
        can_raise = RAISE in rules.legal_actions(state)
        state = rules.apply(state, RAISE if last and can_raise else CALL)
        num_turns += 1
    assert num_turns == rules.max_turns
    assert set(state.betting.paid) == {rules.max_paid}


def test_the_dealer_of_two_pays_the_small_blind_and_moves_first_before_the_flop() -> (
    None
):
    state = play(game, "Ac Kc Ad Kd", "")
    assert state.betting.paid == (2, 1)
    assert game.current_player(state) == 1
    state = play(game, "Ac Kc Ad Kd 2c 3c 4c", "c c")
    assert game.current_player(state) == 0


def test_blinds_may_be_equal() -> None:
    rules = LimitHoldem(small_blind=2)
    state = play(rules, "Ac Kc Ad Kd", "")
    assert rules.current_player(state) == 1
    assert list(rules.legal_actions(state)) == [CALL, RAISE]
    assert rules.current_player(play(rules, "Ac Kc Ad Kd", "c")) == 0


def test_the_blinds_follow_the_dealer_where_there_are_more_players() -> None:
    rules = LimitHoldem(4)
    hands = "Ac Kc Qc Jc Ad Kd Qd Jd"
    state = play(rules, hands, "")
    assert state.betting.paid == (1, 2, 0, 0)
    assert rules.current_player(state) == 2
    state = play(rules, hands + " 2c 3c 4c", "c c f c")
    assert rules.current_player(state) == 1
    state = play(rules, hands, "f f f")
    assert rules.returns(state) == (-1, 1, 0, 0)


CHECKED = "c c c c c c c c"


@pytest.mark.parametrize(
    ("cards", "returns"),  # player_0's and player_1's cards in turn, then the board
    [
        ("Ac Ks Ad Kh 2s 7h 9d Jc 3s", (2, -2)),
        ("Ac 2s Ad 2h 2c 7h 9d Jc 3s", (-2, 2)),  # three of a kind
        ("Ac 6s 2d 2h 3c 4h 5d Jc Ks", (-2, 2)),  # a straight to the six, not five
        ("Ac Ks 2d Qh 3c 4h 5d 9c 9s", (2, -2)),  # an ace is low in a straight
        ("Ac Ad 2c 3d Tc Jc Qc Kh 9h", (2, -2)),  # a flush beats a straight
        ("Ac Ad Kc Kd 5c 5h 5d 5s Qs", (0, 0)),  # an ace beside four fives
        ("2c 3d 2d 3c Ts Js Qs Ks As", (0, 0)),  # the board
        ("Ac Ad Kc Qd As 7h 8d 2c 3h", (2, -2)),  # the second card decides
    ],
)
def test_the_best_five_of_seven_cards_win(
    cards: str, returns: tuple[float, ...]
) -> None:
    state = play(game, cards, CHECKED)
    assert game.current_player(state) == TERMINAL
    assert game.returns(state) == returns


def test_equal_hands_share_the_pot_to_fractions_of_a_chip() -> None:
    rules = LimitHoldem(3)
    cards = "Ac Ad 2c Kc Kd 3c Qs Qh 9h 9d 5s"
    state = play(rules, cards, "c c c " + "r c c " + "c c c " + "c c r c c")
    assert state.betting.paid == (8, 8, 8)
    assert rules.returns(state) == (4, 4, -8)
    state = play(rules, cards, "r c c " + "r c f")
    state = play(rules, cards, "r c c " + "r c f " + "c c c c")
    assert rules.returns(state) == (2, 2, -4)
    state = play(rules, cards, "c f c " + "c c c c c c")
    assert rules.returns(state) == (-1, 3, -2)


def test_the_bounds_of_the_returns_are_reached() -> None:
    rules = LimitHoldem(3)
    cards = "Ac 7d 2c Ad 8d 3c As Ah 9h 9d 5s"
    state = play(rules, cards, "r r r c c " + "r r r r c c " * 3)
    lost = rules.min_return
    assert rules.returns(state) == (rules.max_return, lost, lost) == (96, -48, -48)


def test_check_and_bet_are_read_where_they_are_right() -> None:
    before = play(game, "Ac Kc Ad Kd", "c")
    assert game.parse(before, "CHECK") == CALL
    with pytest.raises(IllegalAction):
        game.parse(before, "bet")  # the big blind has bet
    flop = play(game, "Ac Kc Ad Kd 2c 3c 4c", "c c")
    assert game.parse(flop, "bet") == RAISE
    with pytest.raises(IllegalAction):
        game.parse(flop, "fold")  # there is nothing to pay
    with pytest.raises(IllegalAction):
        game.parse(game.apply(flop, RAISE), "check")


def test_the_text_says_what_happened_and_shows_hands_at_the_showdown() -> None:
    cards = "2c Kc Ad Kd 7h 3c 4c Jc 9s"
    assert game.observe(play(game, cards, "r c"), 0).split("\n") == [
        "You are player_0 and hold Ad 2c.",
        "Board: 7h 3c 4c.",
        "Before the flop: player_1 raise, player_0 call.",
        "Flop: no actions yet.",
        "Chips in the pot: 8, from player_0 4, player_1 4.",
        "You are to move. A call costs nothing.",
    ]
    over = play(game, cards, "r c c c c c c c")
    assert game.observe(over, 0).split("\n")[-2:] == [
        "Shown: player_1 Kd Kc.",
        "The hand is over: player_0 loses 4, player_1 wins 4.",
    ]
    folded = play(game, cards, "r c c r f")
    assert "K" not in game.observe(folded, 0)
    assert "(folded)" in game.observe(folded, 0)


def test_chips_are_written_without_exponents_and_many_decimals() -> None:
    rich = LimitHoldem(2, 1_000_000, 1_000_000, 1_000_000)
    text = rich.observe(play(rich, "Ac Kc Ad Kd", "r f"), 0)
    assert text.endswith("is over: player_0 loses 1000000, player_1 wins 1000000.")
    rules = LimitHoldem(4)  # three share what one has paid before the fold
    board = "2c 2d 2h 2s Ac"
    state = play(
        rules, f"3c 4c 5c 6c 3d 4d 5d 6d {board}", "c c c c r c c f " + "c c c " * 2
    )
    assert "player_0 wins 0.67, " in rules.observe(state, 0)


def test_texts_stay_short() -> None:
    """A random hand's text has less than 1,500 characters, even with six players."""
    rules, rng = LimitHoldem(6), random.Random(0)
    for _ in range(100):
        state = rules.initial_state()
        while (player := rules.current_player(state)) != TERMINAL:
            if player == CHANCE:
                choices = [card for card, _ in rules.chance_outcomes(state)]
            else:
                choices = [a for a in rules.legal_actions(state) if a]
            state = rules.apply(state, rng.choice(choices))
            assert len(rules.observe(state, 0)) < 1500


@pytest.mark.parametrize("rules", GAMES, ids=repr)
def test_features_tell_information_states_apart(
    rules: LimitHoldem, check_features: Any
) -> None:
    """But for the order of the flop."""
    assert check_features(rules, 60) > 200


def test_a_new_deal_keeps_what_a_seat_sees_and_deals_all_else_again() -> None:
    rules, rng = LimitHoldem(3), random.Random(0)
    state = play(rules, "2c Kc Ad 7d Qd 3c As Ah 9h", "c c c")
    seen: Counter[int] = Counter()
    for _ in range(2000):
        drawn = rules.resample(state, 1, rng)
        assert drawn.cards[1:5:3] == state.cards[1:5:3]
        assert drawn.cards[6:] == state.cards[6:]
        assert len(set(drawn.cards)) == 9
        seen.update(drawn.cards[:1] + drawn.cards[2:4] + drawn.cards[5:6])
    assert len(seen) == 52 - 5
    assert min(seen.values()) > 120  # of 170


def test_what_was_shown_stays_and_what_was_folded_is_dealt_again() -> None:
    rules, rng = LimitHoldem(3), random.Random(0)
    cards = "2c Kc Ad 7d Qd 3c As Ah 9h 9d 5s"
    state = play(rules, cards, "c f c " + "c c c c c c")
    drawn = [rules.resample(state, 2, rng).cards for _ in range(50)]
    assert {cards[1:3] + cards[4:] for cards in drawn} == {
        state.cards[1:3] + state.cards[4:]
    }
    assert len({cards[0] for cards in drawn}) > 10


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"num_players": 1}, "num_players from 2 to 6, got 1"),
        ({"num_players": 7}, "num_players from 2 to 6, got 7"),
        ({"small_blind": 0}, "small_blind from 1 to 2, got 0"),
        ({"small_blind": 3}, "small_blind from 1 to 2, got 3"),
        ({"small_bet": 0}, "small_bet from 1 to 1000000, got 0"),
        ({"big_bet": 1}, "big_bet from 2 to 1000000, got 1"),
        ({"max_bets": 0}, "max_bets from 1 to 10, got 0"),
        ({"max_bets": 2.0}, r"max_bets from 1 to 10, got 2\.0"),
    ],
)
def test_a_parameter_out_of_range_is_refused(
    params: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        LimitHoldem(**params)


def test_hands_are_ordered_as_by_a_compiled_evaluator() -> None:
    evaluate = pytest.importorskip("phevaluator.evaluator").evaluate_cards
    rng, found = random.Random(0), dict[int, tuple[int, ...]]()
    hands = [rng.sample(range(52), 7) for _ in range(20_000)]
    hands += [[*range(4 * rank, 4 * rank + 4), 0, 1, 2] for rank in range(1, 13)]
    for hand in hands:
        assert (
            found.setdefault(evaluate(*hand), strength := hand_strength(hand))
            == strength
        )
    ordered = [found[place] for place in sorted(found)]  # 1 is the best
    assert ordered == sorted(set(ordered), reverse=True)
    assert len(ordered) > 3_000


def test_the_rules_of_a_single_bet_promise_no_other() -> None:
    text = LimitHoldem(max_bets=1, small_bet=1).rules(0)
    assert "Nobody can raise before the flop; later there is at most 1 raise" in text
    assert '"raise" to pay 1 chip more than that after the flop and' in text
    assert "a small blind of 1 chip and player_0 a big blind of 1 chip." in text
    assert "1 raises" not in text
    assert "1 chips" not in text
    assert "at most 4 raises in a round; the big blind counts" in LimitHoldem().rules(0)


def test_hands_of_an_array_have_the_order_of_single_hands():
    """Of all cards, of two suits and of five ranks, so that each category is there."""
    rng = random.Random(0)
    decks = [range(52), [card for card in range(52) if card & 3 < 2], range(20)]
    hands = [rng.sample(deck, 7) for deck in decks for _ in range(400)]
    strengths = [hand_strength(hand) for hand in hands]
    assert {category for category, *_ in strengths} == set(range(9))
    places = {strength: i for i, strength in enumerate(sorted({*strengths}))}
    _, ranks = np.unique(hand_strengths(np.array(hands)), return_inverse=True)
    assert ranks.tolist() == [places[strength] for strength in strengths]


@pytest.mark.parametrize(
    ("cards", "actions", "paid"),
    [
        ("Ac 2d Ad 7h", "", 2),  # aces win 87 % of deals
        ("Ac 2d Ad 7h As Ah 2c 3d", "r c r c", 6),  # four aces are not beaten
    ],
)
def test_a_hand_that_is_checked_down_is_worth_its_share_of_what_all_have_paid(
    cards, actions, paid
):
    state = play(game, cards, actions)
    value, other = (float(game.check_down([state], seat)[0]) for seat in (0, 1))
    assert value == -other
    assert 0.5 * paid <= value <= paid
    assert (value == paid) == bool(actions)


def test_a_hand_that_has_folded_is_worth_what_it_paid():
    state = play(LimitHoldem(3), "Ac 2d 5c Ad 7h 6c", "r f")
    values = [LimitHoldem(3).check_down([state], seat)[0] for seat in range(3)]
    assert values[0] == -1
    assert sum(values) == pytest.approx(0)
