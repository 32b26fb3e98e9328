"""Donor game: its units, its records, and what is known of play in closed form."""

import itertools
import random
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from arena_envs import CHANCE, TERMINAL, IllegalAction
from arena_envs.games.donor_game import DonorGame, State
from arena_envs.solvers import expected_returns, nash_conv, uniform_table

game = DonorGame()
strict = DonorGame(num_players=3, gift_step=50, punishment=True)
NOTHING, HALF, ALL, PUNISH = range(4)  # actions of `strict`


def played(rules: DonorGame, rounds: Sequence[Sequence[int]]) -> State:
    """The state after rounds of a shift and the choices of all seats."""
    state = rules.initial_state()
    for action in itertools.chain(*rounds):
        state = rules.apply(state, action)
    return state


def finished(rules: DonorGame, seed: int, choose: Callable[[State, int], int]) -> State:
    """The end of an episode in which the seat to move plays `choose(state, seat)`."""
    rng, state = random.Random(seed), rules.initial_state()
    while (player := rules.current_player(state)) != TERMINAL:
        if player == CHANCE:
            action = rng.choice(rules.chance_outcomes(state))[0]
        else:
            action = choose(state, player)
        state = rules.apply(state, action)
    return state


def ends(rules: DonorGame, state: State) -> Iterator[State]:
    player = rules.current_player(state)
    if player == TERMINAL:
        yield state
    outcomes = [outcome for outcome, _ in rules.chance_outcomes(state)]
    for action in outcomes if player == CHANCE else rules.legal_actions(state):
        yield from ends(rules, rules.apply(state, action))


