"""Goofspiel: beside OpenSpiel's, its known values, and what its players may know."""

import itertools
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from pettingzoo.test import parallel_api_test
from pettingzoo.utils.conversions import aec_to_parallel

from arena_envs import TERMINAL, GameEnv, IllegalAction
from arena_envs.games.goofspiel import Goofspiel, State
from arena_envs.solvers import information_states, nash_conv, uniform_table

OTHERS = [
    Goofspiel(num_players=3, num_cards=4, imp_info=True),
    Goofspiel(num_players=4, num_cards=3, points_order="ascending"),
    Goofspiel(num_cards=2, points_order="descending", returns_type="total_points"),
    Goofspiel(num_cards=5, imp_info=True, returns_type="point_difference"),
    Goofspiel(num_players=4, num_cards=13, returns_type="total_points"),
]


def theirs(rules: Goofspiel) -> Any:
    """The same game of OpenSpiel's."""
    pyspiel = pytest.importorskip("pyspiel")
    params = {
        "players": rules.num_players,
        "num_cards": rules.num_cards,
        "points_order": rules.points_order,
        "imp_info": rules.imp_info,
        "returns_type": rules.returns_type,
    }
    return pyspiel.load_game_as_turn_based("goofspiel", params)


def visited(rules: Goofspiel) -> Iterator[tuple[State, int]]:
    """A state of each information state, with the seat to move."""
    for (seat, _), state in information_states(rules).items():
        yield state, seat


class Shown:
    """A state of OpenSpiel's without the line that tells whose turn it is in the round."""

    def __init__(self, state: Any) -> None:
        self._state = state

    def information_state_string(self, seat: int) -> str:
        text: str = self._state.information_state_string(seat)
        return text.partition("\n")[2]


@pytest.mark.parametrize("rules", OTHERS[:4], ids=repr)
def test_other_parameters_keep_the_contract(
    rules: Goofspiel, check_contract: Any
) -> None:
    check_contract(rules)


@pytest.mark.parametrize(
    ("rules", "num_states"),
    [
        (Goofspiel(num_cards=4), 26_773),
        (Goofspiel(num_players=3, num_cards=3), 2_551),
        (Goofspiel(num_players=4, num_cards=2), 63),
        (Goofspiel(num_cards=5, points_order="descending"), 26_931),
        (Goofspiel(num_cards=4, points_order="ascending"), 1_077),
        (Goofspiel(num_cards=4, returns_type="point_difference"), 26_773),
        (Goofspiel(num_players=3, num_cards=3, returns_type="total_points"), 2_551),
    ],
    ids=repr,
)
def test_it_has_openspiels_tree(oracle: Any, rules: Goofspiel, num_states: int) -> None:
    state, other = rules.initial_state(), theirs(rules).new_initial_state()
    size = oracle.walk_tree(rules, state, other, lambda *_: None)
    assert size == num_states


@pytest.mark.parametrize(
    "rules",
    [
        Goofspiel(num_cards=4, imp_info=True),
        Goofspiel(num_players=3, num_cards=3, imp_info=True),
    ],
    ids=repr,
)
def test_hidden_bids_leave_seats_with_openspiels_knowledge(
    oracle: Any, rules: Goofspiel
) -> None:
    knowledge = oracle.Knowledge(rules)
    state, other = rules.initial_state(), theirs(rules).new_initial_state()
    oracle.walk_tree(rules, state, other, lambda s, o: knowledge(s, Shown(o)))
    assert knowledge.num_repeated > 1_000


def test_with_open_bids_ours_remembers_more_than_openspiels(oracle: Any) -> None:
    rules = Goofspiel(num_cards=4)
    theirs_of: dict[Any, str] = {}

    def visit(state: State, other: Any) -> None:
        if rules.current_player(state) >= 0:
            for seat in range(2):
                key = (seat, rules.information_state(state, seat))
                shown = Shown(other).information_state_string(seat)
                assert theirs_of.setdefault(key, shown) == shown

    other = theirs(rules).new_initial_state()
    oracle.walk_tree(rules, rules.initial_state(), other, visit)
    seats_shown = {(seat, shown) for (seat, _), shown in theirs_of.items()}
    assert len(seats_shown) < len(theirs_of)


