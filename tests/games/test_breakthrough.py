"""Breakthrough: its rules beside OpenSpiel's, and its known values."""

import random
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from arena_envs import TERMINAL, IllegalAction
from arena_envs.games.breakthrough import Breakthrough, State

game = Breakthrough()
small = Breakthrough(4, 3)


def theirs(rules: Breakthrough) -> Any:
    """The same game of OpenSpiel's."""
    params = {"rows": rules.rows, "columns": rules.columns}
    return pytest.importorskip("pyspiel").load_game("breakthrough", params)


def play(texts: str, rules: Breakthrough = small) -> State:
    state = rules.initial_state()
    for text in texts.split():
        state = rules.apply(state, rules.parse(state, text))
    return state


def legal_texts(state: State, rules: Breakthrough = small) -> list[str]:
    return [rules.action_text(state, action) for action in rules.legal_actions(state)]


def levels(rules: Breakthrough) -> Iterator[set[State]]:
    """All positions by the number of turns."""
    level = {rules.initial_state()}
    while level:
        yield level
        level = {rules.apply(s, a) for s in level for a in rules.legal_actions(s)}


def winner(rules: Breakthrough) -> int:
    """The seat that wins with perfect play."""

    @cache
    def best(state: State) -> int:
        if state.player == TERMINAL:
            return rules.returns(state).index(1)
        after = (rules.apply(state, a) for a in rules.legal_actions(state))
        won = any(best(later) == state.player for later in after)
        return state.player if won else 1 - state.player

    return best(rules.initial_state())


def test_it_plays_like_openspiel(oracle: Any) -> None:
    oracle.play_games(game, theirs(game), 1000)


@pytest.mark.slow
def test_it_plays_like_openspiel_in_many_games(oracle: Any) -> None:
    oracle.play_games(game, theirs(game), 30_000)


@pytest.mark.parametrize(
    ("rules", "num_states"),
    [
        (Breakthrough(4, 2), 251),
        (Breakthrough(4, 3), 10_689),
        (Breakthrough(5, 3), 51_608),
        (Breakthrough(6, 2), 71_474),
        pytest.param(Breakthrough(4, 4), 387_693, marks=pytest.mark.slow),
    ],
    ids=repr,
)
def test_all_positions_of_small_boards_are_openspiels(
    oracle: Any, rules: Breakthrough, num_states: int
) -> None:
    assert oracle.walk_positions(rules, theirs(rules)) == num_states


@pytest.mark.parametrize(
    "rules", [Breakthrough(3, 8), Breakthrough(7, 5), Breakthrough(8, 2)], ids=repr
)
def test_other_boards_play_like_openspiels(oracle: Any, rules: Breakthrough) -> None:
    oracle.play_games(rules, theirs(rules), 300)


@pytest.mark.parametrize("rules", [Breakthrough(3, 2), Breakthrough(6, 5)], ids=repr)
def test_other_boards_keep_the_contract(
    rules: Breakthrough, check_contract: Any
) -> None:
    check_contract(rules)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rules", "seat"),
    [
        (Breakthrough(4, 3), 0),
        (Breakthrough(4, 2), 1),
        (Breakthrough(4, 4), 0),
        (Breakthrough(4, 5), 0),
        (Breakthrough(5, 4), 0),
    ],
    ids=repr,
)
def test_small_boards_have_known_winners(rules: Breakthrough, seat: int) -> None:
    assert winner(rules) == seat


@pytest.mark.parametrize(
    "rules",
    [Breakthrough(3, 3), Breakthrough(4, 2), Breakthrough(5, 3), Breakthrough(6, 2)],
    ids=repr,
)
def test_the_longest_game_takes_max_turns(rules: Breakthrough) -> None:
    assert len(list(levels(rules))) - 1 == rules.max_turns


def test_random_play_has_the_documented_length() -> None:
    rng, num_turns, num_games = random.Random(0), 0, 2000
    for _ in range(num_games):
        state = game.initial_state()
        while legal := game.legal_actions(state):
            state = game.apply(state, rng.choice(legal))
            num_turns += 1
    assert num_turns / num_games == pytest.approx(64.4, abs=0.2)
    assert game.max_turns == 177


def test_pieces_move_straight_and_diagonally_within_the_board() -> None:
    assert legal_texts(small.initial_state()) == [
        *("a4a3", "a4b3", "b4a3", "b4b3", "b4c3", "c4b3", "c4c3"),
    ]


