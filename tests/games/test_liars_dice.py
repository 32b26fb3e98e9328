"""Liar's dice: its rules, its known values, and play beside OpenSpiel's."""

import random
from collections import Counter
from typing import Any

import pytest

from arena_envs import CHANCE, TERMINAL, IllegalAction
from arena_envs.games.liars_dice import LiarsDice, State
from arena_envs.solvers import (
    expected_returns,
    nash_conv,
    solve_zero_sum,
    uniform_table,
)

game = LiarsDice()
GAMES = [
    *(game, LiarsDice(2, 2), LiarsDice(2, 5), LiarsDice(2, 3, 2), LiarsDice(2, 2, 3)),
    *(LiarsDice(3), LiarsDice(3, 2), LiarsDice(4), LiarsDice(4, 5, 4)),
]


def theirs(num_dice: int, num_sides: int) -> Any:
    """OpenSpiel's game, which has two players."""
    pyspiel = pytest.importorskip("pyspiel")
    params = {"numdice": num_dice, "dice_sides": num_sides}
    return pyspiel.load_game("liars_dice", params)


def state_of(rules: LiarsDice, dice: str, *texts: str) -> State:
    """The state after these dice ("1 2") and actions."""
    state = rules.initial_state()
    for face in dice.split():
        state = rules.apply(state, int(face) - 1)
    for text in texts:
        state = rules.apply(state, rules.parse(state, text))
    return state


@pytest.mark.parametrize("rules", GAMES[:5], ids=repr)
def test_two_players_play_and_know_as_in_openspiel(
    oracle: Any, rules: LiarsDice
) -> None:
    other = theirs(rules.num_dice, rules.num_sides)
    oracle.play_games(rules, other, 1000, oracle.Knowledge(rules))


@pytest.mark.slow
def test_the_tree_and_what_seats_know_are_those_of_openspiel(oracle: Any) -> None:
    knowledge, keys, num_ends = oracle.Knowledge(game), set(), 0

    def visit(state: State, other: Any) -> None:
        nonlocal num_ends
        knowledge(state, other)
        player = game.current_player(state)
        num_ends += player == TERMINAL
        if player >= 0:
            keys.add(game.information_state(state, player))

    start, other = game.initial_state(), theirs(1, 6).new_initial_state()
    assert oracle.walk_tree(game, start, other, visit) == 294_883
    assert (len(keys), num_ends) == (24_576, 147_420)


@pytest.mark.parametrize(
    ("rules", "num_dice"), [(LiarsDice(3, 2), 3), (LiarsDice(4), 2)], ids=repr
)
def test_more_players_bid_and_win_as_two_do_with_as_many_dice(
    rules: LiarsDice, num_dice: int
) -> None:
    """Only who is to move differs, and who gets what: the last two players."""
    n, other_game = rules.num_players, theirs(num_dice, rules.num_sides)
    rng = random.Random(0)
    for _ in range(2000):
        state, other = rules.initial_state(), other_game.new_initial_state()
        turn = 0
        while (player := rules.current_player(state)) != TERMINAL:
            if player == CHANCE:
                assert other.is_chance_node()
                choices = [outcome for outcome, _ in rules.chance_outcomes(state)]
                assert choices == [outcome for outcome, _ in other.chance_outcomes()]
            else:
                assert player == turn % n
                choices = list(rules.legal_actions(state))
                assert choices == other.legal_actions()
                turn += 1
            action = rng.choice(choices)
            state = rules.apply(state, action)
            other.apply_action(action)
        assert other.is_terminal()
        expected = [0.0] * n
        for last in (1, 2):
            expected[(turn - last) % n] = other.returns()[(turn - last) % 2]
        assert list(rules.returns(state)) == expected


@pytest.mark.slow
def test_uniform_play_has_its_known_values() -> None:
    table = uniform_table(game)
    assert len(table) == 24_576
    assert expected_returns(game, table)[0] == pytest.approx(-0.032407, abs=1e-6)
    distance = nash_conv(game, table)
    assert str(game.known_value).endswith(f"NashConv of uniform play {distance:.6f}")


@pytest.mark.slow
def test_the_value_is_that_of_an_equilibrium() -> None:
    pytest.importorskip("scipy")
    value, table = solve_zero_sum(game)
    assert str(game.known_value).startswith(f"{value:.6f} for player_0;")
    assert nash_conv(game, table) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("rules", GAMES[1:], ids=repr)
def test_other_parameters_keep_the_contract(
    rules: LiarsDice, check_contract: Any
) -> None:
    check_contract(rules)


@pytest.mark.parametrize("rules", GAMES, ids=repr)
def test_the_longest_game_bids_everything(rules: LiarsDice) -> None:
    state, num_turns = rules.initial_state(), 0
    while (player := rules.current_player(state)) != TERMINAL:
        if player == CHANCE:
            state = rules.apply(state, 0)
        else:
            assert (rules.num_bids in rules.legal_actions(state)) == (num_turns > 0)
            state = rules.apply(state, rules.legal_actions(state)[0])
            num_turns += 1
    assert num_turns == rules.max_turns


