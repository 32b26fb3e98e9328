"""Dots and boxes: its rules, its known values by search, and OpenSpiel's games."""

from fractions import Fraction
from functools import cache
from typing import Any

import pytest

from arena_envs import TERMINAL, IllegalAction
from arena_envs.games.dots_and_boxes import DotsAndBoxes, State

game = DotsAndBoxes()


def play(texts: str, rules: DotsAndBoxes = game) -> State:
    state = rules.initial_state()
    for text in texts.split():
        state = rules.apply(state, rules.parse(state, text))
    return state


def states(rules: DotsAndBoxes) -> set[State]:
    """All states that can be reached."""
    found, waiting = {rules.initial_state()}, [rules.initial_state()]
    while waiting:
        state = waiting.pop()
        after = {rules.apply(state, action) for action in rules.legal_actions(state)}
        waiting += after - found
        found |= after
    return found


@pytest.mark.parametrize(
    ("rows", "cols", "margin"),
    [
        (1, 1, -1),
        (1, 2, 0),
        (1, 3, -1),
        (2, 2, 2),
        pytest.param(2, 3, -2, marks=pytest.mark.slow),
    ],
)
def test_best_play_has_the_documented_margin(rows: int, cols: int, margin: int) -> None:
    """By search; whose lines they were makes no difference to the boxes still to come."""
    rules = DotsAndBoxes(rows, cols)
    full = 2**rules.num_actions - 1

    @cache
    def to_come(lines: int) -> int:
        """Boxes that the seat to move gains from here, less those of the other seat."""
        values = []
        for action in rules.legal_actions(State(lines)):
            after = rules.apply(State(lines), action)
            gained = after.boxes[0].bit_count()
            rest = to_come(after.lines) if after.lines < full else 0
            values.append(gained + rest if gained else -rest)
        return max(values)

    assert to_come(0) == margin


@pytest.mark.parametrize(
    ("utility_margin", "value"), [(False, 1), (True, 2)], ids=["win", "margin"]
)
def test_player_0_wins_the_default_game_by_3_to_1(
    utility_margin: bool, value: int
) -> None:
    rules = DotsAndBoxes(utility_margin=utility_margin)

    @cache
    def best(state: State) -> float:
        player = rules.current_player(state)
        if player == TERMINAL:
            return rules.returns(state)[0]
        choose = (max, min)[player]
        return choose(best(rules.apply(state, a)) for a in rules.legal_actions(state))

    assert best(rules.initial_state()) == value


def test_there_are_5559_states() -> None:
    assert len(states(game)) == 5559


def test_random_play_has_the_documented_outcomes() -> None:
    @cache
    def outcomes(state: State) -> tuple[Fraction, ...]:
        """Probabilities that `player_0` wins, that `player_1` does, and of a draw."""
        if game.current_player(state) == TERMINAL:
            result = game.returns(state)[0]
            return tuple(Fraction(result == wanted) for wanted in (1, -1, 0))
        legal = game.legal_actions(state)
        after = [outcomes(game.apply(state, action)) for action in legal]
        return tuple(sum(column) / len(legal) for column in zip(*after, strict=True))

    values = [float(x) for x in outcomes(game.initial_state())]
    assert values == pytest.approx([0.420491, 0.420645, 0.158865], abs=1e-6)


@pytest.mark.parametrize(
    ("rules", "num_states"), [(DotsAndBoxes(1, 1), 65), (DotsAndBoxes(2, 1), 13_700)]
)
def test_small_boards_have_openspiels_tree(
    oracle: Any, rules: DotsAndBoxes, num_states: int
) -> None:
    state, other = rules.initial_state(), theirs(rules).new_initial_state()
    assert oracle.walk_tree(rules, state, other, lambda *_: None) == num_states


@pytest.mark.parametrize(
    "rules",
    [
        game,
        DotsAndBoxes(utility_margin=True),
        DotsAndBoxes(1, 4),
        DotsAndBoxes(3, 2, utility_margin=True),
        DotsAndBoxes(4, 4),
    ],
    ids=repr,
)
def test_it_plays_like_openspiels(oracle: Any, rules: DotsAndBoxes) -> None:
    other_game = theirs(rules)
    assert rules.max_return == other_game.max_utility()
    oracle.play_games(rules, other_game, 1000)


def theirs(rules: DotsAndBoxes) -> Any:
    """The same game of OpenSpiel's."""
    import pyspiel

    names = ("num_rows", "num_cols", "utility_margin")
    params = {name: getattr(rules, name) for name in names}
    return pyspiel.load_game("dots_and_boxes", params)


