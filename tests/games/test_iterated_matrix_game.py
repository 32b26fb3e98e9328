"""Iterated matrix games: rounds of a table, beside OpenSpiel's and by known strategies."""

import itertools
import random
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import pytest

import arena_envs
from arena_envs import TERMINAL
from arena_envs.game import MAX_TEXT
from arena_envs.games.iterated_matrix_game import IteratedMatrixGame
from arena_envs.solvers import (
    best_response_value,
    expected_returns,
    nash_conv,
    uniform_table,
)

OPENSPIEL = {
    "iterated_matrix_game": "matrix_pd",
    "iterated_prisoners_dilemma": "matrix_pd",
    "iterated_rock_paper_scissors": "matrix_rps",
    "iterated_stag_hunt": "matrix_sh",
}
COOPERATE, DEFECT = range(2)
game = IteratedMatrixGame()

# three players, of whom the first has three actions: (a, b, c) pays a, b/10 and -c
THREE = [[[[a, b / 10, -c] for c in range(2)] for b in range(2)] for a in range(3)]
THREE_NAMES = (("low", "middle", "high"), ("no", "yes"), ("no", "yes"))


def theirs(name: str, num_rounds: int) -> Any:
    """The same game of OpenSpiel's, one seat after another."""
    pyspiel = pytest.importorskip("pyspiel")
    stage = f"stage_game={OPENSPIEL[name]}(),num_repetitions={num_rounds}"
    return pyspiel.convert_to_turn_based(pyspiel.load_game(f"repeated_game({stage})"))


class Knowledge:
    """Asserts that the seat to move knows the same in both games."""

    def __init__(self, rules: IteratedMatrixGame) -> None:
        self.rules = rules
        self.ours: dict[Hashable, Hashable] = {}
        self.theirs: dict[Hashable, Hashable] = {}

    def __call__(self, state: Any, other: Any, *_: Any) -> None:
        seat = self.rules.current_player(state)
        if seat != TERMINAL:
            key = self.rules.information_state(state, seat)
            other_key = (seat, other.information_state_string(seat))
            assert self.ours.setdefault(key, other_key) == other_key
            assert self.theirs.setdefault(other_key, key) == key


def played(rules: IteratedMatrixGame, rounds: Sequence[Sequence[int]]) -> Any:
    state = rules.initial_state()
    for action in itertools.chain(*rounds):
        state = rules.apply(state, action)
    return state


def strategy(
    rules: IteratedMatrixGame, action: Callable[[Any, int], int]
) -> dict[Any, list[float]]:
    """The table of a policy that plays `action(rounds, seat)`."""
    return {
        (seat, key): [float(a == action(key[1], seat)) for a in range(len(row))]
        for (seat, key), row in uniform_table(rules).items()
    }


def tit_for_tat(rounds: Sequence[Sequence[int]], seat: int) -> int:
    return rounds[-1][1 - seat] if rounds else COOPERATE


@pytest.mark.parametrize("name", OPENSPIEL)
def test_the_tree_and_the_knowledge_are_openspiels(oracle: Any, name: str) -> None:
    rules = arena_envs.make_game(name, num_rounds=3)
    knowledge = Knowledge(rules)
    other = theirs(name, 3).new_initial_state()
    num_states = oracle.walk_tree(rules, rules.initial_state(), other, knowledge)
    n = rules.num_actions
    assert num_states == sum(n**turn for turn in range(7))
    assert len(knowledge.ours) == 2 * (1 + n**2 + n**4)


@pytest.mark.parametrize("name", OPENSPIEL)
def test_ten_rounds_play_alike(oracle: Any, name: str) -> None:
    rules = arena_envs.make_game(name)
    oracle.play_games(rules, theirs(name, 10), 300, Knowledge(rules))


@pytest.mark.parametrize("num_rounds", [1, 2, 3])
def test_uniform_play_can_be_bettered_by_three_a_round(num_rounds: int) -> None:
    rules = IteratedMatrixGame(num_rounds=num_rounds)
    distance = nash_conv(rules, uniform_table(rules))
    assert distance == pytest.approx(3 * num_rounds)


@pytest.mark.parametrize("name", ["iterated_rock_paper_scissors", "iterated_stag_hunt"])
def test_uniform_play_of_the_other_tables_cannot_be_bettered(name: str) -> None:
    rules = arena_envs.make_game(name, num_rounds=2)
    assert nash_conv(rules, uniform_table(rules)) == pytest.approx(0)


def test_always_to_defect_is_an_equilibrium_and_always_to_cooperate_none() -> None:
    rules = IteratedMatrixGame(num_rounds=3)
    defect = strategy(rules, lambda *_: DEFECT)
    assert nash_conv(rules, defect) == 0
    assert expected_returns(rules, defect) == (3, 3)
    cooperate = strategy(rules, lambda *_: COOPERATE)
    assert expected_returns(rules, cooperate) == (15, 15)
    assert nash_conv(rules, cooperate) == 2 * (30 - 15)


