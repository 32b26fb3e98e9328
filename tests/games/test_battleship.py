"""Battleship: beside OpenSpiel's, its known values, and what its players may know."""

import itertools
import random
from collections import Counter
from typing import Any

import pytest

from arena_envs import TERMINAL, IllegalAction
from arena_envs.games.battleship import Battleship, State
from arena_envs.solvers import (
    expected_returns,
    information_states,
    nash_conv,
    uniform_table,
)

game = Battleship()
tiny = Battleship(2, 2, (2,), num_shots=3)
classic = Battleship(10, 10, (2, 3, 3, 4, 5), num_shots=50)


def theirs(rules: Battleship) -> Any:
    """The same game of OpenSpiel's."""
    pyspiel = pytest.importorskip("pyspiel")
    params = {
        "board_width": rules.board_width,
        "board_height": rules.board_height,
        "ship_sizes": f"[{';'.join(map(str, rules.ship_sizes))}]",
        "ship_values": f"[{';'.join(map(str, rules.values))}]",
        "num_shots": rules.num_shots,
        "allow_repeated_shots": rules.allow_repeated_shots,
        "loss_multiplier": float(rules.loss_multiplier),
    }
    return pyspiel.load_game("battleship", params)


def after(rules: Battleship, *texts: str) -> State:
    """The state after these actions."""
    state = rules.initial_state()
    for text in texts:
        state = rules.apply(state, rules.parse(state, text))
    return state


@pytest.mark.parametrize(
    "rules",
    [
        tiny,
        Battleship(5, 1, (2, 1), (0.5, 2), 4, allow_repeated_shots=True),
        Battleship(3, 4, (4, 2, 3), num_shots=12, loss_multiplier=2.5),
    ],
    ids=repr,
)
def test_other_parameters_keep_the_contract(
    rules: Battleship, check_contract: Any
) -> None:
    check_contract(rules)


@pytest.mark.parametrize(
    ("rules", "num_states"),
    [
        (tiny, 10_069),
        (Battleship(2, 2, (1,), num_shots=2), 1_573),
        (Battleship(2, 2, (1, 2), num_shots=1, loss_multiplier=2), 1_397),
        (Battleship(3, 2, (2,), num_shots=1), 2_115),
        (Battleship(3, 1, (1, 2), (1, 3), 2, allow_repeated_shots=True), 495),
        (Battleship(1, 4, (3,), (2.5,), 3, allow_repeated_shots=True), 20_311),
    ],
    ids=repr,
)
def test_it_has_openspiels_tree_and_knowledge(
    oracle: Any, rules: Battleship, num_states: int
) -> None:
    state, other = rules.initial_state(), theirs(rules).new_initial_state()
    size = oracle.walk_tree(rules, state, other, oracle.Knowledge(rules))
    assert size == num_states


@pytest.mark.parametrize(
    ("rules", "num_games"),
    [
        (game, 300),
        (Battleship(num_shots=16), 100),
        (Battleship(4, 3, (3, 1, 2), (1, 0.5, 3), 9, True, 0.5), 200),
        (classic, 3),
        (Battleship(10, 10, (5, 4), num_shots=120, allow_repeated_shots=True), 3),
    ],
    ids=str,
)
def test_random_games_and_new_draws_are_like_openspiels(
    oracle: Any, rules: Battleship, num_games: int
) -> None:
    knowledge, other_game = oracle.Knowledge(rules), theirs(rules)
    rng, num_drawn = random.Random(0), 0

    def visit(state: State, other: Any, actions: list[int]) -> None:
        nonlocal num_drawn
        knowledge(state, other)
        if rng.random() < 0.1 and not other.is_terminal():
            seat = rng.randrange(2)
            drawn = rules.resample(state, seat, rng)
            again = other_game.new_initial_state()
            for action in (*drawn.placed, *drawn.shots):
                again.apply_action(action)
            known = other.information_state_string(seat)
            assert again.information_state_string(seat) == known
            num_drawn += drawn != state

    oracle.play_games(rules, other_game, num_games, visit)
    assert num_drawn > 20


def test_the_tiny_game_has_its_known_values() -> None:
    """Ships anywhere, and shots where most of the places left for a ship have a square."""
    uniform = uniform_table(tiny)
    assert expected_returns(tiny, uniform)[0] == pytest.approx(5 / 36)
    assert nash_conv(tiny, uniform) == pytest.approx(1 / 2)
    best = dict(uniform)
    for (seat, key), state in information_states(tiny).items():
        if len(state.placed) == 2:
            own = state.shots[seat::2]
            told = tiny.outcomes(tiny.ships(state, 1 - seat), own)
            ships = tiny.placements[2].values()
            left = [ship for ship in ships if tiny.outcomes([ship], own) == told]
            legal = tiny.legal_actions(state)
            counts = [sum(ship >> square & 1 for ship in left) for square in legal]
            chosen = [count == max(counts) for count in counts]
            best[seat, key] = [choice / sum(chosen) for choice in chosen]
    assert expected_returns(tiny, best)[0] == pytest.approx(5 / 16)
    assert nash_conv(tiny, best) == pytest.approx(0)


