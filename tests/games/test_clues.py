"""The referee of clues: human clues pass; codes, parts and spellings do not."""

import base64
import random
from pathlib import Path

import pytest

from arena_envs.games.kits.clues import fault_of, heard, vocabulary
from arena_envs.games.kits.words import read_words
from arena_envs.games.taboo import read_rows

HUMAN = Path(__file__).parent / "human_clues.csv"  # a word, and a clue of a person
CARDS = {row[0]: row for row in read_rows("cards", "taboo")}


def test_nearly_all_clues_of_people_pass() -> None:
    """Sentences beside cards of taboo, and at last 100 words beside boards of 25."""
    rows = [line.split(",", 1) for line in HUMAN.read_text("utf-8").splitlines()]
    nouns, passed = read_words("words", "nouns"), 0
    for number, (word, clue) in enumerate(rows):
        if number < len(rows) - 100:
            banned = [word, *CARDS.get(word, ())[2:5]]
            passed += not fault_of(clue, banned, secret=word)
        else:
            others = [noun for noun in nouns if noun != word]
            board = [word, *random.Random(number).sample(others, 24)]
            passed += not fault_of(clue, board, numbers=0)
    assert len(rows) >= 300
    assert passed / len(rows) >= 0.95


@pytest.mark.parametrize("word", ["dog", "apple", "kitchen", "umbrella"])
def test_tricks_with_letters_are_refused(word: str) -> None:
    tricks = {
        "dropped": word[0] + word[2:] if word != "dog" else "dg",
        "doubled": word[:2] + word[1:],
        "swapped": word[1] + word[0] + word[2:],
        "reversed": word[::-1],
        "base64": base64.b64encode(word.encode()).decode(),
        "numbers": "2".join(word),
        "and": " and ".join(word),
        "spelled": " ".join(word),
        "capitals": "-".join(word.upper()),
        "positions": " ".join(str(ord(letter) - 96) for letter in word),
        "plural": f"{word}s",
        "itself": f"a fine {word.upper()}",
    }
    assert {
        name for name, clue in tricks.items() if not fault_of(clue, [word])
    } == set()


@pytest.mark.parametrize(
    ("clue", "fault"),
    [
        ("delta oscar golf", "it spells 'dog'"),
        ("drum and oval and green", "it spells 'dog'"),
        ("dee oh gee", "it spells 'dog'"),
        ("told hello dig", "it spells 'dog'"),
        ("four fifteen seven", "it has 3 numbers"),
        ("wet wet wet", "it says 'wet' 3 times"),
    ],
)
def test_words_that_spell_or_count_are_refused(clue: str, fault: str) -> None:
    assert fault_of(clue, ["dog"], secret="dog").startswith(fault)


def test_words_of_earlier_clues_count() -> None:
    spelled = fault_of("green", secret="dog", earlier=["drum", "old"])
    assert spelled == "it spells 'dog'"
    assert not fault_of("green", secret="dog", earlier=["drum", "red"])


def test_a_secret_may_not_lose_a_letter() -> None:
    assert "spelled like" in fault_of("bar", ["bark"], secret="bark")
    assert not fault_of("bar", ["bark"])


@pytest.mark.parametrize(
    ("clue", "word", "refused"),
    [
        *(
            ("book", "bookshelf", 1),
            ("bookshelf", "book", 1),
            ("shelves", "bookshelf", 1),
        ),
        *(("ring", "booking", 0), ("booking", "book", 1), ("ring", "book", 0)),
        *(("king", "book", 0), ("catalog", "cat", 0), ("carpet", "car", 0)),
        *(("sunny", "sun", 1), ("doggy", "dog", 1), ("baker", "bake", 1)),
        *(
            ("butter", "butterfly", 1),
            ("fly", "butterfly", 1),
            ("horseshoes", "shoe", 1),
        ),
        *(("beard", "bear", 0), ("beans", "beaks", 1), ("beers", "bears", 1)),
        *(("mice", "mouse", 1), ("knives", "knife", 1), ("strawberries", "berry", 1)),
    ],
)
def test_parts_forms_and_spellings(clue: str, word: str, refused: int) -> None:
    assert bool(fault_of(clue, [word])) == bool(refused)


def test_words_of_seven_letters_may_not_differ_in_two() -> None:
    assert "spelled like" in fault_of("battles", ["kettles"])
    assert not fault_of("battle", ["kettles"])  # a headword


def test_a_clue_is_heard_as_its_words_alone() -> None:
    assert heard(" It's a X-ray: Caf\u00e9, (my FOUR-legged)!") == (
        "it's a x-ray cafe my four legged"
    )
    assert heard("a **big** `one`") == "a big one"
    assert heard("\u72d7 Hund") == "\u72d7 Hund"
    assert all(fault_of(clue, ["dog"]) for clue in ("\u72d7", "", "?"))


def test_the_vocabulary_has_words_but_no_codes() -> None:
    words = vocabulary()
    assert [words[word] for word in ("beard", "beards", "christmas")] == [1, 0, 0]
    assert not {"b", "ab", "xyz", "adj", "viii", "bcd"} & words.keys()
    assert all(word.isalpha() and word.isascii() for word in words)
    assert {*read_words("words", "nouns")} <= words.keys()


def test_a_clue_that_was_heard_is_heard_as_itself():
    for clue in ("x-ray", "plain: \0", "a\0b", "it's; x-ray-"):
        assert heard(heard(clue)) == heard(clue)
