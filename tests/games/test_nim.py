"""Nim: its rules, its theory by brute force, and OpenSpiel's positions."""

import itertools
import json
import operator
from fractions import Fraction
from functools import cache, reduce
from typing import Any

import pytest

import arena_envs
from arena_envs import TERMINAL, IllegalAction
from arena_envs.games.nim import Nim, State

game = Nim()


def positions(rules: Nim) -> set[State]:
    """All states that can be reached."""
    found, waiting = {rules.initial_state()}, [rules.initial_state()]
    while waiting:
        state = waiting.pop()
        after = {rules.apply(state, action) for action in rules.legal_actions(state)}
        waiting += after - found
        found |= after
    return found


def mover_wins(rules: Nim, piles: tuple[int, ...]) -> bool:
    """Whether the seat to move wins, by search."""

    @cache
    def value(state: State) -> float:
        if rules.current_player(state) == TERMINAL:
            return rules.returns(state)[0]
        best = (max, min)[state.seat]
        return best(value(rules.apply(state, a)) for a in rules.legal_actions(state))

    return value(State(piles)) == 1


@pytest.mark.parametrize("is_misere", [True, False])
def test_the_exclusive_or_tells_who_wins(is_misere: bool) -> None:
    rules = Nim((4, 4, 4), is_misere)
    for piles in itertools.product(range(5), repeat=3):
        wins = reduce(operator.xor, piles) != 0
        if is_misere and max(piles) < 2:
            wins = not wins
        assert mover_wins(rules, piles) == wins


def test_the_follower_wins_the_default_game() -> None:
    assert not mover_wins(game, game.pile_sizes)
    assert not mover_wins(Nim(is_misere=False), game.pile_sizes)


def test_random_play_has_the_documented_outcomes() -> None:
    @cache
    def outcome(state: State) -> tuple[Fraction, Fraction]:
        """Probability that `player_0` wins, and expected turns to come."""
        if game.current_player(state) == TERMINAL:
            return Fraction(game.returns(state)[0] == 1), Fraction(0)
        legal = game.legal_actions(state)
        wins, turns = zip(
            *(outcome(game.apply(state, action)) for action in legal), strict=True
        )
        return sum(wins) / len(legal), sum(turns) / len(legal) + 1

    wins, turns = outcome(game.initial_state())
    assert wins == Fraction(1, 2)
    assert float(turns) == pytest.approx(7.709524, abs=1e-6)


def test_the_lengths_of_an_episode_are_those_of_the_page() -> None:
    lengths: dict[State, set[int]] = {game.initial_state(): {0}}
    for state in sorted(positions(game), key=lambda state: -sum(state.piles)):
        for action in game.legal_actions(state):
            after = lengths.setdefault(game.apply(state, action), set())
            after |= {length + 1 for length in lengths[state]}
    ends = [lengths[s] for s in lengths if game.current_player(s) == TERMINAL]
    assert set().union(*ends) == set(range(4, 17))
    assert game.max_turns == 16


@pytest.mark.parametrize(
    "rules",
    [game, Nim(is_misere=False), Nim((2,)), Nim((3, 3, 1), False), Nim((10, 2))],
    ids=repr,
)
def test_every_position_is_openspiels(oracle: Any, rules: Nim) -> None:
    """Each state once, by the first way to it; OpenSpiel has one useless action more."""
    import pyspiel

    params = {
        "pile_sizes": ";".join(map(str, rules.pile_sizes)),
        "is_misere": rules.is_misere,
    }
    other_game = pyspiel.load_game("nim", params)
    assert rules.num_actions == other_game.num_distinct_actions() - 1
    assert rules.max_turns == other_game.max_game_length()
    waiting = [(rules.initial_state(), other_game.new_initial_state())]
    met = {rules.initial_state()}
    while waiting:
        state, other = waiting.pop()
        for action in oracle.compare(rules, state, other):
            after = rules.apply(state, action)
            if after not in met:
                met.add(after)
                waiting.append((after, other.child(action)))
    assert met == positions(rules)