@pytest.mark.parametrize("rules", [Goofspiel(), *OTHERS], ids=repr)
def test_random_games_go_like_openspiels(oracle: Any, rules: Goofspiel) -> None:
    oracle.play_games(rules, theirs(rules), 5_000 // rules.num_cards**2)


@pytest.mark.parametrize(("imp_info", "value"), [(False, 1.493056), (True, 1.416667)])
def test_uniform_play_has_its_known_nash_conv(imp_info: bool, value: float) -> None:
    rules = Goofspiel(num_cards=4, imp_info=imp_info)
    assert nash_conv(rules, uniform_table(rules)) == pytest.approx(value, abs=1e-6)


def final(rules: Goofspiel, *orders: tuple[int, ...]) -> State:
    """The end of an episode with prizes from 1 up and these bids of the seats."""
    bids = itertools.chain.from_iterable(zip(*orders, strict=True))
    state = State(tuple(range(rules.num_cards)), tuple(bids))
    assert rules.current_player(state) == TERMINAL
    return state


@pytest.mark.parametrize(
    "returns_type", ["win_loss", "point_difference", "total_points"]
)
@pytest.mark.parametrize(
    ("num_players", "num_cards"),
    [(2, 2), (2, 3), (2, 4), (3, 2), (3, 3), (3, 4), (4, 2), (4, 3)],
)
def test_the_bounds_of_returns_are_reached(
    num_players: int, num_cards: int, returns_type: Any
) -> None:
    rules = Goofspiel(num_players, num_cards, returns_type=returns_type)
    orders = list(itertools.permutations(range(num_cards)))
    ends = itertools.product(orders, repeat=num_players)
    returns = {r for bids in ends for r in rules.returns(final(rules, *bids))}
    assert min(returns) == pytest.approx(rules.min_return)
    assert max(returns) == pytest.approx(rules.max_return)


def test_three_of_four_can_share_the_win_with_six_cards() -> None:
    rules = Goofspiel(num_players=4, num_cards=6)
    orders = [(4, 5, 2, 3, 1, 0), (5, 4, 3, 1, 2, 0), (4, 3, 5, 2, 0, 1)]
    state = final(rules, *orders, (4, 3, 5, 2, 1, 0))
    assert rules.returns(state) == pytest.approx((1 / 3, 1 / 3, 1 / 3, -1))
    assert rules.min_return == -1


def test_a_prize_with_two_highest_bids_goes_to_nobody() -> None:
    rules = Goofspiel(3, 3, "ascending", returns_type="total_points")
    state = rules.initial_state()
    for action in (2, 2, 1, 1, 0, 0):  # then the cards 1, 2, 3 are left for the prize 3
        state = rules.apply(state, action)
    assert state.bids[-3:] == (0, 1, 2)
    assert rules.returns(state) == (2, 0, 3)


def test_hidden_bids_do_not_show() -> None:
    rules = Goofspiel(num_cards=3, imp_info=True)
    state = State((1, 0), (0, 2, 1))
    assert rules.observe(state, 0) == (
        "You are player_0. Round 2 of 3: all players bid for the prize 1.\n"
        "Prizes to come: 3.\n"
        "Your cards: 2, 3.\n"
        "Points: player_0 0, player_1 2.\n"
        "Your bid in this round: 2.\n"
        "Past rounds (prize: your bid; winner):\n"
        "2: 1; player_1"
    )


def consistent(rules: Goofspiel, state: State, seat: int) -> set[State]:
    """All states that the seat cannot tell from this one, by trying all hands."""
    n, num_bids = rules.num_players, len(state.bids)
    orders = itertools.permutations(range(rules.num_cards))
    found = set()
    for hands in itertools.product(list(orders), repeat=n):
        bids = tuple(hands[i % n][i // n] for i in range(num_bids))
        other = State(state.prizes, bids)
        key = rules.information_state(other, seat)
        if key == rules.information_state(state, seat):
            found.add(other)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rules", "bids"),
    [
        (Goofspiel(num_cards=4, imp_info=True), (1, 2, 2, 0, 3)),
        (Goofspiel(num_cards=4, imp_info=True), (1, 1)),
        (Goofspiel(3, 4, imp_info=True), (1, 3, 3)),
        (Goofspiel(3, 3, imp_info=True), (0, 2, 2, 1)),
        (Goofspiel(3, 4), (1, 3, 3, 0)),
    ],
)
def test_a_new_draw_reaches_every_state_that_fits_about_as_often(
    rules: Goofspiel, bids: tuple[int, ...]
) -> None:
    state = State((2, 0, 1)[: 1 + len(bids) // rules.num_players], bids)
    for seat in range(rules.num_players):
        rng = random.Random(0)
        wanted = consistent(rules, state, seat)
        num_draws = 100 * len(wanted)
        draws = Counter(rules.resample(state, seat, rng) for _ in range(num_draws))
        assert set(draws) == wanted
        assert min(draws.values()) > 50
        assert max(draws.values()) < 160


@pytest.mark.parametrize("imp_info", [False, True])
def test_features_tell_information_states_apart(imp_info: bool) -> None:
    rules = Goofspiel(num_players=3, num_cards=3, imp_info=imp_info)
    keys = {
        (seat, rules.features(state, seat).tobytes()) for state, seat in visited(rules)
    }
    assert len(keys) == len(information_states(rules))


@pytest.mark.parametrize("text", ["2", " bid 2", "Card 2", "[2]", "play 2"])
def test_a_card_has_several_spellings(text: str) -> None:
    assert Goofspiel().parse(State((0,)), text) == 1


@pytest.mark.parametrize("text", ["0", "6", "1 2", "02", "-1", "1.0", "prize 2"])
def test_what_is_no_card_in_hand_is_refused(text: str) -> None:
    with pytest.raises(IllegalAction, match="want one of the cards 1, 2, 3, 4, 5, got"):
        Goofspiel().parse(State((0,)), text)


@pytest.mark.filterwarnings("ignore::UserWarning:pettingzoo")
@pytest.mark.parametrize("num_players", [2, 4])
def test_pettingzoo_takes_it_as_a_parallel_environment(num_players: int) -> None:
    env = aec_to_parallel(GameEnv(Goofspiel(num_players)))
    parallel_api_test(env, num_cycles=100)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"num_players": 1}, "num_players from 2 to 4, got 1"),
        ({"num_cards": 1}, "num_cards from 2 to 13, got 1"),
        ({"num_cards": True}, "num_cards from 2 to 13, got True"),
        ({"points_order": "up"}, "points_order among .*, got 'up'"),
        ({"imp_info": 1}, "imp_info True or False, got 1"),
        ({"returns_type": "points"}, "returns_type among .*, got 'points'"),
    ],
)
def test_impossible_parameters_are_refused(
    params: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Goofspiel(**params)
