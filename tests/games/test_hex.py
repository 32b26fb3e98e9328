"""Hex: its rules, its known values by search, and OpenSpiel's games."""

import random
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from arena_envs import TERMINAL, IllegalAction
from arena_envs.games.hex import Hex, State

game = Hex(3)


def play(texts: str, rules: Hex = game) -> State:
    state = rules.initial_state()
    for text in texts.split():
        state = rules.apply(state, rules.parse(state, text))
    return state


def solver(rules: Hex) -> Callable[[State], int]:
    """The winner of a state under best play."""

    @cache
    def winner(state: State) -> int:
        if state.winner is not None:
            return state.winner
        player = rules.current_player(state)
        after = (rules.apply(state, action) for action in rules.legal_actions(state))
        return player if any(winner(s) == player for s in after) else 1 - player

    return winner


def winning_openings(rules: Hex) -> str:
    winner, state = solver(rules), rules.initial_state()
    legal = rules.legal_actions(state)
    wins = [action for action in legal if winner(rules.apply(state, action)) == 0]
    return " ".join(rules.action_text(state, action) for action in wins)


@pytest.mark.parametrize(
    ("rules", "wanted"),
    [
        (Hex(2), "b1 a2"),
        (Hex(3), "c1 a2 b2 c2 a3"),
        (Hex(2, swap=True), ""),
        (Hex(3, swap=True), ""),
        (Hex(num_rows=2, num_cols=3), "a1 b1 c1 a2 b2 c2"),
        (Hex(num_rows=3, num_cols=2), ""),
        (Hex(num_rows=3, num_cols=4), "a1 b1 c1 d1 a2 b2 c2 d2 a3 b3 c3 d3"),
        (Hex(num_rows=4, num_cols=3), ""),
        pytest.param(Hex(4), "d1 c2 b3 a4", marks=pytest.mark.slow),
    ],
    ids=repr,
)
def test_the_winning_openings_are_those_of_the_page(rules: Hex, wanted: str) -> None:
    assert winning_openings(rules) == wanted


@pytest.mark.parametrize(
    ("rules", "num_states"),
    [(Hex(2), 53), (Hex(2, swap=True), 105), (Hex(num_rows=2, num_cols=3), 1021)],
    ids=repr,
)
def test_small_boards_have_openspiels_tree(
    oracle: Any, rules: Hex, num_states: int
) -> None:
    other = theirs(rules).new_initial_state()
    state = rules.initial_state()
    assert oracle.walk_tree(rules, state, other, lambda *_: None) == num_states


@pytest.mark.parametrize(
    ("rules", "num_games"),
    [
        (Hex(), 100),
        (Hex(swap=True), 50),
        (Hex(3), 3000),
        (Hex(3, swap=True), 2000),
        (Hex(5), 500),
        (Hex(4, swap=True), 500),
        (Hex(num_rows=3, num_cols=6), 500),
        (Hex(num_rows=6, num_cols=2), 500),
    ],
    ids=repr,
)
def test_it_plays_like_openspiels(oracle: Any, rules: Hex, num_games: int) -> None:
    oracle.play_games(rules, theirs(rules), num_games)


def theirs(rules: Hex) -> Any:
    """The same game of OpenSpiel's."""
    import pyspiel

    rows, cols = rules.num_rows or rules.board_size, rules.num_cols or rules.board_size
    params = {"num_rows": rows, "num_cols": cols, "swap": rules.swap}
    return pyspiel.load_game("hex", params)


@pytest.mark.parametrize(
    "rules",
    [Hex(2), Hex(3), Hex(3, swap=True), Hex(num_rows=2, num_cols=26), Hex(12, 4, 5)],
    ids=repr,
)
def test_other_settings_keep_the_contract(check_contract: Any, rules: Hex) -> None:
    check_contract(rules)


def test_a_full_board_has_exactly_one_winner() -> None:
    """Both colours of random full boards, by a search that knows no bits."""
    rules, rng = Hex(num_rows=4, num_cols=5), random.Random(0)
    for _ in range(500):
        state = rules.initial_state()
        order = rng.sample(range(20), 20)
        while rules.current_player(state) != TERMINAL:
            state = rules.apply(state, order.pop())
        x, o = stones(state.x, 5), stones(state.o, 5)
        joined = (joins(x, 0, 3), joins({(c, r) for r, c in o}, 0, 4))
        assert joined == ((True, False), (False, True))[state.winner or 0]


def stones(bits: int, num_cols: int) -> set[tuple[int, int]]:
    places = [divmod(i, num_cols + 1) for i in range(bits.bit_length())]
    return {p for i, p in enumerate(places) if bits >> i & 1}


