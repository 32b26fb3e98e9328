"""Colonel Blotto: beside OpenSpiel's, its known values, and what its players may know."""

import itertools
import random
from collections import Counter
from fractions import Fraction
from typing import Any

import pytest
from pettingzoo.test import parallel_api_test
from pettingzoo.utils.conversions import aec_to_parallel

from arena_envs import GameEnv, IllegalAction
from arena_envs.games.colonel_blotto import ColonelBlotto, divisions
from arena_envs.solvers import best_response_value, nash_conv, uniform_table

game = ColonelBlotto()

# in 32nds; found by a linear program
EQUILIBRIUM = {
    **{"0 3 7": 1, "0 4 6": 5, "1 5 4": 1, "1 6 3": 1, "2 1 7": 2, "2 3 5": 1},
    **{"2 5 3": 1, "2 7 1": 2, "3 5 2": 1, "3 7 0": 1, "4 2 4": 2, "4 6 0": 4},
    **{"5 0 5": 2, "6 0 4": 2, "6 2 2": 3, "6 3 1": 1, "7 0 3": 1, "7 1 2": 1},
}


def theirs(rules: ColonelBlotto) -> Any:
    """The same game of OpenSpiel's."""
    pyspiel = pytest.importorskip("pyspiel")
    params = {
        "players": rules.num_players,
        "coins": rules.num_coins,
        "fields": rules.num_fields,
    }
    return pyspiel.load_game_as_turn_based("blotto", params)


def end(rules: ColonelBlotto, *texts: str) -> tuple[int, ...]:
    """The state after these choices, by seat."""
    state = rules.initial_state()
    for text in texts:
        state = rules.apply(state, rules.parse(state, text))
    return state


@pytest.mark.parametrize(
    "rules",
    [ColonelBlotto(3, 4, 4), ColonelBlotto(4, 2, 3), ColonelBlotto(2, 30, 3)],
    ids=repr,
)
def test_other_parameters_keep_the_contract(
    rules: ColonelBlotto, check_contract: Any
) -> None:
    check_contract(rules)


@pytest.mark.parametrize(
    ("rules", "num_ends"),
    [
        (game, 66**2),
        (ColonelBlotto(3, 4, 3), 15**3),
        (ColonelBlotto(4, 2, 3), 6**4),
        (ColonelBlotto(2, 3, 5), 35**2),
    ],
    ids=repr,
)
def test_it_has_openspiels_tree(
    oracle: Any, rules: ColonelBlotto, num_ends: int
) -> None:
    ends, other = [], theirs(rules).new_initial_state()

    def visit(state: Any, other: Any) -> None:
        if rules.current_player(state) >= 0:
            text = rules.action_text(state, 1)
            assert other.action_to_string(1) == f"[{text.replace(' ', ',')}]"
        else:
            ends.append(state)

    oracle.walk_tree(rules, rules.initial_state(), other, visit)
    assert len(ends) == num_ends


def test_uniform_play_has_its_known_nash_conv() -> None:
    uniform = uniform_table(game)
    assert nash_conv(game, uniform) == pytest.approx(7 / 11)
    assert best_response_value(game, uniform, 0) == pytest.approx(7 / 22)
    gains = [game.returns((game.parse((), "4 3 3"), a))[0] for a in range(66)]
    assert sum(gains) / 66 == pytest.approx(7 / 22)


def test_nothing_gains_against_the_equilibrium() -> None:
    assert len(EQUILIBRIUM) == 18
    assert sum(EQUILIBRIUM.values()) == 32
    for text in (game.action_text((), action) for action in range(66)):
        value = sum(
            Fraction(weight, 32) * Fraction(game.returns(end(game, text, other))[0])
            for other, weight in EQUILIBRIUM.items()
        )
        assert value <= 0