@pytest.mark.parametrize(
    "rules", [Nim(is_misere=False), Nim((1,)), Nim((12,) * 10), Nim((100, 3))], ids=repr
)
def test_other_settings_keep_the_contract(check_contract: Any, rules: Nim) -> None:
    check_contract(rules)


def test_the_last_object_decides() -> None:
    last = State((0, 1), 1)
    (action,) = Nim((1, 1)).legal_actions(last)
    assert Nim((1, 1)).returns(Nim((1, 1)).apply(last, action)) == (1, -1)
    rules = Nim((1, 1), is_misere=False)
    assert rules.returns(rules.apply(last, action)) == (-1, 1)


def test_the_text_shows_the_piles_and_whose_turn_it_is() -> None:
    state = game.apply(
        game.initial_state(), game.parse(State((1, 3, 5, 7)), "take 2 from 4")
    )
    left = "Objects left: pile 1: 1, pile 2: 3, pile 3: 5, pile 4: 5."
    assert game.observe(state, 0) == f"You are player_0. {left} player_1 is to move."
    assert game.observe(state, 1) == f"You are player_1. {left} You are to move."


@pytest.mark.parametrize(("is_misere", "end"), [(True, "loses"), (False, "wins")])
def test_the_end_says_who_took_the_last_object(is_misere: bool, end: str) -> None:
    text = Nim((2, 1), is_misere).observe(State((0, 0), 1), 0)
    assert text.endswith(f"player_0 has taken the last object and {end}.")
    assert f"the last object of all {end}." in Nim((2, 1), is_misere).rules(0)


@pytest.mark.parametrize(
    "text",
    [
        *("take 3 from pile 2", "Remove 3 from 2", "pile:2, take:3;"),
        *("pile 2 take 3", "PILE 2, TAKE 3"),
    ],
)
def test_other_spellings_are_read(text: str) -> None:
    assert game.parse(game.initial_state(), text) == 2 * 4 + 1


@pytest.mark.parametrize(
    "text",
    [
        *("take 2 from pile 1", "take 0 from pile 1", "take 1 from pile 5", "2 3"),
        *("take 1 from pile 0", "take -1 from pile 2", "take 1", "take ² from pile 2"),
    ],
)
def test_what_is_not_there_cannot_be_taken(text: str) -> None:
    with pytest.raises(IllegalAction, match="want an action such as"):
        game.parse(game.initial_state(), text)


def test_the_features_tell_all_positions_apart() -> None:
    states = positions(game)
    for seat in range(2):
        seen = {game.features(state, seat).tobytes() for state in states}
        assert len(seen) == len(states)


def test_piles_may_come_as_a_list_as_in_records() -> None:
    params = json.loads(json.dumps({"pile_sizes": [2, 4]}))
    assert arena_envs.make_game("nim", **params) == Nim((2, 4))
    assert hash(Nim([2, 4])) == hash(Nim((2, 4)))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"pile_sizes": ()}, r"pile_sizes as a tuple of 1 to 10 integers, got \(\)"),
        ({"pile_sizes": "1;3"}, "pile_sizes as a tuple of 1 to 10 integers, got '1;3'"),
        ({"pile_sizes": 3}, "pile_sizes as a tuple of 1 to 10 integers, got 3"),
        ({"pile_sizes": (1,) * 11}, "pile_sizes as a tuple of 1 to 10"),
        ({"pile_sizes": (1, 0)}, r"integer pile_sizes\[1\] from 1 to 100, got 0"),
        ({"pile_sizes": (101,)}, r"integer pile_sizes\[0\] from 1 to 100, got 101"),
        ({"pile_sizes": (1.0,)}, r"integer pile_sizes\[0\] from 1 to 100, got 1.0"),
        ({"is_misere": 1}, "is_misere True or False, got 1"),
    ],
)
def test_impossible_parameters_are_refused(params: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Nim(**params)