def joins(cells: set[tuple[int, int]], first: int, last: int) -> bool:
    """Whether touching cells lead from one row to another."""
    waiting = [cell for cell in cells if cell[0] == first]
    met = set(waiting)
    while waiting:
        row, col = waiting.pop()
        for step in ((0, 1), (0, -1), (1, 0), (-1, 0), (1, -1), (-1, 1)):
            cell = (row + step[0], col + step[1])
            if cell in cells - met:
                met.add(cell)
                waiting.append(cell)
    return any(cell[0] == last for cell in met)


def test_the_shortest_game_on_the_default_board_has_21_turns() -> None:
    rules = Hex()
    moves = " ".join(f"a{row} k{row}" for row in range(1, 11))
    assert rules.current_player(play(moves, rules)) == 0
    state = play(f"{moves} a11", rules)
    assert rules.returns(state) == (1, -1)
    assert rules.max_turns == 121


def test_only_cells_that_share_an_edge_are_connected() -> None:
    assert play("c1 a1 b2 b1 a3").winner == 0  # c1 touches b2 touches a3
    assert play("a1 b1 b2 a2 c3").winner is None  # a1 does not touch b2


def test_no_chain_leads_over_the_edge_of_the_board() -> None:
    """The last cell of a row and the first of the next do not touch."""
    assert play("a2 c1 b3 a3 b2 b1").winner is None
    rules = Hex(num_rows=2, num_cols=3)
    assert play("a2 c1 b2", rules).winner is None


def test_the_second_stone_may_be_a_swap() -> None:
    rules = Hex(3, swap=True)
    state = play("b1", rules)
    assert rules.action_text(state, rules.legal_actions(state)[-1]) == "swap"
    swapped = play("b1 swap", rules)
    assert rules.current_player(swapped) == 0
    assert "2 o . ." in rules.observe(swapped, 0)
    assert "1 . . ." in rules.observe(swapped, 0)
    for texts in ("", "b1 swap", "b1 a1", "b1 swap a1"):
        with pytest.raises(IllegalAction):
            rules.parse(play(texts, rules), "swap")
    with pytest.raises(IllegalAction):
        game.parse(play("b1"), "swap")


def test_a_swap_makes_the_longest_game_one_turn_longer() -> None:
    rules = Hex(2, swap=True)
    state = play("a1 swap b1 b2", rules)
    assert rules.max_turns == 5
    assert rules.current_player(state) == 0
    assert rules.returns(play("a1 swap b1 b2 a2", rules)) == (1, -1)


def test_a_cell_with_a_stone_is_refused_as_such() -> None:
    with pytest.raises(IllegalAction, match="an empty cell, got b1, which has a stone"):
        game.parse(play("b1"), " B1")
    with pytest.raises(IllegalAction, match="empty cell such as 'a1', got 'd1'"):
        game.parse(State(), "d1")
    with pytest.raises(IllegalAction):
        game.parse(play("b1 a1 b2 a2 b3"), "c3")


def test_the_text_shows_the_board() -> None:
    board = "  a b c\n1 . x .\n 2 o . .\n  3 . . ."
    state = play("b1 a2")
    assert game.observe(state, 0) == (
        f"You are x and join top and bottom.\n{board}\nYou are to move."
    )
    assert game.observe(state, 1) == (
        f"You are o and join left and right.\n{board}\nplayer_0 is to move."
    )
    assert game.observe(play("b1 a1 b2 a2 b3"), 1).endswith("\nx has won.")


def test_rows_of_a_large_board_are_aligned() -> None:
    lines = Hex(10).observe(State(), 0).splitlines()
    assert lines[1:3] == ["   a b c d e f g h i j", " 1 . . . . . . . . . ."]
    assert lines[11] == "         10 . . . . . . . . . ."


def test_the_features_show_the_board_from_either_seat() -> None:
    state = play("b1 a2 c3")
    own, other = game.features(state, 0), game.features(state, 1)
    assert own[:9].tolist() == [0, 1, 0, 0, 0, 0, 0, 0, 1] == other[9:18].tolist()
    assert own[9:18].tolist() == [0, 0, 0, 1, 0, 0, 0, 0, 0] == other[:9].tolist()
    assert (own[18:].tolist(), other[18:].tolist()) == ([0, 0, 0], [1, 1, 0])
    rules = Hex(3, swap=True)
    assert rules.features(play("a2 swap", rules), 0)[-1] == 1


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"board_size": 1}, "integer board_size from 2 to 26, got 1"),
        ({"num_rows": 27}, "integer num_rows from 2 to 26, got 27"),
        ({"num_cols": "3"}, "integer num_cols from 2 to 26, got '3'"),
        ({"swap": 1}, "swap True or False, got 1"),
        ({"num_rows": 4, "swap": True}, "square board for swap, got 4 by 11"),
    ],
)
def test_impossible_parameters_are_refused(params: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Hex(**params)