@pytest.mark.parametrize(
    "rules",
    [
        DotsAndBoxes(1, 1),
        DotsAndBoxes(3, 1, utility_margin=True),
        DotsAndBoxes(2, 9),
        DotsAndBoxes(9, 2),
    ],
    ids=repr,
)
def test_other_settings_keep_the_contract(
    check_contract: Any, rules: DotsAndBoxes
) -> None:
    check_contract(rules)


def test_who_closes_a_box_owns_it_and_goes_on() -> None:
    state = play("a1-b1 a1-a2 a2-b2")
    assert (state.seat, state.boxes) == (1, (0, 0))
    state = game.apply(state, game.parse(state, "b1-b2"))
    assert (state.seat, state.boxes) == (1, (0, 0b0001))
    assert game.returns(state) == (0, 0)


def test_one_line_can_close_two_boxes() -> None:
    rules = DotsAndBoxes(1, 2)
    state = play("a1-b1 b1-c1 a2-b2 b2-c2 a1-a2 c1-c2 b1-b2", rules)
    assert state.boxes == (0b11, 0)
    assert rules.returns(state) == (1, -1)
    assert DotsAndBoxes(1, 2, utility_margin=True).returns(state) == (2, -2)


def test_equal_numbers_of_boxes_are_a_draw() -> None:
    full = 2**12 - 1
    for utility_margin in (False, True):
        rules = DotsAndBoxes(utility_margin=utility_margin)
        assert rules.returns(State(full, (0b0011, 0b1100))) == (0, 0)
        returns = rules.returns(State(full, (0b0001, 0b1110)))
        assert returns == ((-2, 2) if utility_margin else (-1, 1))


def test_the_text_shows_lines_and_owners() -> None:
    state = play("a1-b1 a1-a2 a2-b2 b1-b2 c2-c3")
    drawing = "  a   b   c\n1 +---+   +\n  | 1 |\n2 +---+   +\n          |\n3 +   +   +"
    assert game.observe(state, 0) == (
        f"You are player_0. Boxes: you 0, player_1 1.\n{drawing}\nYou are to move."
    )
    assert game.observe(state, 1) == (
        f"You are player_1. Boxes: you 1, player_0 0.\n{drawing}\nplayer_0 is to move."
    )


def test_rows_of_a_large_board_are_aligned() -> None:
    lines = DotsAndBoxes(9, 1).observe(State(), 0).splitlines()
    assert lines[1:3] == ["   a   b", " 1 +   +"]
    assert lines[-2] == "10 +   +"


@pytest.mark.parametrize("text", ["a2-b2", "b2-a2", "A2 to B2", "a2b2", "b2 a2"])
def test_the_dots_are_read_in_either_order(text: str) -> None:
    assert game.parse(game.initial_state(), text) == 2


def test_dots_in_row_10_are_read() -> None:
    rules = DotsAndBoxes(9, 1)
    action = rules.parse(State(), "a10b10")
    assert rules.action_text(State(), action) == "a10-b10"


@pytest.mark.parametrize(
    "text", ["a1-c1", "a1-b2", "a1-a1", "c1-d1", "a3-a4", "a0-a1", "a1", "a1-b1-c1"]
)
def test_what_is_no_line_is_refused(text: str) -> None:
    with pytest.raises(
        IllegalAction, match="between neighbouring dots such as 'a1-b1'"
    ):
        game.parse(game.initial_state(), text)


def test_a_line_is_drawn_once() -> None:
    with pytest.raises(IllegalAction, match="not drawn yet, got a1-b1"):
        game.parse(play("a1-b1"), "b1-a1")


def test_the_features_tell_all_states_apart_from_either_seat() -> None:
    for seat in range(2):
        seen = {game.features(state, seat).tobytes() for state in states(game)}
        assert len(seen) == 5559


def test_the_features_swap_the_boxes_of_the_seats() -> None:
    state = play("a1-b1 a1-a2 a2-b2 b1-b2")
    first, second = game.features(state, 0), game.features(state, 1)
    assert first[:12].tolist() == second[:12].tolist()
    assert first[12:].tolist() == [0, 0, 0, 0, 1, 0, 0, 0, 0]
    assert second[12:].tolist() == [1, 0, 0, 0, 0, 0, 0, 0, 1]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"num_rows": 0}, "integer num_rows from 1 to 9, got 0"),
        ({"num_cols": 10}, "integer num_cols from 1 to 9, got 10"),
        ({"utility_margin": "yes"}, "utility_margin True or False, got 'yes'"),
    ],
)
def test_impossible_parameters_are_refused(params: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DotsAndBoxes(**params)
