"""Othello: its rules beside OpenSpiel's and plain ones, and its known values."""

import random
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any

import pytest

from arena_envs import TERMINAL, IllegalAction
from arena_envs.games.othello import Othello, State

game = Othello()
small = Othello(4)
Board = dict[tuple[int, int], str]


def theirs() -> Any:
    """The same game of OpenSpiel's."""
    return pytest.importorskip("pyspiel").load_game("othello")


def play(texts: str, rules: Othello) -> State:
    state = rules.initial_state()
    for text in texts.split():
        state = rules.apply(state, rules.parse(state, text))
    return state


def legal_texts(state: State, rules: Othello) -> list[str]:
    return [rules.action_text(state, action) for action in rules.legal_actions(state)]


def board_rows(state: State, rules: Othello) -> list[str]:
    """The rows of the text, without their numbers."""
    return [
        line[2:].replace(" ", "") for line in rules.observe(state, 0).split("\n")[2:]
    ]


def random_games(rules: Othello, num_games: int) -> Iterator[list[tuple[State, int]]]:
    """The states of each game with the actions that led to them."""
    rng = random.Random(0)
    for _ in range(num_games):
        states = [(rules.initial_state(), -1)]
        while legal := rules.legal_actions(states[-1][0]):
            action = rng.choice(legal)
            states.append((rules.apply(states[-1][0], action), action))
        yield states


def plain_board(state: State, rules: Othello) -> Board:
    return {
        (r, c): disc
        for r, row in enumerate(board_rows(state, rules))
        for c, disc in enumerate(row)
    }


def plain_turned(board: Board, own: str, row: int, column: int) -> set[tuple[int, int]]:
    """What a new disc encloses, by walking from it."""
    turned: set[tuple[int, int]] = set()
    for down in (-1, 0, 1):
        for right in (-1, 0, 1):
            passed, (r, c) = set(), (row + down, column + right)
            while board.get((r, c), ".") not in (".", own):
                passed.add((r, c))
                r, c = r + down, c + right
            if board.get((r, c)) == own:
                turned |= passed
    return turned


def test_it_plays_like_openspiel(oracle: Any) -> None:
    oracle.play_games(game, theirs(), 500)


@pytest.mark.slow
def test_it_plays_like_openspiel_in_many_games(oracle: Any) -> None:
    oracle.play_games(game, theirs(), 20_000)


@pytest.mark.parametrize("rules", [small, Othello(6)], ids=repr)
def test_other_sizes_follow_the_plain_rules(rules: Othello) -> None:
    size = rules.size
    for states in random_games(rules, 50):
        for (state, _), (after, action) in pairwise(states):
            board, own = plain_board(state, rules), "BW"[state.player]
            enclosed = {
                size * row + column: plain_turned(board, own, row, column)
                for (row, column), disc in board.items()
                if disc == "."
            }
            legal = [square for square, turned in enclosed.items() if turned]
            assert list(rules.legal_actions(state)) == (legal or [size**2])
            if legal:
                changed = {divmod(action, size), *enclosed[action]}
                board.update(dict.fromkeys(changed, own))
            assert plain_board(after, rules) == board


@pytest.mark.parametrize("rules", [small, Othello(6)], ids=repr)
def test_other_sizes_keep_the_contract(rules: Othello, check_contract: Any) -> None:
    check_contract(rules)


def test_the_first_turns_lead_to_the_published_numbers_of_games() -> None:
    def num_games(state: State, num_turns: int) -> int:
        legal = game.legal_actions(state)
        if num_turns == 1:
            return len(legal)
        return sum(num_games(game.apply(state, a), num_turns - 1) for a in legal)

    published = [4, 12, 56, 244, 1396, 8200, 55092]
    start = game.initial_state()
    assert [num_games(start, n) for n in range(1, 8)] == published


def test_four_by_four_is_a_win_for_white_by_eight_discs() -> None:
    @cache
    def lead(state: State) -> int:
        if state.player == TERMINAL:
            return state.black.bit_count() - state.white.bit_count()
        legal = small.legal_actions(state)
        return (max, min)[state.player](lead(small.apply(state, a)) for a in legal)

    assert lead(small.initial_state()) == -8


@pytest.mark.slow
def test_the_longest_game_of_size_four_keeps_to_max_turns() -> None:
    @cache
    def longest(state: State) -> int:
        after = [small.apply(state, a) for a in small.legal_actions(state)]
        return 1 + max(map(longest, after)) if after else 0

    assert longest(small.initial_state()) == 17 <= small.max_turns == 23
    assert game.max_turns == 119


@pytest.mark.slow
def test_random_play_has_the_documented_length() -> None:
    num_turns = sum(len(states) - 1 for states in random_games(game, 2000))
    assert num_turns / 2000 == pytest.approx(60.3, abs=0.05)


