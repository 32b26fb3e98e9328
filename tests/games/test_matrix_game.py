"""Matrix games: the tables, what follows from them, and play beside OpenSpiel's."""

import itertools
import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import arena_envs
from arena_envs.games.matrix_game import MatrixGame
from arena_envs.solvers import expected_returns, nash_conv, uniform_table
from arena_wrappers import PromptWrapper, RandomPolicy, play, replay
from arena_wrappers.records import Episode

OPENSPIEL = {
    "battle_of_the_sexes": "matrix_bos",
    "chicken": "matrix_cd",
    "matching_pennies": "matrix_mp",
    "matrix_game": "matrix_pd",
    "prisoners_dilemma": "matrix_pd",
    "rock_paper_scissors": "matrix_rps",
    "stag_hunt": "matrix_sh",
}
game = MatrixGame()
COOPERATE, DEFECT = range(2)

# three players, of whom the first has three actions: (a, b, c) pays a, b and -c
THREE = [[[[a, b, -c] for c in range(2)] for b in range(2)] for a in range(3)]
THREE_NAMES = (("low", "middle", "high"), ("no", "yes"), ("no", "yes"))


def preset(name: str) -> Any:
    return arena_envs.make_game(name)


def pure_equilibria(name: str) -> list[tuple[str, ...]]:
    """Names of the actions from which no seat gains by leaving alone."""
    rules = preset(name)
    return [
        tuple(rules.names[seat][action] for seat, action in enumerate(chosen))
        for chosen, cell in rules.cells.items()
        if all(
            rules.cells[(*chosen[:seat], other, *chosen[seat + 1 :])][seat]
            <= cell[seat]
            for seat in range(2)
            for other in range(rules.shape[seat])
        )
    ]


def values(name: str, seat: int, others: list[Fraction]) -> list[Fraction]:
    """What each action of a seat is worth while the other seat mixes."""
    rules = preset(name)
    worth = [Fraction(0)] * rules.shape[seat]
    for chosen, cell in rules.cells.items():
        worth[chosen[seat]] += others[chosen[1 - seat]] * Fraction(cell[seat])
    return worth


@pytest.mark.parametrize(("name", "other"), OPENSPIEL.items())
def test_the_tree_is_openspiels(oracle: Any, name: str, other: str) -> None:
    pyspiel = pytest.importorskip("pyspiel")
    table, rules = pyspiel.load_game(other), preset(name)
    turns = pyspiel.convert_to_turn_based(table)
    for seat, name_of in enumerate((table.row_action_name, table.col_action_name)):
        names = [name_of(action) for action in range(rules.num_actions)]
        assert list(rules.names[seat]) == names
    assert (rules.min_return, rules.max_return) == (
        table.min_utility(),
        table.max_utility(),
    )
    assert rules.zero_sum == (
        turns.get_type().utility == turns.get_type().Utility.ZERO_SUM
    )
    n = rules.num_actions
    num_states = oracle.walk_tree(
        rules, rules.initial_state(), turns.new_initial_state(), lambda *_: None
    )
    assert num_states == 1 + n + n * n


@pytest.mark.parametrize(
    ("name", "equilibria"),
    [
        ("prisoners_dilemma", ["Defect Defect"]),
        ("stag_hunt", ["Stag Stag", "Hare Hare"]),
        ("chicken", ["Dare Chicken", "Chicken Dare"]),
        ("battle_of_the_sexes", ["Bach Bach", "Stravinsky Stravinsky"]),
        ("matching_pennies", []),
        ("rock_paper_scissors", []),
    ],
)
def test_the_pure_equilibria_are_known(name: str, equilibria: list[str]) -> None:
    assert [" ".join(names) for names in pure_equilibria(name)] == equilibria


@pytest.mark.parametrize(
    ("name", "distance"),
    [
        ("prisoners_dilemma", 3),
        ("stag_hunt", 0),
        ("chicken", 0),
        ("battle_of_the_sexes", 0.5),
        ("matching_pennies", 0),
        ("rock_paper_scissors", 0),
    ],
)
def test_uniform_play_has_its_known_nash_conv(name: str, distance: float) -> None:
    rules = preset(name)
    assert nash_conv(rules, uniform_table(rules)) == pytest.approx(distance)
    if rules.zero_sum:
        assert expected_returns(rules, uniform_table(rules)) == pytest.approx((0, 0))


def test_to_defect_is_dominant() -> None:
    for other in (COOPERATE, DEFECT):
        assert game.cells[DEFECT, other][0] > game.cells[COOPERATE, other][0]
        assert game.cells[other, DEFECT][1] > game.cells[other, COOPERATE][1]
    assert game.cells[DEFECT, DEFECT] == (1, 1)


def test_the_sexes_mix_three_to_two() -> None:
    first, second = Fraction(3, 5), Fraction(2, 5)
    worth = Fraction(6, 5)
    assert values("battle_of_the_sexes", 0, [second, first]) == [worth, worth]
    assert values("battle_of_the_sexes", 1, [first, second]) == [worth, worth]


@pytest.mark.parametrize(
    ("payoffs", "kind", "zero_sum", "bounds"),
    [
        ([[[1, -1], [-3, 3]], [[0, 0], [2, -2]]], "competitive", True, (-3, 3)),
        ([[[1, 4], [3, 2]], [[5, 0], [2, 3]]], "competitive", False, (0, 5)),
        ([[[1, 1], [-2, -2]], [[0.5, 0.5], [3, 3]]], "cooperative", False, (-2, 3)),
        ([[[1, 1], [2, 2]], [[2, 2], [1, 3]]], "mixed", False, (0, 3)),
        ([[[-1, -1], [-2, -2]], [[-2, -2], [-1, -3]]], "mixed", False, (-3, 0)),
        ([[[0, 0], [0, 0]], [[0, 0], [0, 0]]], "cooperative", True, (0, 0)),
    ],
)
def test_the_facts_follow_from_the_table(
    payoffs: Any,
    kind: str,
    zero_sum: bool,
    bounds: tuple[float, float],
    check_contract: Any,
) -> None:
    rules = MatrixGame(payoffs)
    assert (rules.kind, rules.zero_sum) == (kind, zero_sum)
    assert len(set(rules.teams)) == (1 if kind == "cooperative" else 2)
    assert (rules.min_return, rules.max_return) == bounds
    check_contract(rules)


