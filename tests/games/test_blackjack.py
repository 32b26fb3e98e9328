"""Blackjack: beside OpenSpiel's, and its known values by going through all hands."""

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any

import gymnasium
import numpy as np
import pytest

import arena_envs
from arena_envs import CHANCE, TERMINAL, IllegalAction
from arena_envs.games.blackjack import HIT, STAND, VALUES, Blackjack, State, total_of

game = Blackjack()
RANKS = "A23456789TJQK"
DECK = (4,) * 9 + (16,)  # cards of each value from 1 to 10

Hand = tuple[int, ...]  # number of cards of each value


def cards(ranks: str) -> tuple[int, ...]:
    """Cards of these ranks, of different suits where a rank comes again."""
    return tuple(
        13 * ranks[:place].count(rank) + RANKS.index(rank)
        for place, rank in enumerate(ranks)
    )


def table(player: str, dealer: str, *, stood: bool = False) -> State:
    """A state with these ranks."""
    both = cards(player + dealer)
    first, rest = both[: len(player)], both[len(player) :]
    return State(first, rest, len(player) - 2, stood)


# The dynamic program below knows nothing of the game's code.


def best(hand: Hand) -> int:
    low = sum(value * number for value, number in enumerate(hand, 1))
    return low + 10 if hand[0] and low <= 11 else low


def add(hand: Hand, value: int) -> Hand:
    return (*hand[: value - 1], hand[value - 1] + 1, *hand[value:])


def unseen(*hands: Hand) -> Hand:
    return tuple(n - sum(h) for n, *h in zip(DECK, *hands, strict=True))


EMPTY: Hand = (0,) * 10


@cache
def ends(up: int) -> tuple[Any, Any, Any]:
    """What the dealer draws to an open card: hands, their totals, numbers of orders."""
    first, found = add(EMPTY, up), Counter[Hand]()

    def draw(hand: Hand) -> None:
        if best(hand) >= 17:
            found[tuple(n - m for n, m in zip(hand, first, strict=True))] += 1
            return
        for value in range(1, 11):
            if hand[value - 1] < DECK[value - 1]:
                draw(add(hand, value))

    draw(first)
    totals = [best(add(hand, up)) for hand in found]
    return np.array([*found]), np.array(totals), np.array([*found.values()])


# falling[n, k]: ways to draw k of n cards in order
falling = np.array([[np.prod(n - np.arange(k)) for k in range(17)] for n in range(53)])


@cache
def standing(hand: Hand, up: int) -> float:
    """Expected return of standing against an open card."""
    left = np.array(unseen(hand, add(EMPTY, up)))
    draws, totals, orders = ends(up)
    chances = orders * falling[left, draws].prod(1) / falling[left.sum(), draws.sum(1)]
    assert chances.sum() == pytest.approx(1)
    own = best(hand)
    wins, losses = (totals > 21) | (totals < own), (totals <= 21) & (totals > own)
    return float(chances[wins].sum() - chances[losses].sum())


@cache
def values(hand: Hand, up: int) -> tuple[float, float, float, float]:
    """Of hitting, of optimal and of uniform play; expected turns of the latter."""
    if best(hand) > 21:
        return (-1.0, -1.0, -1.0, 0.0)
    left, parts = unseen(hand, add(EMPTY, up)), []
    for value in range(1, 11):
        if left[value - 1]:
            after = np.array(values(add(hand, value), up)[1:])
            parts.append(left[value - 1] / sum(left) * after)
    hit, uniform, turns = sum(parts).tolist()
    stand = standing(hand, up)
    return (hit, max(hit, stand), (uniform + stand) / 2, 1 + turns / 2)


def deals() -> Iterator[tuple[Hand, int, float]]:
    """Hands of two cards and open cards, with their probabilities."""
    for first, second, up in product(range(1, 11), repeat=3):
        hand, chance = EMPTY, 1.0
        for dealt, value in enumerate((first, second, up)):
            chance *= (DECK[value - 1] - hand[value - 1]) / (52 - dealt)
            hand = add(hand, value)
        if chance:
            yield add(add(EMPTY, first), second), up, chance


