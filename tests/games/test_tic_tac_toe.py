"""Tic-tac-toe: its rules, and its known values by going through all positions."""

from fractions import Fraction
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena_envs import TERMINAL
from arena_envs.games.tic_tac_toe import State, TicTacToe

game = TicTacToe()
ORDERS = st.permutations(range(9))


def play(texts: str, rules: TicTacToe = game) -> State:
    state = rules.initial_state()
    for text in texts.split():
        state = rules.apply(state, rules.parse(state, text))
    return state


def positions() -> set[State]:
    """All positions that can be reached."""
    found, waiting = {game.initial_state()}, [game.initial_state()]
    while waiting:
        state = waiting.pop()
        after = {game.apply(state, action) for action in game.legal_actions(state)}
        waiting += after - found
        found |= after
    return found


def test_a_reward_for_draws_keeps_the_contract(check_contract: Any) -> None:
    check_contract(TicTacToe(draw_return=0.1))


def test_there_are_5478_positions() -> None:
    assert len(positions()) == 5478


def test_perfect_play_is_a_draw() -> None:
    @cache
    def value(state: State) -> float:
        player = game.current_player(state)
        if player == TERMINAL:
            return game.returns(state)[0]
        best = (max, min)[player]
        return best(value(game.apply(state, a)) for a in game.legal_actions(state))

    assert value(game.initial_state()) == 0


def test_random_play_has_the_documented_outcomes() -> None:
    @cache
    def outcomes(state: State) -> tuple[Fraction, ...]:
        """Probabilities of X winning, O winning and a draw; expected turns to come."""
        if game.current_player(state) == TERMINAL:
            result = game.returns(state)[0]
            return (*(Fraction(result == wanted) for wanted in (1, -1, 0)), Fraction(0))
        legal = game.legal_actions(state)
        after = [outcomes(game.apply(state, action)) for action in legal]
        *chances, turns = (
            sum(column) / len(legal) for column in zip(*after, strict=True)
        )
        return (*chances, turns + 1)

    values = [float(x) for x in outcomes(game.initial_state())]
    assert values == pytest.approx([0.584921, 0.288095, 0.126984, 7.626190], abs=1e-6)


def test_actions_are_the_squares_row_by_row() -> None:
    state = game.initial_state()
    texts = [game.action_text(state, action) for action in range(9)]
    assert texts == ["a1", "b1", "c1", "a2", "b2", "c2", "a3", "b3", "c3"]


LINES = "a1b1c1 a2b2c2 a3b3c3 a1a2a3 b1b2b3 c1c2c3 a1b2c3 c1b2a3"


@pytest.mark.parametrize("line", LINES.split())
def test_three_in_a_row_win_for_either_seat(line: str) -> None:
    squares = [game.parse(State(), line[i : i + 2]) for i in (0, 2, 4)]
    others = [square for square in range(9) if square not in squares]
    marks, other = sum(1 << s for s in squares), sum(1 << s for s in others[:2])
    for state, returns in [
        (State(marks, other), (1, -1)),
        (State(other, marks), (-1, 1)),
    ]:
        assert game.current_player(state) == TERMINAL
        assert game.legal_actions(state) == ()
        assert game.returns(state) == returns


def test_a_win_on_the_last_square_is_no_draw() -> None:
    assert game.returns(play("a1 b1 b2 c1 a2 a3 b3 c2 c3")) == (1, -1)


def test_a_full_board_without_a_line_pays_the_draw_return() -> None:
    moves = "a1 b1 c1 b2 a2 c2 b3 a3 c3"
    assert game.returns(play(moves)) == (0, 0)
    rules = TicTacToe(draw_return=0.1)
    assert rules.returns(play(moves, rules)) == (0.1, 0.1)
    assert (rules.zero_sum, game.zero_sum) == (False, True)


def test_the_text_shows_the_board_and_the_own_mark() -> None:
    state = play("b2 a1 c3")
    assert game.observe(state, 1) == (
        "You are O. You are to move.\n  a b c\n1 O . .\n2 . X .\n3 . . X"
    )
    assert game.observe(state, 0).startswith("You are X. player_1 is to move.\n")


def test_the_text_tells_the_result() -> None:
    won = play("a1 b1 b2 c1 c3")
    assert game.observe(won, 0).startswith("You are X. The game is over: you have won.")
    assert game.observe(won, 1).startswith(
        "You are O. The game is over: you have lost."
    )
    rules = TicTacToe(draw_return=0.1)
    drawn = play("a1 b1 c1 b2 a2 c2 b3 a3 c3", rules)
    assert rules.observe(drawn, 0).startswith("You are X. The game is over: a draw.")


@given(ORDERS)
def test_the_features_are_the_board_of_either_seat(order: list[int]) -> None:
    state = game.initial_state()
    for action in order:
        if game.current_player(state) == TERMINAL:
            break
        state = game.apply(state, action)
        own, other, empty = game.features(state, 0).reshape(3, 9)
        assert (own + other + empty == 1).all()
        assert (game.features(state, 1).reshape(3, 9) == [other, own, empty]).all()
        assert {s for s in range(9) if own[s]} == {
            s for s in range(9) if state.crosses >> s & 1
        }


@given(ORDERS)
def test_the_seats_take_turns_and_the_game_ends(order: list[int]) -> None:
    state = game.initial_state()
    for turn, action in enumerate(order):
        if game.current_player(state) == TERMINAL:
            assert turn >= 5
            break
        assert game.current_player(state) == turn % 2
        assert game.legal_actions(state) == tuple(sorted(order[turn:]))
        state = game.apply(state, action)
    assert game.current_player(state) == TERMINAL


@pytest.mark.parametrize("value", [1.5, -2, float("nan"), "0.1", None, True])
def test_a_draw_return_out_of_range_is_refused(value: object) -> None:
    with pytest.raises(
        ValueError, match=r"want a number draw_return from -1 to 1, got"
    ):
        TicTacToe(draw_return=value)
