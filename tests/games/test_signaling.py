"""Signaling: its known values by brute force, and OpenSpiel's game."""

import random
from itertools import product
from typing import Any

import pytest

from arena_envs import IllegalAction
from arena_envs.games.signaling import LISTENER, SPEAKER, Signaling, State
from arena_envs.solvers import expected_returns, nash_conv, uniform_table

SIZES = [(3, 3), (4, 2), (2, 4), (1, 1)]


@pytest.mark.parametrize(("num_targets", "num_words"), SIZES)
def test_other_sizes_keep_the_contract(
    num_targets: int, num_words: int, check_contract: Any
) -> None:
    check_contract(Signaling(num_targets, num_words))


@pytest.mark.parametrize(("num_targets", "num_words"), [(3, 3), (4, 2), (5, 3)])
def test_the_tree_and_the_knowledge_to_move_are_those_of_openspiel(
    oracle: Any, num_targets: int, num_words: int
) -> None:
    pyspiel = pytest.importorskip("pyspiel")
    game = Signaling(num_targets, num_words)
    payoffs = [str(int(a == b)) for a in range(num_targets) for b in range(num_targets)]
    other_game = pyspiel.load_game(
        "lewis_signaling",
        {
            "num_states": num_targets,
            "num_messages": num_words,
            "payoffs": ",".join(payoffs),
        },
    )
    assert game.num_actions == other_game.num_distinct_actions()
    ours: dict[Any, Any] = {}
    theirs: dict[Any, Any] = {}

    def visit(state: State, other: Any) -> None:
        """Off turn, their speaker does not see the word that it has said."""
        seat = game.current_player(state)
        if seat >= 0:
            key = game.information_state(state, seat)
            other_key = other.information_state_string(seat)
            assert ours.setdefault(key, other_key) == other_key
            assert theirs.setdefault(other_key, key) == key

    start, other_start = game.initial_state(), other_game.new_initial_state()
    num_states = oracle.walk_tree(game, start, other_start, visit)
    assert num_states == 1 + num_targets * (1 + num_words * (1 + num_targets))
    assert len(ours) == num_targets + num_words


@pytest.mark.parametrize(("num_targets", "num_words"), [(3, 3), (3, 2), (2, 3), (4, 1)])
def test_the_best_code_names_as_many_targets_as_it_has_words(
    num_targets: int, num_words: int
) -> None:
    game = Signaling(num_targets, num_words)
    targets, words = range(num_targets), range(num_words)

    def mean(code: tuple[int, ...], guesses: tuple[int, ...]) -> float:
        ends = [
            State(target, code[target], guesses[code[target]]) for target in targets
        ]
        return sum(game.returns(end)[0] for end in ends) / num_targets

    codes = product(words, repeat=num_targets)
    pairs = product(codes, product(targets, repeat=num_words))
    assert (
        max(mean(*pair) for pair in pairs) == min(num_targets, num_words) / num_targets
    )


@pytest.mark.parametrize(("num_targets", "num_words"), SIZES)
def test_nobody_betters_random_play_alone(num_targets: int, num_words: int) -> None:
    game = Signaling(num_targets, num_words)
    table = uniform_table(game)
    assert expected_returns(game, table) == pytest.approx([1 / num_targets] * 2)
    assert nash_conv(game, table) == pytest.approx(0)


def test_the_listener_learns_the_target_only_from_words() -> None:
    game = Signaling()
    for view in (game.observe, game.information_state):
        assert len({view(State(target), LISTENER) for target in range(3)}) == 1
        assert len({view(State(target), SPEAKER) for target in range(3)}) == 3
        assert len({view(State(1, word), LISTENER) for word in range(3)}) == 3
    assert game.observe(State(1, 2), LISTENER) == (
        "The speaker said word 2. You are to guess the target."
    )


def test_a_wrong_guess_rules_its_target_out() -> None:
    game, rng = Signaling(), random.Random(0)
    for state, targets in [
        (State(1, 0), {0, 1, 2}),
        (State(1, 0, 2), {0, 1}),
        (State(1, 0, 1), {1}),
    ]:
        draws = {game.resample(state, LISTENER, rng).target for _ in range(50)}
        assert draws == targets
        assert game.resample(state, SPEAKER, rng) == state


def test_actions_are_read_with_or_without_verb_and_noun() -> None:
    game = Signaling(num_targets=5, num_words=2)
    for text in ("say 1", "SAY word 1", "word 1", "1"):
        assert game.parse(State(3), text) == 1
    for text in ("guess 4", "guess target 4", "target 4", "4"):
        assert game.parse(State(3, 1), text) == 4
    for state, text in [(State(3), "2"), (State(3), "guess 1"), (State(3, 1), "say 1")]:
        with pytest.raises(IllegalAction, match="want"):
            game.parse(state, text)


@pytest.mark.parametrize("name", ["num_targets", "num_words"])
@pytest.mark.parametrize("value", [0, 101, 2.0, None])
def test_a_parameter_out_of_range_is_refused(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"{name} from 1 to 100, got {value!r}"):
        Signaling(**{name: value})