def test_random_games_have_their_known_length() -> None:
    rng, num_turns = random.Random(0), 0
    for _ in range(2_000):
        state = game.initial_state()
        while game.current_player(state) != TERMINAL:
            state = game.apply(state, rng.choice(list(game.legal_actions(state))))
            num_turns += 1
    assert num_turns / 2_000 == 23.739


SHIPS = ("a1-b1", "a1-a2", "b3-d3", "c1-c3")  # of player_0, player_1 in turn


def test_who_sinks_all_ships_wins_at_once() -> None:
    shots = ("a1", "d4", "a2", "a1", "c1", "b1", "c2", "c4")
    state = after(game, *SHIPS, *shots)
    assert game.outcomes(game.ships(state, 1), state.shots[::2]) == "HSHH"
    assert game.outcomes(game.ships(state, 0), state.shots[1::2]) == "MHSM"
    assert game.returns(state) == (0, 0)
    over = game.apply(state, game.parse(state, "c3"))
    assert game.current_player(over) == TERMINAL
    assert game.returns(over) == (1, -1)
    weighted = Battleship(ship_values=(1, 5), loss_multiplier=2)
    assert weighted.returns(over) == (4, -11)


def test_a_board_shows_own_ships_and_own_shots_only() -> None:
    state = after(game, *SHIPS, "a1", "d4", "a2", "a1", "d1")
    assert game.observe(state, 0) == (
        "You are player_0. player_1 is to move.\n"
        "Shots left: you 7, player_1 8.\n"
        "Ships sunk: yours 0 of 2, player_1's 1 of 2.\n"
        "Your shots (H hit, S hit that left its ship sunk, M miss):\n"
        "  a b c d\n"
        "1 H . . M\n"
        "2 S . . .\n"
        "3 . . . .\n"
        "4 . . . .\n"
        "Your hits in order: a1, a2 sunk.\n"
        "Your ships (letters; small where hit) and misses (m):\n"
        "  a b c d\n"
        "1 a A . .\n"
        "2 . . . .\n"
        "3 . B B B\n"
        "4 . . . m"
    )
    assert game.observe(after(game, *SHIPS[:2]), 1) == (
        "You are player_1. player_0 is to move.\n"
        "Your ships (letters; small where hit) and misses (m):\n"
        "  a b c d\n"
        "1 A . . .\n"
        "2 A . . .\n"
        "3 . . . .\n"
        "4 . . . ."
    )


def test_a_repeated_shot_tells_whether_the_ship_is_sunk_by_now() -> None:
    rules = Battleship(allow_repeated_shots=True)
    state = after(rules, *SHIPS, "a1", "a4", "a1", "a4", "a2", "a4", "a1", "a4", "b2")
    assert rules.outcomes(rules.ships(state, 1), state.shots[::2]) == "HHSSM"
    assert "Your hits in order: a1, a1, a2 sunk, a1 sunk.\n" in rules.observe(state, 0)


def test_a_placement_leaves_room_for_the_ships_to_come() -> None:
    rules = Battleship(5, 1, (1, 3), num_shots=1)
    state = rules.initial_state()
    texts = [rules.action_text(state, action) for action in rules.legal_actions(state)]
    assert texts == ["a1", "b1", "d1", "e1"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rules", "shots"),
    [
        (Battleship(3, 3, (2, 3), num_shots=9), ()),
        (Battleship(3, 3, (2, 3), num_shots=9), ("a1", "b2")),
        (Battleship(3, 3, (2, 2), num_shots=9), ("a1", "a2", "b2")),
        (game, ("a2", "b3", "c2")),
        (game, ("a1", "b1")),
    ],
)
def test_a_new_draw_reaches_every_placement_about_as_often(
    rules: Battleship, shots: tuple[str, ...]
) -> None:
    """Of those that try out all shots alike, found by trying them all."""
    mine = "a3-b3", "a1-c1"
    others = ("a1-a2", "b1-b3") if rules.ship_sizes == (2, 3) else ("a1-a2", "b1-b2")
    first = mine if rules.ship_sizes == (2, 3) else ("a3-b3", "a1-b1")
    state = after(rules, first[0], others[0], first[1], others[1])
    squares = [s for s in range(rules.num_squares) if rules.square_name(s) in shots]
    fired = [square for shot in squares for square in (shot, shot)]
    state = State(state.placed, tuple(fired))
    told = rules.outcomes(rules.ships(state, 1), squares)
    fleets = itertools.product(*(rules.placements[s].items() for s in rules.ship_sizes))
    wanted = {
        tuple(action for action, _ in fleet)
        for fleet in fleets
        if not fleet[0][1] & fleet[1][1]
        and rules.outcomes([ship for _, ship in fleet], squares) == told
    }
    rng = random.Random(0)
    num_draws = 100 * len(wanted)
    draws = [rules.resample(state, 0, rng) for _ in range(num_draws)]
    counts = Counter(draw.placed[1::2] for draw in draws)
    assert set(counts) == wanted
    assert min(counts.values()) > 50
    assert max(counts.values()) < 170
    assert {(draw.placed[::2], draw.shots) for draw in draws} == {
        (state.placed[::2], state.shots)
    }