def schedules(num_players: int, num_rounds: int) -> Iterator[list[int]]:
    """All orders in which shifts can come."""
    cycle = list(itertools.permutations(range(1, num_players)))
    num_cycles = -(-num_rounds // (num_players - 1))
    for orders in itertools.product(cycle, repeat=num_cycles):
        yield list(itertools.chain(*orders))[:num_rounds]


def test_a_gift_is_multiplied_on_its_way() -> None:
    # with shift 1, seat 0 gives to 1, 1 to 2 and 2 to 0
    assert strict.returns(played(strict, [(1, HALF, ALL, NOTHING)])) == (-5, 0, 20)
    # with shift 2, seat 0 gives to 2, 1 to 0 and 2 to 1
    assert strict.returns(played(strict, [(2, HALF, ALL, NOTHING)])) == (15, -10, 10)
    # gifts come out of what was held before the round: 5, 10, 30
    state = played(strict, [(1, HALF, ALL, NOTHING), (2, HALF, HALF, ALL)])
    assert strict.returns(state) == (2.5, 55, -5)


def test_gifts_are_rounded_down_to_hundredths() -> None:
    rules = DonorGame(num_players=2, start=1, gift_step=5)
    state = played(
        rules, [(1, 19, 20), (1, 13, 0)]
    )  # 95% and all; 65% of 2.05, nothing
    assert state.hundredths == (205 - 133, 190 + 2 * 133)


def test_punishment_takes_two_once_the_gifts_have_arrived() -> None:
    state = played(strict, [(1, PUNISH, NOTHING, HALF)])
    assert strict.returns(state) == (9, -2, -5)
    state = played(strict, [(1, PUNISH, PUNISH, PUNISH)])
    assert strict.returns(state) == (-3, -3, -3)


def test_punishment_takes_no_more_than_there_is() -> None:
    state = played(strict, [(1, PUNISH, ALL, NOTHING)])
    assert strict.returns(state) == (-1, -10, 20)
    assert state.hundredths[1] == 0


def test_who_has_nothing_can_only_give_nothing() -> None:
    state = played(strict, [(1, PUNISH, ALL, NOTHING), (1, NOTHING)])
    assert strict.current_player(state) == 1
    assert list(strict.legal_actions(state)) == [NOTHING]


@pytest.mark.parametrize(
    ("hundredths", "shares", "punish"),
    [(0, [0], False), (3, [0, 40, 50, 60, 70, 80, 90, 100], False), (100, None, True)],
)
def test_a_gift_is_at_least_a_hundredth_and_punishment_costs_a_unit(
    hundredths: int, shares: list[int] | None, punish: bool
) -> None:
    rules = DonorGame(num_players=2, punishment=True)
    state = State((1,), (), (), (hundredths, 100))
    texts = [rules.action_text(state, a) for a in rules.legal_actions(state)]
    gifts = [f"give {share}%" for share in shares or range(0, 101, 10)]
    assert texts == gifts + ["punish"] * punish


@pytest.mark.parametrize("num_players", [2, 3, 4, 5])
def test_everybody_gives_to_all_others_before_it_gives_to_one_again(
    num_players: int,
) -> None:
    rules = DonorGame(num_players, num_rounds=3 * (num_players - 1))
    seen = set()
    for seed in range(200):
        shifts = finished(rules, seed, lambda *_: 0).shifts
        for first in range(0, len(shifts), num_players - 1):
            cycle = shifts[first : first + num_players - 1]
            assert sorted(cycle) == list(range(1, num_players))
            seen.add(cycle)
    assert len(seen) == len(list(schedules(num_players, num_players - 1)))


def test_the_shifts_that_are_left_are_equally_likely() -> None:
    third = pytest.approx(1 / 3)
    assert dict(game.chance_outcomes(game.initial_state())) == dict.fromkeys(
        (1, 2, 3), third
    )
    state = played(game, [(2, 0, 0, 0, 0)])
    assert game.chance_outcomes(state) == [(1, 0.5), (3, 0.5)]
    state = played(game, [(2, 0, 0, 0, 0), (3, 0, 0, 0, 0), (1, 0, 0, 0, 0)])
    assert dict(game.chance_outcomes(state)) == dict.fromkeys((1, 2, 3), third)


@pytest.mark.parametrize(
    ("action", "returns"), [(0, 0), (10, 630), (5, 10 * 1.5**6 - 10)]
)
def test_equal_generosity_grows_as_in_closed_form(action: int, returns: float) -> None:
    for seed in range(10):
        paid = game.returns(finished(game, seed, lambda *_: action))
        assert len(set(paid)) == 1
        # 50% of 15.75 units and the like are rounded down
        assert paid[0] == pytest.approx(returns, abs=0.05 if action == 5 else 0)


@pytest.mark.parametrize("num_players", [2, 3, 12])
@pytest.mark.parametrize("multiplier", [2, 5])
def test_closed_forms_hold_for_other_parameters(
    num_players: int, multiplier: int
) -> None:
    rules = DonorGame(num_players, 4, start=7, multiplier=multiplier, gift_step=25)
    everything = rules.returns(finished(rules, 0, lambda *_: 4))
    assert everything == (7 * multiplier**4 - 7,) * num_players
    assert rules.returns(finished(rules, 0, lambda *_: 0)) == (0,) * num_players


@pytest.mark.parametrize(
    "rules",
    [
        DonorGame(2, 2, gift_step=50),
        DonorGame(3, 2, gift_step=100),
        DonorGame(2, 2, gift_step=100, punishment=True),
    ],
    ids=repr,
)
def test_never_to_give_is_an_equilibrium(rules: DonorGame) -> None:
    uniform = uniform_table(rules)
    never = {key: [1.0] + [0.0] * (len(row) - 1) for key, row in uniform.items()}
    assert nash_conv(rules, never) == 0
    assert set(expected_returns(rules, never)) == {0}
    assert nash_conv(rules, uniform) > 1


def test_whatever_happened_nothing_else_pays_in_the_last_round() -> None:
    rules = DonorGame(3, 2, gift_step=50, punishment=True)
    rng = random.Random(0)
    for _ in range(200):
        first = (rng.randint(1, 2), *(rng.randrange(4) for _ in range(3)))
        before = rules.apply(played(rules, [first]), 3 - first[0])
        for _ in range(2):  # the choices of the others before this one
            choices = rules.legal_actions(before)
            before = rules.apply(before, rng.choice(choices))
        seat = rules.current_player(before)
        assert seat == 2
        paid = [
            rules.returns(rules.apply(before, a))[seat]
            for a in rules.legal_actions(before)
        ]
        assert all(other < paid[0] for other in paid[1:])


@pytest.mark.parametrize(
    "rules",
    [
        DonorGame(2, 1, gift_step=25, punishment=True),
        DonorGame(2, 3, gift_step=50),
        DonorGame(2, 2, gift_step=50, punishment=True),
        DonorGame(3, 2, start=1, multiplier=3, gift_step=100),
        DonorGame(4, 1, gift_step=50),
    ],
    ids=repr,
)
def test_the_bounds_are_the_best_and_the_worst_of_all_ends(rules: DonorGame) -> None:
    paid = [rules.returns(end)[0] for end in ends(rules, rules.initial_state())]
    assert (min(paid), max(paid)) == (rules.min_return, rules.max_return)


@pytest.mark.parametrize(
    ("num_players", "num_rounds"),
    [(2, 6), (3, 5), (4, 2), (4, 3), (4, 6), (5, 2), (5, 3), (6, 3), (6, 4), (7, 3)],
)
def test_the_most_that_one_seat_can_get_is_what_passing_on_in_time_gives(
    num_players: int, num_rounds: int
) -> None:
    """Backwards: a unit is worth to seat 0 what its holder makes of it at best."""
    most = 0.0
    for shifts in schedules(num_players, num_rounds):
        worth = [1, *[0] * (num_players - 1)]
        for shift in reversed(shifts):
            worth = [
                max(worth[seat], 3 * worth[(seat + shift) % num_players])
                for seat in range(num_players)
            ]
        most = max(most, 10 * sum(worth) - 10)
    assert DonorGame(num_players, num_rounds, multiplier=3).max_return == most


def test_the_default_game_has_the_bounds_of_its_page() -> None:
    assert (game.min_return, game.max_return, game.max_turns) == (-10, 1590, 24)


def test_the_text_tells_the_recipient_and_all_records() -> None:
    state = played(game, [(1, 5, 0, 10, 1), (3,)])
    text = (
        "You are player_1. Round 2 of 6: all players choose. You give to player_0, and "
        "player_2 gives to you.\n"
        "You have 20 units; gave 0% to player_2.\n"
        "player_2 has 0 units; gave 100% to player_3.\n"
        "player_3 has 29 units; gave 10% to player_0.\n"
        "player_0, your recipient, has 7 units; gave 50% to player_1."
    )
    assert game.observe(state, 1) == text
    assert game.observe(game.apply(state, 3), 1) == text


def test_the_text_is_sensible_before_a_draw_and_after_the_end() -> None:
    assert game.observe(game.initial_state(), 3) == (
        "You are player_3. Round 1 of 6: it is being drawn who gives to whom.\n"
        "You have 10 units.\n"
        "player_0 has 10 units.\n"
        "player_1 has 10 units.\n"
        "player_2 has 10 units."
    )
    rules = DonorGame(2, 1, gift_step=5, punishment=True)
    end = played(rules, [(1, 1, 21)])
    assert rules.observe(end, 1) == (
        "You are player_1. The game is over: your score is 0.\n"
        "You have 10 units; punished player_0.\n"
        "player_0 has 7.50 units; gave 5% to player_1."
    )


def test_only_a_game_with_punishment_tells_of_it() -> None:
    assert "punish" not in game.rules(0)
    assert '"punish": you pay 1 unit' in strict.rules(0)


def test_features_are_units_and_rounds_from_the_own_seat_on() -> None:
    rules = DonorGame(3, 2, gift_step=50, punishment=True)
    state = played(rules, [(1, HALF, PUNISH, NOTHING), (2,)])
    # what seat 1 sees: 19, 8 and 5 units
    units = [np.log1p(x) for x in (19, 8, 5)]
    first, second = [1, 1, 0, -1, 0, 0.5], [0, 0, 1, 0, 0, 0]
    assert rules.features(state, 1).tolist() == pytest.approx([*units, *first, *second])


@pytest.mark.parametrize("rules", [game, strict], ids=repr)
def test_features_tell_all_that_is_known_apart(rules: DonorGame) -> None:
    found: dict[Any, Hashable] = {}
    rng = random.Random(0)

    def look(state: State, seat: int) -> int:
        key = rules.information_state(state, seat)
        features = (seat, rules.features(state, seat).tobytes())
        assert found.setdefault(features, key) == key
        return rng.choice(rules.legal_actions(state))

    for seed in range(100):
        finished(rules, seed, look)
    assert len(found) > 1000


@pytest.mark.parametrize(
    ("text", "action"),
    [
        *(("give 30%", 3), ("30%", 3), ("Give 30 percent", 3), ("give 030 %", 3)),
        *(("give nothing", 0), ("give everything", 10), ("GIVE  100%", 10)),
    ],
)
def test_shares_are_read(text: str, action: int) -> None:
    state = game.apply(game.initial_state(), 1)
    assert game.parse(state, text) == action


@pytest.mark.parametrize(
    "text", ["30", "give 30", "give 35%", "give 110%", "give 30 units", "punish", "%"]
)
def test_other_texts_are_no_gift(text: str) -> None:
    state = game.apply(game.initial_state(), 1)
    with pytest.raises(IllegalAction, match="want one of"):
        game.parse(state, text)


@pytest.mark.parametrize(
    "rules",
    [
        strict,
        DonorGame(2, 3, gift_step=100),
        DonorGame(5, 2, start=1, multiplier=10, gift_step=20, punishment=True),
    ],
    ids=repr,
)
def test_other_parameters_keep_the_contract(
    rules: DonorGame, check_contract: Any
) -> None:
    check_contract(rules)


def test_the_longest_text_fits() -> None:
    rules = DonorGame(12, 20, 1000, 10, gift_step=1, punishment=True)
    end = finished(rules, 0, lambda *_: 100)
    assert rules.returns(end) == (1000 * 10.0**20 - 1000,) * 12
    assert len(rules.observe(end, 0)) < 8000


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("num_players", value) for value in (1, 13, 2.0, "4", True)),
        *(("num_rounds", value) for value in (0, 21, 1.5, None)),
        *(("start", value) for value in (0, 1001, 2.5)),
        *(("multiplier", value) for value in (1, 11, 2.0)),
        *(("gift_step", value) for value in (0, 3, 30, 101, 10.0)),
        *(("punishment", value) for value in (1, None, "yes")),
    ],
)
def test_a_parameter_out_of_range_is_refused(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"want .*{name} .*, got {value!r}"):
        DonorGame(**{name: value})


def test_the_rules_are_true_of_the_smallest_game() -> None:
    text = DonorGame(2, 1, 1, gift_step=100).rules(0)
    assert "a donor game of 1 round for 2 players" in text
    assert "Everybody starts with 1 unit." in text
    assert "you give to the other player and receive from it. Both choose" in text
    assert 'You write "give 0%" or "give 100%" of your units.' in text
    assert "in steps" not in text
    assert "drawn" not in text