@pytest.mark.slow
def test_optimal_and_random_play_have_their_known_values() -> None:
    sums = sum(chance * np.array(values(hand, up)[1:]) for hand, up, chance in deals())
    assert sums == pytest.approx([-0.042462, -0.392658, 1.374734], abs=1e-6)
    optimal, uniform = (f"{value:.6f}" for value in sums[:2])
    known = f"optimal play {optimal}; uniform random play {uniform}"
    assert Blackjack().known_value == known


@pytest.mark.parametrize(
    ("player", "up", "action"),
    [
        *(("T6", 10, HIT), ("T7", 10, STAND), ("93", 4, STAND), ("T2", 4, HIT)),
        *(("A7", 9, HIT), ("A7", 6, STAND), ("A6", 6, HIT), ("T3", 6, STAND)),
    ],
)
def test_the_optimum_is_the_textbooks(player: str, up: int, action: int) -> None:
    """With 12 against a 4, a single deck makes a difference between 9, 3 and 10, 2."""
    hand = EMPTY
    for card in cards(player):
        hand = add(hand, VALUES[card])
    assert (values(hand, up)[0] < standing(hand, up)) == (action == STAND)


def value_by_rules(state: State) -> float:
    """Expected return where the dealer plays on, cards of one value taken together."""
    if game.current_player(state) == TERMINAL:
        return game.returns(state)[0]
    outcomes = game.chance_outcomes(state)
    chances = defaultdict[int, float](float)
    for card, chance in outcomes:
        chances[VALUES[card]] += chance
    one = {VALUES[card]: card for card, _ in outcomes}
    return sum(
        chance * value_by_rules(game.apply(state, one[value]))
        for value, chance in chances.items()
    )


@pytest.mark.parametrize(
    ("player", "up"), [("T6", "T"), ("99", "7"), ("A78", "A"), ("K6A", "9")]
)
def test_the_dealer_of_the_rules_is_that_of_the_dynamic_program(
    player: str, up: str
) -> None:
    hand, total_value = EMPTY, 0.0
    for card in cards(player):
        hand = add(hand, VALUES[card])
    start = table(player, up)
    outcomes = game.chance_outcomes(State(start.player, start.dealer, start.num_hits))
    one = {VALUES[card]: card for card, _ in outcomes}
    counts = Counter(VALUES[card] for card, _ in outcomes)
    for value, count in counts.items():  # the hidden card
        state = State(start.player, (one[value], *start.dealer), start.num_hits)
        stood = game.apply(state, STAND)
        total_value += count / len(outcomes) * value_by_rules(stood)
    assert total_value == pytest.approx(standing(hand, VALUES[start.dealer[0]]))


def test_it_plays_like_openspiels(oracle: Any) -> None:
    pyspiel = pytest.importorskip("pyspiel")
    other_game, knowledge = pyspiel.load_game("blackjack"), oracle.Knowledge(game)
    rng, num_drawn = random.Random(0), 0

    def visit(state: State, other: Any, actions: list[int]) -> None:
        nonlocal num_drawn
        knowledge(state, other)
        if game.current_player(state) != 0:
            return
        drawn = game.resample(state, 0, rng)
        again = other_game.new_initial_state()
        for action in [*actions[:2], drawn.dealer[0], *actions[3:]]:
            again.apply_action(action)
        assert again.information_state_string(0) == other.information_state_string(0)
        num_drawn += drawn != state

    oracle.play_games(game, other_game, 2_000, visit)
    assert num_drawn > 2_000


