"""Guess the number: answers, texts, and the optimum by closed form and by search."""

import math
import random
from fractions import Fraction
from typing import Any

import pytest

import arena_envs
from arena_envs import TERMINAL, IllegalAction
from arena_envs.bots import make_bot
from arena_envs.games.guess_number import GuessNumber
from arena_envs.games.kits.questions import Search
from arena_envs.games.kits.secrets import State
from arena_envs.solvers import expected_returns, uniform_table

game = GuessNumber(num_ranges=1)
SIZES = [(2, 1), (3, 2), (7, 3), (8, 3), (20, 10), (37, 6)]


def played(bot: Any, rules: GuessNumber, secret: int) -> State:
    """The last state of a bot's episode."""
    state, rng = State(secret), random.Random(0)  # one tree for all secrets
    while rules.current_player(state) != TERMINAL:
        state = rules.apply(state, bot(rules, state, rng))
    return state


@pytest.mark.parametrize(("num_numbers", "max_guesses"), SIZES)
def test_the_closed_form_is_what_the_search_finds(
    num_numbers: int, max_guesses: int
) -> None:
    rules = GuessNumber(num_numbers, max_guesses, num_ranges=1)
    assert Search(rules).value() == pytest.approx(float(rules.best_value()))


def test_the_default_has_its_known_values() -> None:
    """By hand: 1 + 2 + 4 + 8 + 5 numbers are found by guesses 1 to 5, 74 guesses in all."""
    assert game.best_value() == Fraction(73, 100)
    assert game.best_value() == (11 - Fraction(74, 20)) / 10
    assert game.known_value == "optimal play 0.73; uniform random play 0.275"


@pytest.mark.parametrize(("num_numbers", "max_guesses"), [(2, 1), (3, 3), (4, 2)])
def test_uniform_play_has_its_known_value(num_numbers: int, max_guesses: int) -> None:
    rules = GuessNumber(num_numbers, max_guesses)
    value = expected_returns(rules, uniform_table(rules))[0]
    assert value == pytest.approx(float(rules.uniform_value()))


def test_uniform_play_is_as_long_as_the_page_says() -> None:
    num, most = game.num_numbers, game.max_guesses
    mean = sum(range(1, most + 1)) / num + most * (1 - most / num)
    assert mean == 7.75


@pytest.mark.parametrize(("num_numbers", "max_guesses"), SIZES)
@pytest.mark.parametrize("spec", ["information_gain", "question_tree"])
def test_bots_play_optimally(spec: str, num_numbers: int, max_guesses: int) -> None:
    rules, bot = GuessNumber(num_numbers, max_guesses), make_bot(spec)
    ends = [played(bot, rules, secret) for secret in range(num_numbers)]
    mean = sum(rules.returns(end)[0] for end in ends) / num_numbers
    assert mean == pytest.approx(float(rules.best_value()))


def test_a_large_game_is_played_by_halves() -> None:
    large = GuessNumber(255, 8)
    end = played(make_bot("information_gain"), large, 254)
    assert len(end.asked) == 8
    assert large.is_found(end)


def test_answers_are_shown_in_order_and_the_number_at_the_end() -> None:
    rules = GuessNumber(9, 3)
    state = State(5, (2, 7))
    assert rules.observe(state, 0) == (
        "You are player_0.\nGuess 1: 3 is too low.\nGuess 2: 8 is too high.\n"
        "You are to make guess 3 of 3: a number from 1 to 9."
    )
    assert rules.candidates(state) == [3, 4, 5, 6]
    found = rules.apply(state, 5)
    assert rules.observe(found, 0).endswith(
        "Guess 3: 6 is right.\nThe number was 6. The game is over: your score is 0.3333."
    )
    assert rules.returns(found) == (1 / 3,)
    assert rules.measures(found) == {"success": 1.0, "information": 1.0}
    missed = rules.apply(state, 4)
    assert rules.returns(missed) == (0.0,)
    assert rules.measures(missed)["success"] == 0.0
    left = 1 - math.log(2) / math.log(9)  # 6 and 7
    assert rules.measures(missed)["information"] == pytest.approx(left)


def test_a_redrawn_number_fits_the_answers() -> None:
    rules, rng = GuessNumber(9, 3), random.Random(0)
    state = State(5, (2, 7))
    drawn = {rules.resample(state, 0, rng).secret for _ in range(100)}
    assert drawn == {3, 4, 5, 6}


def test_other_spellings_are_read() -> None:
    state = State(5, (2,))
    for text in ("guess 7", "7", "I guess 7.", " The number  is 7", "number 7"):
        assert game.parse(state, text) == 6
    for text in ("3", "21", "guess"):
        with pytest.raises(IllegalAction, match=rf"such as 'guess 1', got '{text}'"):
            game.parse(state, text)


def test_a_range_is_told_and_guessed_in() -> None:
    rules = GuessNumber(split="test")
    state = rules.apply(rules.initial_state(), 25)  # number 6 of the second range
    first = rules.before(state) + 1
    assert f"a number from {first} to {first + 19}." in rules.observe(state, 0)
    with pytest.raises(IllegalAction, match="want a number of the range"):
        rules.parse(state, "guess 5")
    state = rules.apply(state, rules.parse(state, f"guess {first + 5}"))
    assert rules.returns(state) == (1.0,)
    assert set(rules.instances).isdisjoint(GuessNumber().instances)


@pytest.mark.parametrize(
    "params", [{"num_numbers": 2, "max_guesses": 1}, {"num_numbers": 30}]
)
def test_other_sizes_keep_the_contract(params: Any, check_contract: Any) -> None:
    check_contract(GuessNumber(**params))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"num_numbers": 1}, "want an integer num_numbers from 2 to 1000, got 1"),
        ({"max_guesses": 21}, "want an integer max_guesses from 1 to 20, got 21"),
        ({"max_guesses": 2.0}, "max_guesses from 1 to 20, got 2.0"),
    ],
)
def test_parameters_out_of_range_are_refused(params: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        arena_envs.make_game("guess_number", **params)
