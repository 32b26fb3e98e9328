"""Wordle: marks by hand, texts, lists, and the optimum by exact search."""

import random
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

import arena_envs
from arena_envs import IllegalAction
from arena_envs.bots import make_bot
from arena_envs.games.kits.questions import Search
from arena_envs.games.kits.secrets import State
from arena_envs.games.wordle import Wordle

game = Wordle()
WORDS = ("bat", "cat", "hat", "tab", "tin", "tan", "nab")


@pytest.mark.parametrize(
    ("word", "guess", "marks"),
    [
        ("crane", "crane", "G G G G G"),
        ("crane", "moldy", "- - - - -"),
        # one e of two guessed is in the word, and it stands elsewhere: the first gets Y
        ("abide", "speed", "- - Y - Y"),
        # two e in the word, both elsewhere
        ("erase", "speed", "Y - Y Y -"),
        # the one e is in its place, so the other e gets nothing
        ("steal", "speed", "G - G - -"),
        # an e in its place, and another one elsewhere
        ("crepe", "speed", "- Y G Y -"),
        # the G goes to the later e although an e comes before it
        ("those", "geese", "- - - G G"),
        ("abbey", "babes", "Y Y G G -"),
        ("allow", "llama", "Y G Y - -"),
        # a word with more equal letters than the guess
        ("error", "racer", "Y - - Y G"),
    ],
)
def test_marks_are_those_worked_out_by_hand(word: str, guess: str, marks: str) -> None:
    rules = Wordle(2, 2, words=(word, guess if guess != word else "zzzzz"))
    secret, action = rules.listed.index(word), rules.listed.index(guess)
    assert rules.marks_text(rules.answer(secret, action)) == marks


def brute_force(rules: Wordle) -> float:
    """Expected return of optimal play; knows nothing of the bots."""
    most, words = rules.max_guesses, range(rules.num_words)

    @cache
    def best(left: frozenset[int], turn: int) -> int:
        if turn > most:
            return 0
        values = []
        for guess in words:
            parts = defaultdict[int, set[int]](set)
            for secret in left:
                parts[rules.answer(secret, guess)].add(secret)
            if len(parts) > 1 or guess in left:
                rest = [frozenset(part - {guess}) for part in parts.values()]
                paid = (most + 1 - turn) * (guess in left)
                values.append(paid + sum(best(p, turn + 1) for p in rest if p))
        return max(values)

    return best(frozenset(words), 1) / most / rules.num_words


@pytest.mark.parametrize("max_guesses", [1, 2, 3, 6])
def test_the_search_is_exact(max_guesses: int) -> None:
    rules = Wordle(7, max_guesses, words=WORDS)
    assert Search(rules).value() == pytest.approx(brute_force(rules))


def test_optimal_and_uniform_play_have_their_known_values() -> None:
    best, uniform = Search(game).value(), float(game.uniform_value())
    assert game.known_value == (
        f"optimal play {best:.6g}; uniform random play {uniform:.6g}"
    )
    assert 7 - 6 * best == pytest.approx(2.28)
    assert sum(range(1, 7)) / 50 + 6 * (1 - 6 / 50) == pytest.approx(5.7)


@pytest.mark.slow
def test_optimal_play_with_200_words_has_its_known_value() -> None:
    best = Search(Wordle(200)).value()
    assert best == pytest.approx(0.719167, abs=1e-6)
    assert 7 - 6 * best == pytest.approx(2.685)


def guesses(bot: Any, rules: Wordle, left: list[int], *asked: int) -> Iterator[int]:
    """How many guesses a bot needs for each of these words, which fit all marks so far."""
    state = State(left[0], asked)
    action, parts = (
        bot(rules, state, random.Random(0)),
        defaultdict[int, list[int]](list),
    )
    for secret in left:
        parts[rules.answer(secret, action)].append(secret)
    for part in parts.values():
        if part == [action]:
            yield len(asked) + 1
        else:
            yield from guesses(bot, rules, part, *asked, action)


@pytest.mark.parametrize(
    ("spec", "most"), [("information_gain", 2.4), ("question_tree", 2.34)]
)
def test_bots_find_every_word_of_the_default_list(spec: str, most: float) -> None:
    needed = list(guesses(make_bot(spec), game, list(range(50))))
    assert len(needed) == 50
    assert sum(needed) / 50 <= most
    assert max(needed) <= 4


@pytest.mark.slow
@pytest.mark.parametrize(("split", "mean"), [("train", 2.705), ("test", 2.735)])
def test_information_gain_finds_every_shipped_word(split: str, mean: float) -> None:
    """The optimum is unknown: 200 words are too many for the search."""
    large = Wordle(200, split=split)
    needed = list(guesses(make_bot("information_gain"), large, list(range(200))))
    assert len(needed) == 200
    assert sum(needed) / 200 == mean
    assert max(needed) == 4


def test_marks_are_shown_in_order_and_the_word_at_the_end() -> None:
    rules = Wordle(7, 2, words=WORDS)
    assert rules.listed == ("bat", "cat", "hat", "nab", "tab", "tan", "tin")
    state = State(0, (4,))
    assert rules.observe(state, 0) == (
        "You are player_0.\nGuess 1: tab, marks Y G Y\n"
        "You are to make guess 2 of 2: one of the listed words."
    )
    assert rules.candidates(state) == [0]
    found = rules.apply(state, rules.parse(state, "I guess BAT."))
    assert rules.returns(found) == (0.5,)
    assert rules.observe(found, 0).endswith(
        "Guess 2: bat, marks G G G\nThe word was: bat. The game is over: your score is 0.5."
    )
    for text, why in (("tab", "not legal now"), ("dog", "names no action")):
        with pytest.raises(
            IllegalAction, match=f"such as 'bat', got '{text}': it .*{why}"
        ):
            rules.parse(state, text)


def test_features_are_letters_and_marks() -> None:
    rules = Wordle(7, 2, words=WORDS)
    values = rules.features(State(0, (4,)), 0).reshape(2, 3, 29)
    assert not values[1].any()
    shown = [values[0, place].nonzero()[0].tolist() for place in range(3)]
    assert shown == [[19, 27], [0, 28], [1, 27]]  # t Y, a G, b Y


@pytest.mark.parametrize(
    "rules", [Wordle(2, 1), Wordle(7, 7, words=WORDS)], ids=["smallest", "own words"]
)
def test_other_lists_keep_the_contract(rules: Wordle, check_contract: Any) -> None:
    check_contract(rules)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"num_words": 1}, "want an integer num_words from 2 to 200, got 1"),
        ({"max_guesses": 51}, "want an integer max_guesses from 1 to 50, got 51"),
        (
            {"words": ["sun", "moon"]},
            "2 to 8 letters, got 'moon' as word 2 after 'sun'",
        ),
        ({"words": ["to be", "again"]}, "got 'to be' as word 1"),
        ({"words": ["sun", "sun"]}, "words, word 2: 'sun' stands at 1 already"),
        ({"words": ["sun", "day"]}, "num_words from 2 to 2, got 50"),
        ({"words": ["a", "b"]}, "2 to 8 letters, got 'a'"),
        ({"words": "five_leters"}, "want words as the name of a list"),
    ],
)
def test_parameters_out_of_range_are_refused(params: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        arena_envs.make_game("wordle", **params)
