"""Lists of words: the shipped ones, files and sequences, and what is refused."""

import re
from pathlib import Path
from typing import Any

import pytest

from arena_envs import make_game
from arena_envs.games.kits.words import NAMES, read_words

FOLDER = Path(__file__).parents[2] / "arena_envs" / "words"


def test_the_shipped_lists_are_those_of_the_folder_and_its_page() -> None:
    if not FOLDER.exists():
        pytest.skip("the sources are elsewhere")
    names = sorted(path.stem for path in FOLDER.glob("*.txt"))
    assert names == sorted((*NAMES, "plain"))  # which `disguise` reads
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert all(f"`{name}.txt`" in page for name in names)


def test_nouns_are_single_words_in_alphabetical_order() -> None:
    nouns = read_words("words", "nouns")
    assert len(nouns) >= 400
    assert list(nouns) == sorted(nouns)
    assert all(word.isalpha() for word in nouns)


def test_words_of_five_letters_have_five_letters() -> None:
    words = read_words("words", "five_letters")
    assert len(words) == 400
    assert {len(word) for word in words} == {5}


def test_a_file_is_read_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "own.txt"
    path.write_text("tea cup\nsun\n", encoding="utf-8")
    for source in (path, str(path), ["tea cup", "sun"]):
        assert read_words("words", source) == ("tea cup", "sun")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "sun\n\nmoon\n",
            r"own.txt\), line 2: want a word .* got ''; correct or delete",
        ),
        ("sun\nmoon\nsun", r"own.txt\), line 3: 'sun' stands at 1 already; delete one"),
        ("Sun\n", "line 1: want a word of the letters a to z, .* got 'Sun'"),
        ("sun \n", "line 1: want a word .* got 'sun '"),
        ("b\u00e4r\n", "line 1: want a word"),
        ("sun\n", "want 2 to 10,000 words in words, got 1"),
    ],
)
def test_a_file_with_errors_is_refused_with_its_line(
    text: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "{}my{own.txt"  # no field of a message
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_words("words", path, min_words=2)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (("sun", ""), "words, word 2: want a word .* got ''"),
        (("sun", 7), "words, word 2: want a word .* got 7"),
        (("sun", "moon", "sun"), "words, word 3: 'sun' stands at 1 already"),
        ("norns", r"name of a list \(five_letters, nouns\) or the path .*'norns'"),
        ("a\0b", "want words as the name of a list"),
        (7, "a sequence of words, got 7"),
        ((), "want 1 to 10,000 words in words, got 0"),
    ],
)
def test_other_sources_are_refused(source: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_words("words", source)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "own.txt"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match=re.escape("own.txt")):
        read_words("words", path)


def test_a_list_that_is_too_short_for_a_default_names_the_parameter_to_give() -> None:
    table = [["thing", "big", "old"], ["cow", "yes", "no"], ["sun", "yes", "yes"]]
    for id, source, rows, number in (
        ("codenames", "words", ["sun", "moon", "tree", "car", "dog"], "num_words"),
        ("wordle", "words", ["aback", "abase", "abate"], "num_words"),
        (
            "taboo",
            "cards",
            [["ship", "bay", "oar"], ["hay", "cow", "oat"]],
            "num_cards",
        ),
        ("referential", "attributes", [["red", "blue"]], "num_attributes"),
        ("twenty_questions", "table", table, "num_things"),
    ):
        message = f"want an integer {number} from .*; {source} has .: give {number}$"
        with pytest.raises(ValueError, match=message):
            make_game(id, **{source: rows})