def test_a_table_of_three_players_is_played(check_contract: Any) -> None:
    rules = MatrixGame(THREE, THREE_NAMES)
    check_contract(rules)
    assert (rules.num_players, rules.num_actions, rules.max_turns) == (3, 3, 3)
    for chosen in itertools.product(range(3), range(2), range(2)):
        state = rules.initial_state()
        for seat, action in enumerate(chosen):
            assert list(rules.legal_actions(state)) == list(range(rules.shape[seat]))
            state = rules.apply(state, action)
        assert rules.returns(state) == (chosen[0], chosen[1], -chosen[2])
    assert "You yes, player_2 no, player_0 high: you get 1" in rules.rules(1)


def test_a_seat_reads_the_table_from_its_side() -> None:
    rules = preset("battle_of_the_sexes")
    assert "You Bach, player_1 Bach: you get 3, player_1 gets 2" in rules.rules(0)
    assert "You Bach, player_0 Bach: you get 2, player_0 gets 3" in rules.rules(1)
    assert rules.rules(0).count("you get") == 4


def test_the_end_shows_the_choices_and_what_they_paid() -> None:
    state = game.apply(game.apply(game.initial_state(), COOPERATE), DEFECT)
    assert game.observe(state, 1) == (
        "You are player_1. The game is over.\n"
        "You chose Defect and have 10.\n"
        "player_0 chose Cooperate and has 0."
    )
    # one-hot seat; own choice; the other's choice
    assert game.features(state, 1).tolist() == [0, 1, 0, 1, 1, 0]


@pytest.mark.parametrize(
    ("text", "action"),
    [("coop", COOPERATE), ("D", DEFECT), (" DEFECT\n", DEFECT), ("defect", DEFECT)],
)
def test_a_name_may_be_shortened(text: str, action: int) -> None:
    assert game.parse(game.initial_state(), text) == action


def test_a_name_that_another_begins_with_is_still_read() -> None:
    rules = MatrixGame(actions=("go", "go back"))
    state = rules.initial_state()
    assert [rules.parse(state, text) for text in ("go", "go b")] == [0, 1]
    for text in ("g", "go away", ""):
        with pytest.raises(arena_envs.IllegalAction):
            rules.parse(state, text)


def test_lists_make_the_same_game_as_tuples() -> None:
    listed = json.loads(json.dumps([game.payoffs, game.actions]))
    assert MatrixGame(*listed) == game
    assert repr(MatrixGame(*listed)) == repr(game)
    assert hash(MatrixGame(*listed)) == hash(game)


def test_a_recorded_episode_of_an_own_table_is_replayed() -> None:
    def env() -> PromptWrapper:
        rules = {"payoffs": THREE, "actions": THREE_NAMES}
        return PromptWrapper(arena_envs.make("matrix_game", **rules))

    (episode,) = play(env, [RandomPolicy()] * 3, seeds=[1])
    read = Episode.from_json(episode.to_json())
    assert read.params["payoffs"] == THREE
    assert replay(read).returns == episode.returns


@pytest.mark.parametrize(
    "payoffs",
    [
        *(None, 5, "table", (), [], [[]], [1, 2], [[1, 2], [3, 4]], [[[1]], [[2]]]),
        *([[[1, 2], [3, 4]], [[1, 2]]], [[[1, 2], [3, 4, 5]]], [[[1, 2, 3]]]),
        *([[[1, "2"]]], [[[1, True]]], [[[1, None]]], [[[1, [2]]]], {0: 1}),
        *([[[1, float("nan")]]], [[[1, float("inf")]]], [[[1, 10**400]]]),
        np.zeros((2, 2, 2)),
    ],
    ids=repr,
)
def test_a_table_that_is_none_is_refused(payoffs: Any) -> None:
    with pytest.raises(ValueError, match=r"want payoffs\[action of player_0\].*, got "):
        MatrixGame(payoffs, ("a", "b"))


def test_a_table_that_is_too_long_to_read_is_refused() -> None:
    sixteen = [[[1, 2]] * 16] * 16
    longest = MatrixGame(sixteen, [f"a{i}" for i in range(16)])
    assert longest.rules(0).count("you get") == 256
    with pytest.raises(ValueError, match="want payoffs of at most 256 cells, got 272"):
        MatrixGame([*sixteen, sixteen[0]], ("a", "b"))


@pytest.mark.parametrize(
    "actions",
    [
        *(None, 3, "ab", (), ("a",), ("a", "b", "c"), ("a", "A"), ("a", ""), ("a", 1)),
        *(("a", "b, c"), ("a", "[b]"), ("a", "</b>"), ("a", "{b}"), ("a", "b: c")),
        *(("a", " b"), ("a", "b\n"), ("a", "b  c"), ("a", "\xe9"), ("a", "b" * 21)),
        *((("a", "b"),), (("a", "b"), ("a",)), (("a", "b"), "ab"), (("a", "b"), None)),
    ],
    ids=repr,
)
def test_names_that_do_not_fit_the_table_are_refused(actions: Any) -> None:
    with pytest.raises(ValueError, match=r"want .*(names|actions).*, got "):
        MatrixGame(actions=actions)
