"""Connect Four: its rules beside OpenSpiel's, and its known values."""

import random
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

import arena_envs
from arena_envs import TERMINAL, IllegalAction
from arena_envs.games.connect_four import ConnectFour, State

game = ConnectFour()
TEXTARENA_MEAN_LENGTH = 2845  # characters of its observation in random play


def theirs(rules: ConnectFour) -> Any:
    """The same game of OpenSpiel's."""
    names = ("rows", "columns", "x_in_row")
    params = {name: getattr(rules, name) for name in names}
    return pytest.importorskip("pyspiel").load_game("connect_four", params)


def play(columns: str, rules: ConnectFour = game) -> State:
    state = rules.initial_state()
    for text in columns:
        state = rules.apply(state, rules.parse(state, text))
    return state


def random_games(num_games: int) -> Iterator[list[State]]:
    """The states of each game."""
    rng = random.Random(0)
    for _ in range(num_games):
        states = [game.initial_state()]
        while legal := game.legal_actions(states[-1]):
            states.append(game.apply(states[-1], rng.choice(legal)))
        yield states


def num_positions(rules: ConnectFour) -> Iterator[int]:
    """By the number of discs."""
    level = {rules.initial_state()}
    while level:
        yield len(level)
        level = {rules.apply(s, a) for s in level for a in rules.legal_actions(s)}


def value(rules: ConnectFour) -> float:
    """Of perfect play, for the first player."""

    @cache
    def best(state: State) -> float:
        if state.player == TERMINAL:
            return rules.returns(state)[0]
        choose = (max, min)[state.player]
        return choose(best(rules.apply(state, a)) for a in rules.legal_actions(state))

    return best(rules.initial_state())


def test_it_plays_like_openspiel(oracle: Any) -> None:
    oracle.play_games(game, theirs(game), 5000)


@pytest.mark.slow
def test_it_plays_like_openspiel_in_many_games(oracle: Any) -> None:
    oracle.play_games(game, theirs(game), 100_000)


@pytest.mark.parametrize(
    ("rules", "num_states"),
    [
        (ConnectFour(3, 3, 3), 694),
        (ConnectFour(4, 4, 3), 41_750),
        (ConnectFour(5, 3, 4), 38_310),
    ],
    ids=repr,
)
def test_all_positions_of_small_boards_are_openspiels(
    oracle: Any, rules: ConnectFour, num_states: int
) -> None:
    assert oracle.walk_positions(rules, theirs(rules)) == num_states


@pytest.mark.parametrize(
    "rules",
    [ConnectFour(3, 10, 10), ConnectFour(10, 3, 8), ConnectFour(10, 10, 5)],
    ids=repr,
)
def test_other_boards_play_like_openspiels(oracle: Any, rules: ConnectFour) -> None:
    oracle.play_games(rules, theirs(rules), 300)


@pytest.mark.parametrize(
    "rules", [ConnectFour(3, 4, 3), ConnectFour(10, 10, 7)], ids=repr
)
def test_other_boards_keep_the_contract(
    rules: ConnectFour, check_contract: Any
) -> None:
    check_contract(rules)


def test_it_is_held_out() -> None:
    (info,) = (info for info in arena_envs.game_infos() if info.id == "connect_four-v0")
    assert info.split == "held_out"


def test_the_first_turns_lead_to_the_published_numbers_of_positions() -> None:
    counts = num_positions(game)
    published = [1, 7, 49, 238, 1120, 4263, 16422]
    assert [next(counts) for _ in published] == published


@pytest.mark.slow
def test_four_by_four_has_its_published_number_of_positions() -> None:
    assert sum(num_positions(ConnectFour(4, 4))) == 161_029


@pytest.mark.parametrize(
    ("rules", "expected"),
    [(ConnectFour(4, 4), 0), (ConnectFour(4, 4, 3), 1), (ConnectFour(3, 3, 3), 0)],
    ids=repr,
)
def test_small_boards_have_known_values(rules: ConnectFour, expected: float) -> None:
    assert value(rules) == expected


def test_random_play_has_the_documented_outcomes() -> None:
    lengths, results = [], []
    for states in random_games(10_000):
        lengths.append(len(states) - 1)
        results.append(game.returns(states[-1])[0])
    assert (min(lengths), max(lengths), game.max_turns) == (7, 42, 42)
    assert sum(lengths) / 10_000 == pytest.approx(21.3, abs=0.05)
    assert results.count(1) / 10_000 == pytest.approx(0.559, abs=0.0005)
    assert results.count(-1) / 10_000 == pytest.approx(0.439, abs=0.0005)
    assert ConnectFour().known_value == "random play: X wins .559, O .439"