def test_a_draw_while_ships_are_placed_leaves_room_for_the_others() -> None:
    rules = Battleship(5, 1, (1, 3), num_shots=1)
    state, rng = after(rules, "e1", "a1"), random.Random(0)
    drawn = {rules.resample(state, 0, rng).placed for _ in range(100)}
    assert drawn == {(9, action) for action in (5, 6, 8, 9)}


def test_features_tell_information_states_apart() -> None:
    states = information_states(tiny)
    features = {
        (seat, tiny.features(state, seat).tobytes())
        for (seat, _), state in states.items()
    }
    assert len(features) == len(states)


@pytest.mark.parametrize(
    ("rules", "bounds"),
    [
        (Battleship(ship_values=(2, 3), loss_multiplier=3), (-15, 5)),
        (Battleship(ship_values=(2, 3), num_shots=4), (-3, 3)),
        (Battleship(ship_values=(9, 3), num_shots=4), (-9, 9)),
        (Battleship(num_shots=1), (0, 0)),
    ],
)
def test_no_more_is_lost_than_the_shots_can_sink(
    rules: Battleship, bounds: tuple[float, float]
) -> None:
    assert (rules.min_return, rules.max_return) == bounds


def test_the_facts_follow_the_loss_multiplier() -> None:
    assert (game.kind, game.zero_sum) == ("competitive", True)
    other = Battleship(loss_multiplier=2)
    assert (other.kind, other.zero_sum) == ("mixed", False)


@pytest.mark.parametrize("num_shots", [2, 3, 4])
def test_the_longest_episode_has_as_many_turns_as_declared(num_shots: int) -> None:
    rules = Battleship(2, 2, (1,), num_shots=num_shots)

    def longest(state: State) -> int:
        actions = rules.legal_actions(state)
        return max((1 + longest(rules.apply(state, a)) for a in actions), default=0)

    start = after(rules, "a1", "a1")
    assert longest(start) + 2 == rules.max_turns


@pytest.mark.parametrize("text", ["b2-d2", "d2-b2", "B2 D2", "b2 to d2", "place b2:d2"])
def test_a_ship_has_several_spellings(text: str) -> None:
    state = after(game, *SHIPS[:2])
    assert game.action_text(state, game.parse(state, text)) == "b2-d2"


@pytest.mark.parametrize("text", ["b2", "shoot b2", "Fire at B2", "[b2]"])
def test_a_shot_has_several_spellings(text: str) -> None:
    assert game.parse(after(game, *SHIPS), text) == 5


@pytest.mark.parametrize("text", ["a1", "b2 c3", "e1", "a5", "b2-d2", "2b", ""])
def test_what_is_no_legal_shot_is_refused(text: str) -> None:
    with pytest.raises(IllegalAction, match=r"want one of \['b1', .*, got "):
        game.parse(after(game, *SHIPS, "a1", "a1"), text)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"board_width": 11}, "board_width from 1 to 10, got 11"),
        ({"board_height": 0}, "board_height from 1 to 10, got 0"),
        ({"ship_sizes": ()}, r"ship_sizes as 1 to 5 integers, got \(\)"),
        ({"ship_sizes": (2, 5)}, "size in ship_sizes from 1 to 4, got 5"),
        ({"ship_sizes": (4,) * 5}, r"fit on a board of 4 x 4, got ship_sizes \(4, "),
        ({"ship_values": (1,)}, r"ship_values for 2 ships, got \(1,\)"),
        ({"ship_values": (1, -1)}, "value in ship_values from 0 to 1000000, got -1"),
        ({"num_shots": 17}, "num_shots from 1 to 16, got 17"),
        ({"allow_repeated_shots": 1}, "allow_repeated_shots True or False, got 1"),
        (
            {"loss_multiplier": float("nan")},
            "loss_multiplier from 0 to 1000000, got nan",
        ),
    ],
)
def test_impossible_parameters_are_refused(
    params: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Battleship(**params)


def test_lists_are_taken_as_tuples() -> None:
    rules = Battleship(ship_sizes=[2, 2], ship_values=[1, 2])
    assert rules == Battleship(ship_sizes=(2, 2), ship_values=(1, 2))
    assert hash(rules) == hash(Battleship(ship_sizes=(2, 2), ship_values=(1, 2)))


def test_the_rules_are_true_of_a_single_ship_and_shot() -> None:
    text = Battleship(1, 3, ship_sizes=(2,), num_shots=1).rules(0)
    assert "a board of 1 column, a to a, and 3 rows" in text
    assert "hides 1 ship of length 2 on it" in text
    assert "1 shot each" in text