@pytest.mark.parametrize(
    ("player", "dealer", "result"),
    [
        *(("TT", "T9", 1), ("T9", "TT", -1), ("T9", "9T", 0), ("AK", "777", 0)),
        *(("AK", "T6K", 1), ("T6", "TA", -1), ("55A", "A6", 1), ("T2", "A6", -1)),
    ],
)
def test_the_higher_total_wins(player: str, dealer: str, result: int) -> None:
    assert game.returns(table(player, dealer, stood=True)) == (result,)


def test_more_than_21_loses_before_the_dealer_draws() -> None:
    state = table("T6K", "26")
    assert game.current_player(state) == TERMINAL
    assert game.returns(state) == (-1,)


def test_the_dealer_draws_to_16_and_stands_on_17() -> None:
    assert game.current_player(table("TT", "T6", stood=True)) == CHANCE
    assert game.current_player(table("TT", "A6", stood=True)) == TERMINAL


@pytest.mark.parametrize(
    ("ranks", "value"), [("AA", 12), ("A9A", 21), ("AKQ", 21), ("AKQ2", 23), ("5A", 16)]
)
def test_an_ace_counts_11_where_it_fits(ranks: str, value: int) -> None:
    assert total_of(cards(ranks)) == value


def test_the_longest_episode_has_as_many_turns_as_declared() -> None:
    state = table("AAAA2222333", "TT")
    assert total_of(state.player) == 21
    assert game.current_player(state) == 0
    assert state.num_hits + 1 == game.max_turns
    assert len(state.player) == 11


def test_the_hidden_card_shows_when_the_turns_are_over() -> None:
    state = table("A6", "9T")
    assert game.observe(state, 0) == (
        "You are player_0. You are to move.\n"
        "Your cards: A, 6 (total 17, soft).\n"
        "Dealer's open card: 10 (total 10)."
    )
    assert game.observe(game.apply(state, STAND), 0) == (
        "You are player_0. The game is over: you have lost.\n"
        "Your cards: A, 6 (total 17, soft).\n"
        "Dealer's cards: 9, 10 (total 19)."
    )


def test_a_new_draw_of_the_hidden_card_is_uniform() -> None:
    state, rng = table("A6", "9T"), random.Random(0)
    draws = Counter(game.resample(state, 0, rng).dealer for _ in range(9_800))
    assert len(draws) == 49
    assert {up for _, up in draws} == {state.dealer[1]}
    assert min(draws.values()) > 140
    over = game.apply(state, STAND)
    assert game.resample(over, 0, rng) == over


def test_features_tell_the_ranks_of_all_visible_cards() -> None:
    state = table("A6", "9T")
    features = game.features(state, 0)
    assert features[:13].tolist() == [0.25, *[0] * 4, 0.25, *[0] * 7]
    assert features[13:15] == pytest.approx([17 / 21, 1])
    assert features[15:28].nonzero()[0].tolist() == [9]
    assert features[28:] == pytest.approx([10 / 21, 0, 0])
    shown = game.features(game.apply(state, STAND), 0)
    assert shown[15:28].nonzero()[0].tolist() == [8, 9]
    assert shown[30] == 1


def test_other_spellings_are_read() -> None:
    state = table("A6", "9T")
    assert [game.parse(state, text) for text in ("Hit me", "draw")] == [HIT, HIT]
    assert [game.parse(state, text) for text in ("stay", " STICK")] == [STAND, STAND]
    with pytest.raises(IllegalAction, match=r"want one of .*, got 'double'"):
        game.parse(state, "double")


def test_one_seat_is_a_gymnasium_environment_without_opponents() -> None:
    env = gymnasium.make("arena/Blackjack-v0", disable_env_checker=True)
    returns = set()
    for seed in range(50):
        env.reset(seed=seed)
        _, reward, over, truncated, _ = env.step(STAND)
        assert over
        assert not truncated
        returns.add(reward)
    assert returns == {-1.0, 0.0, 1.0}
    assert arena_envs.make("blackjack-v0").possible_agents == ["player_0"]