def test_pieces_capture_diagonally_only() -> None:
    state = play("b4b3 b1b2 a4a3")  # W on b2 has B on a3 and b3 ahead
    assert legal_texts(state) == [
        *("b2xa3", "b2c3", "a1a2", "c1c2"),
    ]
    after = play("b4b3 b1b2 a4a3 b2xa3")
    assert (after.black.bit_count(), after.white.bit_count()) == (2, 3)


@pytest.mark.parametrize(
    ("moves", "returns"),
    [
        ("b4b3 a1a2 b3c2 a2a3 c2b1", (1, -1)),
        ("b4c3 a1a2 c4b3 a2a3 b3b2 a3b4", (-1, 1)),
    ],
)
def test_the_last_row_wins(moves: str, returns: tuple[int, int]) -> None:
    before = moves.split()[:-1]
    assert play(" ".join(before)).player == len(before) % 2
    state = play(moves)
    assert state.player == TERMINAL
    assert small.legal_actions(state) == ()
    assert small.returns(state) == returns


def test_capturing_all_pieces_wins() -> None:
    rules = Breakthrough(4, 2)
    # Each side has lost one piece; the last B captures the last W, or W the last B.
    for player, returns in ((0, (1, -1)), (1, (-1, 1))):
        state = State(rules.grid.bits[2], rules.grid.bits[5], player)
        (text,) = (t for t in legal_texts(state, rules) if "x" in t)
        after = rules.apply(state, rules.parse(state, text))
        assert after.player == TERMINAL
        assert rules.returns(after) == returns


def test_the_text_is_the_board_with_black_on_top() -> None:
    board = ["  a b c", "4 B . B", "3 . B .", "2 W . .", "1 . W W"]
    state = play("b4b3 a1a2")
    assert small.observe(state, 0).split("\n") == [
        "You are B and move down. You are to move.",
        *board,
    ]
    assert small.observe(state, 1).split("\n") == [
        "You are W and move up. player_0 is to move.",
        *board,
    ]


def test_the_text_says_who_has_won() -> None:
    state = play("b4b3 a1a2 b3c2 a2a3 c2b1")
    first = [small.observe(state, seat).partition("\n")[0] for seat in (0, 1)]
    assert first == [
        "You are B and move down. The game is over: you have won.",
        "You are W and move up. The game is over: you have lost.",
    ]


def test_the_features_are_the_pieces_of_either_side() -> None:
    state = play("b4b3 a1a2")
    for seat in (0, 1):
        *squares, moves_up, is_to_move = small.features(state, seat)
        planes = [squares[seat::2], squares[1 - seat :: 2]]
        assert planes == [
            [1, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0],
            [0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1],
        ]
        assert (moves_up, is_to_move) == (seat == 1, seat == 0)


@pytest.mark.parametrize("seat", [0, 1])
def test_the_features_tell_positions_apart(seat: int) -> None:
    states = {s for level in levels(small) for s in level if s.player != TERMINAL}
    assert len({small.features(s, seat).tobytes() for s in states}) == len(states)


def test_the_rules_fit_the_board() -> None:
    assert "down from the top rows" in game.rules(0)
    assert "down from the top row;" in small.rules(0)
    assert "3 columns, a to c, and 4 rows" in small.rules(1)
    assert '"a4b3"' in small.rules(1)


@pytest.mark.parametrize(
    "text", ["b2xa3", "B2a3", "b2-a3", "b2 a3", "b2 to a3", "b2 x a3", "b2a3*"]
)
def test_an_action_is_read_from_its_squares(text: str) -> None:
    state = play("b4b3 b1b2 a4a3")
    assert small.action_text(state, small.parse(state, text)) == "b2xa3"


@pytest.mark.parametrize(
    "text", ["b2", "b2b3", "a3b2", "b2a3c4", "b2a9", "2b3a", "b2xc3", "a1a2*"]
)
def test_other_texts_name_no_action(text: str) -> None:
    state = play("b4b3 b1b2 a4a3")
    with pytest.raises(IllegalAction, match="want one of"):
        small.parse(state, text)


@pytest.mark.parametrize(
    ("name", "value", "low"),
    [
        *(("rows", value, 3) for value in (2, 9, 8.0, "8", None, True)),
        *(("columns", value, 2) for value in (1, 9, 4.0)),
    ],
)
def test_an_impossible_board_is_refused(name: str, value: Any, low: int) -> None:
    with pytest.raises(
        ValueError, match=rf"want an integer {name} from {low} to 8, got {value!r}"
    ):
        Breakthrough(**{name: value})