@pytest.mark.parametrize(
    ("dice", "texts", "returns"),
    [
        ("3 5", ["1 three", "liar"], (1, -1)),
        ("3 5", ["1 four", "liar"], (-1, 1)),
        ("3 5", ["1 four", "1 five", "liar"], (-1, 1)),
        ("3 6", ["2 threes", "liar"], (1, -1)),  # a six counts
        ("3 6", ["2 sixes", "liar"], (-1, 1)),
        ("6 6", ["2 ones", "liar"], (1, -1)),
    ],
)
def test_a_challenge_is_lost_against_a_true_bid(
    dice: str, texts: list[str], returns: tuple[int, ...]
) -> None:
    state = state_of(game, dice, *texts)
    assert game.current_player(state) == TERMINAL
    assert game.returns(state) == returns


def test_the_highest_face_is_wild_whatever_the_number_of_sides() -> None:
    rules = LiarsDice(num_sides=4)
    assert rules.returns(state_of(rules, "1 4", "2 ones", "liar")) == (1, -1)
    assert "The face four is wild" in rules.rules(0)


def test_others_neither_win_nor_lose() -> None:
    rules = LiarsDice(4)
    state = state_of(rules, "1 2 3 4", "1 one", "1 two", "3 twos", "liar")
    assert rules.returns(state) == (0, 0, -1, 1)
    assert "The others score 0." in rules.rules(0)
    assert '"2 threes" means "at least two dice show a three"' in game.rules(0)
    assert '"2 ones" means' in LiarsDice(num_sides=2).rules(0)
    assert "others score" not in game.rules(0)


@pytest.mark.parametrize(
    "text", ["2 fives", "2 five", "2x5", "2 x 5", "2-5", "2, 5", "2 5", "Bid 2 FIVES"]
)
def test_a_bid_is_read_in_several_spellings(text: str) -> None:
    state = state_of(game, "1 2", "1 one")
    assert game.action_text(state, game.parse(state, text)) == "2 fives"


@pytest.mark.parametrize("text", ["Liar", "call", "call liar", "challenge", "doubt"])
def test_a_challenge_is_read_in_several_spellings(text: str) -> None:
    assert game.parse(state_of(game, "1 2", "1 one"), text) == game.num_bids


@pytest.mark.parametrize(
    "text",
    [
        *("1 one", "1 two", "0 fives", "3 ones", "99 ones", "2 sevens", "2x7", "25"),
        *("2", "fives 2", "-1 one", "2 fives liar", "\N{ARABIC-INDIC DIGIT TWO} fives"),
    ],
)
def test_what_is_no_higher_bid_is_refused(text: str) -> None:
    with pytest.raises(IllegalAction, match="higher than the last"):
        game.parse(state_of(game, "1 2", "1 two"), text)


def test_nobody_can_challenge_before_the_first_bid() -> None:
    with pytest.raises(IllegalAction):
        game.parse(state_of(game, "1 2"), "liar")


def test_the_text_shows_all_dice_at_the_end_only() -> None:
    rules = LiarsDice(num_dice=2)
    texts = ["1 two", "2 sixes"]
    assert rules.observe(state_of(rules, "5 3 6 1", *texts), 0).split("\n") == [
        "You are player_0. Your dice: 3 5. Dice on the table: 4.",
        "Bids: player_0 1 two, player_1 2 sixes.",
        "You are to move.",
    ]
    state = state_of(rules, "5 3 6 1", *texts, "liar")
    assert rules.observe(state, 0).split("\n")[1:] == [
        "Bids: player_0 1 two, player_1 2 sixes, player_0 liar.",
        "All dice: player_0 3 5, player_1 1 6.",
        "The game is over: player_0 wins 1, player_1 loses 1.",
    ]


@pytest.mark.parametrize("rules", GAMES, ids=repr)
def test_features_tell_information_states_apart(
    rules: LiarsDice, check_features: Any
) -> None:
    assert check_features(rules, 200) > 200


def test_new_dice_are_uniform_and_spare_the_own_ones() -> None:
    rules = LiarsDice(2, 2, 3)
    state = state_of(rules, "1 2 3 3", "1 one")
    rng = random.Random(0)
    drawn = Counter(rules.resample(state, 0, rng).dice for _ in range(4500))
    assert len(drawn) == 9
    assert {dice[:2] for dice in drawn} == {(0, 1)}
    assert min(drawn.values()) > 400
    over = rules.apply(state, rules.num_bids)
    assert rules.resample(over, 0, rng) == over  # everybody has seen all dice


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("num_players", value) for value in (1, 5, 2.0, True)),
        *(("num_dice", value) for value in (0, 6, "1")),
        *(("num_sides", value) for value in (1, 7, None)),
    ],
)
def test_a_parameter_out_of_range_is_refused(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"{name} from \d to \d, got {value!r}"):
        LiarsDice(**{name: value})