@pytest.mark.parametrize(
    ("texts", "returns"),
    [
        (("4 3 3", "10 0 0"), (1, -1)),
        (("5 5 0", "5 0 5"), (0, 0)),
        (("5 4 1", "5 3 2"), (0, 0)),
        (("10 0 0", "0 10 0", "5 5 0"), (0.5, 0.5, -1)),
        (("10 0 0", "10 0 0", "0 5 5"), (-0.5, -0.5, 1)),
        (("10 0 0", "0 10 0", "0 0 10"), (0, 0, 0)),
        (("9 1 0", "8 1 1", "9 1 0", "7 2 1"), (-1 / 3, -1 / 3, -1 / 3, 1)),
        (("10 0 0", "0 10 0", "0 0 10", "4 3 3"), (1 / 3, 1 / 3, 1 / 3, -1)),
    ],
)
def test_most_fields_win(texts: tuple[str, ...], returns: tuple[float, ...]) -> None:
    rules = ColonelBlotto(num_players=len(texts))
    assert rules.returns(end(rules, *texts)) == pytest.approx(returns)


@pytest.mark.parametrize("num_players", [2, 3, 4])
def test_the_bounds_of_returns_are_reached(num_players: int) -> None:
    rules = ColonelBlotto(num_players, 2, 3)
    ends = itertools.product(range(rules.num_actions), repeat=num_players)
    returns = {r for state in ends for r in rules.returns(state)}
    assert (min(returns), max(returns)) == (rules.min_return, rules.max_return)


def test_the_choices_show_at_the_end_only() -> None:
    state = end(game, "3 2 5")
    start = "All players divide 10 coins among 3 fields."
    assert game.observe(state, 0) == f"You are player_0. {start}\nYour coins: 3 2 5."
    assert game.observe(state, 1) == f"You are player_1. {start}"
    assert game.observe(end(game, "3 2 5", "0 4 6"), 1) == (
        "You are player_1. The game is over: your score is 1. Coins by field:\n"
        "player_0: 3 2 5 (wins 1 of 3 fields)\n"
        "player_1: 0 4 6 (wins 2 of 3 fields)"
    )


def test_features_tell_all_that_a_seat_knows_apart() -> None:
    rules = ColonelBlotto(3, 2, 3)
    features: dict[Any, Any] = {}
    for length in range(4):
        for state in itertools.product(range(rules.num_actions), repeat=length):
            for seat in range(3):
                key = (seat, rules.information_state(state, seat))
                known = (seat, rules.features(state, seat).tobytes())
                assert features.setdefault(known, key) == key


def test_a_new_draw_is_uniform_and_keeps_the_own_choice() -> None:
    rules, rng = ColonelBlotto(3, 2, 3), random.Random(0)
    draws = Counter(rules.resample((4, 2), 1, rng) for _ in range(6_000))
    assert set(draws) == {(action, 2) for action in range(6)}
    assert min(draws.values()) > 900
    assert rules.resample((4, 2), 0, rng)[0] == 4
    assert rules.resample((4, 2, 1), 0, rng) == (4, 2, 1)


@pytest.mark.parametrize(
    "text", ["3 2 5", "3, 2, 5", "3,2,5", "[3, 2, 5]", "(3 2 5)", "3/2/5", " 3  2\n5"]
)
def test_a_division_has_several_spellings(text: str) -> None:
    assert divisions(10, 3)[game.parse((), text)] == (3, 2, 5)


@pytest.mark.parametrize(
    "text", ["3 2 4", "3 7", "3 2 5 0", "325", "-1 5 6", "3.0 2 5", "A3 B2 C5", "5 5 ."]
)
def test_what_is_no_division_is_refused(text: str) -> None:
    with pytest.raises(IllegalAction, match="3 numbers of coins with the sum 10, got"):
        game.parse((), text)


@pytest.mark.filterwarnings("ignore::UserWarning:pettingzoo")
@pytest.mark.parametrize("num_players", [2, 4])
def test_pettingzoo_takes_it_as_a_parallel_environment(num_players: int) -> None:
    env = aec_to_parallel(GameEnv(ColonelBlotto(num_players)))
    parallel_api_test(env, num_cycles=100)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"num_players": 5}, "num_players from 2 to 4, got 5"),
        ({"num_coins": 1}, "num_coins from 2 to 99, got 1"),
        ({"num_fields": 2}, "num_fields from 3 to 9, got 2"),
        ({"num_coins": 99, "num_fields": 4}, "10000 divisions; .* 4 have 171700"),
    ],
)
def test_impossible_parameters_are_refused(
    params: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        ColonelBlotto(**params)