@pytest.mark.parametrize(
    "moves",
    ["aabbccd", "gaabbccd", "abababa", "abbcdccdgdd", "gffedeedadd"],
)
def test_four_in_a_row_win(moves: str) -> None:
    before, state = play(moves[:-1]), play(moves)
    assert before.player == (len(moves) - 1) % 2
    assert state.player == TERMINAL
    assert game.legal_actions(state) == ()
    assert game.returns(state) == ((1, -1) if len(moves) % 2 else (-1, 1))


def test_a_row_does_not_go_on_around_the_edge() -> None:
    assert play("eeffgga").player == 1  # e, f and g of one row, and a of it
    assert play("eeffggbaba").player == 0  # and a of the next


def test_a_full_column_is_not_legal() -> None:
    state = play("dddddd")
    assert game.legal_actions(state) == (0, 1, 2, 4, 5, 6)
    with pytest.raises(IllegalAction):
        game.parse(state, "d")


def test_a_win_on_the_last_square_is_no_draw() -> None:
    rules = ConnectFour(3, 3, 3)
    state = play("acbaacbbc", rules)
    assert (state.crosses | state.noughts).bit_count() == 9
    assert rules.returns(state) == (1, -1)


def test_a_full_board_without_a_line_is_a_draw() -> None:
    rules = ConnectFour(3, 3, 3)
    state = play("babccacba", rules)
    assert state.player == TERMINAL
    assert rules.returns(state) == (0, 0)
    assert rules.observe(state, 0).startswith("You are X. The game is over: a draw.\n")


def test_the_text_is_the_board_upright() -> None:
    board = [
        *("a b c d e f g", ". . . . . . .", ". . . . . . .", ". . . . . . ."),
        *(". . . X . . .", ". . . O . . .", "O . . X . . X"),
    ]
    state = play("dddag")
    assert game.observe(state, 1).split("\n") == [
        "You are O. You are to move.",
        *board,
    ]
    assert game.observe(state, 0).split("\n") == [
        "You are X. player_1 is to move.",
        *board,
    ]


def test_the_text_says_how_the_game_ended() -> None:
    state = play("aabbccd")
    assert game.observe(state, 0).startswith(
        "You are X. The game is over: you have won"
    )
    assert game.observe(state, 1).startswith(
        "You are O. The game is over: you have lost"
    )


def test_the_text_is_far_shorter_than_a_fifth_of_textarenas() -> None:
    texts = [
        game.observe(state, seat)
        for states in random_games(100)
        for state in states
        for seat in (0, 1)
    ]
    assert max(map(len, texts)) < 150 < TEXTARENA_MEAN_LENGTH / 15


def test_the_features_are_the_own_and_the_other_discs_square_by_square() -> None:
    state = play("dddag")
    own, other = game.features(state, 1).reshape(6, 7, 2).transpose(2, 0, 1)
    assert list(zip(*own.nonzero(), strict=True)) == [(0, 0), (1, 3)]
    assert list(zip(*other.nonzero(), strict=True)) == [(0, 3), (0, 6), (2, 3)]
    mirrored = game.features(state, 0).reshape(6, 7, 2)
    assert (mirrored[..., 0] == other).all()
    assert (mirrored[..., 1] == own).all()


def test_the_rules_name_the_size_of_the_board() -> None:
    text = ConnectFour(5, 9, 5).rules(0)
    assert "9 columns, a to i, and 5 rows" in text
    assert "five own discs" in text


@pytest.mark.parametrize("text", ["d", "D ", "column d", "COL  D"])
def test_a_column_is_read_from_its_letter(text: str) -> None:
    assert game.parse(State(), text) == 3


@pytest.mark.parametrize("text", ["4", "h", "column", "column dd", "col col d", "d1"])
def test_other_texts_name_no_column(text: str) -> None:
    with pytest.raises(IllegalAction, match="want one of"):
        game.parse(State(), text)


@pytest.mark.parametrize(
    ("name", "value", "bounds"),
    [
        ("rows", 2, "from 3 to 10"),
        ("rows", 6.0, "from 3 to 10"),
        ("columns", 11, "from 3 to 10"),
        ("columns", "7", "from 3 to 10"),
        ("x_in_row", 2, "from 3 to 7"),
        ("x_in_row", 8, "from 3 to 7"),
        ("x_in_row", True, "from 3 to 7"),
    ],
)
def test_an_impossible_board_is_refused(name: str, value: Any, bounds: str) -> None:
    with pytest.raises(ValueError, match=rf"{name} {bounds}, got {value!r}"):
        ConnectFour(**{name: value})