def test_black_starts_on_a_board_with_white_in_the_upper_left() -> None:
    state = small.initial_state()
    assert board_rows(state, small) == ["....", ".WB.", ".BW.", "...."]
    assert legal_texts(state, small) == ["b1", "a2", "d3", "c4"]
    assert legal_texts(game.initial_state(), game) == ["d3", "c4", "f5", "e6"]


def test_a_disc_turns_over_all_lines_that_it_encloses() -> None:
    before = play("d3 d4 c4 d2 d1 a3 a4 b1 c1 b4 a2", small)
    assert board_rows(before, small) == [".WBB", "BBBW", "BWWW", "BWWW"]
    after = play("d3 d4 c4 d2 d1 a3 a4 b1 c1 b4 a2 a1", small)
    assert board_rows(after, small) == ["WWBB", "BWBW", "BWWW", "BWWW"]


def test_only_who_cannot_enclose_anything_passes() -> None:
    state = play("c4 b4 a2 d4", small)
    assert board_rows(state, small) == ["....", "BBB.", ".BB.", ".WWW"]
    assert legal_texts(state, small) == ["pass"]
    after = play("c4 b4 a2 d4 pass", small)
    assert (after.black, after.white) == (state.black, state.white)
    assert after.player == 1
    assert "pass" not in legal_texts(after, small)


@pytest.mark.parametrize(
    ("rules", "moves", "board", "returns"),
    [
        (
            small,  # full
            "d3 d4 c4 d2 d1 a3 a4 b1 c1 b4 a2 a1",
            ["WWBB", "BWBW", "BWWW", "BWWW"],
            (-1, 1),
        ),
        (
            small,  # neither side can enclose anything
            "d3 d2 a1 d4 d1 a2 b1 a4 a3 b4",
            ["BB.B", "BBWW", "BBWW", "WW.W"],
            (0, 0),
        ),
        (
            game,  # the shortest game: no white disc is left
            "e6 f4 e3 f6 g5 d6 e7 f5 c5",
            [
                *("........", "........", "....B...", "...BBB.."),
                *("..BBBBB.", "...BBB..", "....B...", "........"),
            ],
            (1, -1),
        ),
    ],
)
def test_the_game_ends_when_neither_side_can_enclose_anything(
    rules: Othello, moves: str, board: list[str], returns: tuple[int, int]
) -> None:
    before = play(" ".join(moves.split()[:-1]), rules)
    assert before.player >= 0
    state = play(moves, rules)
    assert board_rows(state, rules) == board
    assert state.player == TERMINAL
    assert rules.legal_actions(state) == ()
    assert rules.returns(state) == returns


def test_the_text_counts_the_discs() -> None:
    state = play("c4", small)
    board = ["  a b c d", "1 . . . .", "2 . W B .", "3 . B B .", "4 . . B ."]
    assert small.observe(state, 0).split("\n") == [
        "You are B. player_1 is to move. Discs: B 4, W 1.",
        *board,
    ]
    assert small.observe(state, 1).split("\n") == [
        "You are W. You are to move. Discs: B 4, W 1.",
        *board,
    ]


def test_the_text_says_who_has_won() -> None:
    state = play("d3 d4 c4 d2 d1 a3 a4 b1 c1 b4 a2 a1", small)
    first = [small.observe(state, seat).partition("\n")[0] for seat in (0, 1)]
    assert first == [
        "You are B. The game is over: you have lost. Discs: B 6, W 10.",
        "You are W. The game is over: you have won. Discs: B 6, W 10.",
    ]


@pytest.mark.parametrize("seat", [0, 1])
def test_the_features_tell_positions_apart(seat: int) -> None:
    seen: dict[bytes, State] = {}
    for states in random_games(small, 300):
        for state, _ in states:
            if state.player != TERMINAL:
                key = small.features(state, seat).tobytes()
                assert seen.setdefault(key, state) == state
    assert len(seen) > 1000


def test_the_features_are_the_discs_of_either_side() -> None:
    state = play("c4", small)
    black = [0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 1, 0, 0, 0, 1, 0]
    white = [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    *squares, to_move = small.features(state, 0)
    assert (squares[::2], squares[1::2], to_move) == (black, white, 0)
    *squares, to_move = small.features(state, 1)
    assert (squares[::2], squares[1::2], to_move) == (white, black, 1)


def test_the_rules_name_the_size_of_the_board() -> None:
    assert "6 columns, a to f, and 6 rows" in Othello(6).rules(0)


@pytest.mark.parametrize("text", ["a1", "pass", "d2", "4", "c4 d3"])
def test_a_square_that_encloses_nothing_is_refused(text: str) -> None:
    with pytest.raises(IllegalAction, match="want one of"):
        small.parse(small.initial_state(), text)


@pytest.mark.parametrize("size", [2, 5, 10, 8.0, "8", None, True])
def test_another_size_is_refused(size: Any) -> None:
    with pytest.raises(ValueError, match=rf"want size 4, 6 or 8, got {size!r}"):
        Othello(size)