def test_a_last_round_leaves_one_thing_to_do() -> None:
    """Whatever was played before, the last choice to defect pays more."""
    rules = IteratedMatrixGame(num_rounds=2)
    for first in itertools.product(range(2), repeat=2):
        for other in range(2):
            defect = rules.returns(played(rules, [first, (DEFECT, other)]))
            cooperate = rules.returns(played(rules, [first, (COOPERATE, other)]))
            assert defect[0] > cooperate[0]


def test_the_best_reply_to_tit_for_tat_defects_in_the_last_round() -> None:
    best = {}
    for own in itertools.product(range(2), repeat=game.num_rounds):
        rounds: list[tuple[int, int]] = []
        for action in own:
            rounds.append((action, tit_for_tat(rounds, 1)))
        best[own] = game.returns(played(game, rounds))[0]
    assert max(best.values()) == 55
    assert best[(COOPERATE,) * 9 + (DEFECT,)] == 55
    rules = IteratedMatrixGame(num_rounds=3)
    reply = best_response_value(rules, strategy(rules, tit_for_tat), 0)
    assert reply == 2 * 5 + 10


def test_ten_rounds_pay_what_the_page_says() -> None:
    assert game.returns(played(game, [(DEFECT, DEFECT)] * 10)) == (10, 10)
    assert game.returns(played(game, [(COOPERATE, COOPERATE)] * 10)) == (50, 50)
    assert game.returns(played(game, [(DEFECT, COOPERATE)] * 10)) == (100, 0)
    assert (game.min_return, game.max_return, game.max_turns) == (0, 100, 20)


def test_the_text_sums_up_all_rounds_that_are_over() -> None:
    state = played(game, [(COOPERATE, DEFECT), (DEFECT, DEFECT)])
    text = (
        "You are player_1. Round 3 of 10: all players choose.\n"
        "You chose Defect, Defect and have 11.\n"
        "player_0 chose Cooperate, Defect and has 1."
    )
    assert game.observe(state, 1) == text
    assert game.observe(game.apply(state, COOPERATE), 1) == text
    end = played(game, [(COOPERATE, DEFECT)] * 10)
    assert game.observe(end, 0).startswith("You are player_0. The game is over.\n")


def test_features_tell_all_that_is_known_apart() -> None:
    rules = IteratedMatrixGame(THREE, THREE_NAMES, num_rounds=3)
    found: dict[bytes, Hashable] = {}
    rng = random.Random(0)
    for _ in range(300):
        state = rules.initial_state()
        while rules.current_player(state) != TERMINAL:
            seat = rules.current_player(state)
            key = rules.information_state(state, seat)
            features = rules.features(state, seat).tobytes()
            assert found.setdefault(features, key) == key
            state = rules.apply(state, rng.choice(rules.legal_actions(state)))
    assert len(found) > 300


@pytest.mark.parametrize(
    "rules",
    [
        IteratedMatrixGame(num_rounds=1),
        IteratedMatrixGame(THREE, THREE_NAMES, num_rounds=3),
        IteratedMatrixGame([[[1, 2]]], ["wait"], num_rounds=30),
    ],
    ids=["one round", "three players", "thirty rounds"],
)
def test_other_parameters_keep_the_contract(
    rules: IteratedMatrixGame, check_contract: Any
) -> None:
    check_contract(rules)


def test_bounds_are_rounded_as_the_sums_of_play_are() -> None:
    for payoff in (0.1, -0.1, 1 / 3):
        rules = IteratedMatrixGame([[[payoff, 0]]], ["wait"], num_rounds=10)
        paid = rules.returns(played(rules, [(0, 0)] * 10))[0]
        assert paid in (rules.min_return, rules.max_return)


def test_the_longest_text_fits() -> None:
    names = [f"{'x' * 19}{action}" for action in range(2)]
    payoffs: Any = [-1234567.125] * 8
    for _ in range(8):
        payoffs = [payoffs, payoffs]
    rules = IteratedMatrixGame(payoffs, names, num_rounds=100)
    state = played(rules, [(0,) * 8] * 100)
    assert len(rules.observe(state, 7)) <= MAX_TEXT


@pytest.mark.parametrize("value", [0, 101, -1, 2.0, "3", None, True])
def test_a_number_of_rounds_out_of_range_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"num_rounds from 1 to 100, got"):
        IteratedMatrixGame(num_rounds=value)


def test_a_table_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match=r"want payoffs\[action of player_0\].*, got "):
        IteratedMatrixGame([[1, 2], [3, 4]])
