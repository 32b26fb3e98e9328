r"""Lists of words for games, and the words that a text says, whatever their case and spelling.

A list ships with the package, is a file or a sequence of words. `words_of` and `said_among` read
what players write:

1. A text is read in lower case, without accents and invisible characters. Full-width and styled
   letters, and letters of Cyrillic and Greek that look like Latin ones, are read as Latin letters;
   `0 1 3 4 5 7 @ $` as `o i e a s t a s`, and `1` also as `l`.
2. A word is a run of the letters a to z. Neighbouring runs that `- _ . ' *` join make a word
   too, and so do single letters in a row, as in "d o g".
3. A word has forms: plurals (-s, -es, -ies, -ves, and common irregular ones), verb forms (-ed,
   -ing, with or without a doubled consonant), and itself without a final s.

Parts of longer words do not count: "education" does not say "cat", and "doghouse" not "dog".

>>> sorted(words_of("Ca\u0301ts and d-o-g!"))
['and', 'cats', 'd', 'do', 'dog', 'g', 'o', 'og']
>>> said_among("Two Wo1ves, no dogma", ["dog", "wolf"])
'wolf'
"""

import csv
import re
import tomllib
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from arena_envs.checks import errors
from arena_envs.game import SPLITS, check_int, of_split
from arena_envs.trust import require_operator

wrong = errors(__name__)

NAMES = ("five_letters", "nouns")  # of the shipped lists, arena_envs/words/*.txt
WORD = re.compile("[a-z]+(?:[ '-][a-z]+)*")
MAX_WORDS = 10_000

T = TypeVar("T")
Rows = Sequence[Sequence[str]]


def read_words(
    param: str, source: str | Path | Sequence[str], *, min_words: int = 1
) -> tuple[str, ...]:
    """The words of a list, in its order.

    Args:
        param: name of the game's parameter, for error messages.
        source: name of a shipped list, one of `NAMES`; or the path of a UTF-8 file with one
            word per line; or the words themselves.
        min_words: the fewest words that will do.

    Raises:
        ValueError: there is no such list or file, there are too few or too many words, or
            one is empty, stands twice or is not made of the letters a to z, with single
            blanks, hyphens or apostrophes between them. Names the file and the line.

    >>> read_words("words", ("sun", "tea cup"))
    ('sun', 'tea cup')
    >>> len(read_words("words", "nouns")) > 400
    True
    """
    if isinstance(source, str | Path):
        where = f"{param} ({source}), line"
        names = f"the name of a list ({', '.join(NAMES)})"
        words: Sequence[str] = (
            _shipped(f"{source}.txt")
            if source in NAMES
            else _lines_of(param, source, names, "word", iter)
        )
    elif isinstance(source, Sequence):
        where, words = f"{param}, word", source
    else:
        raise wrong("words", param=param, listed=", ".join(NAMES), source=source)
    check_words(words, where)
    if not min_words <= len(words) <= MAX_WORDS:
        raise ValueError(
            f"want {min_words} to {MAX_WORDS:,} words in {param}, got {len(words)}"
        )
    return tuple(words)


@cache
def linked_words() -> dict[str, frozenset[str]]:
    """The words that people link with a noun, by noun, from the list `taboo`."""
    return {row[0]: frozenset(row[1:]) for row in shipped_rows("taboo")}


@cache
def shipped_rows(name: str) -> tuple[tuple[str, ...], ...]:
    """The rows of a shipped table, `arena_envs/words/*.csv`, which the tests have checked."""
    return tuple(map(tuple, csv.reader(_shipped(f"{name}.csv"))))


def rows_of(
    param: str, source: str | Path | Rows, shipped: str, row: str
) -> tuple[Rows, str]:
    """The rows of a table, and where a row stands, without its number.

    Args:
        param: name of the game's parameter, for error messages.
        source: path of a UTF-8 file of comma-separated values, or the rows themselves.
        shipped: name of the table that ships with the package, for error messages.
        row: what a row is, such as "card".

    Raises:
        ValueError: there is no such file, or `source` is something else.
    """
    if isinstance(source, str | Path):
        line = f"{row}, with commas between words"
        rows = _lines_of(param, source, repr(shipped), line, csv.reader)
        return rows, f"{param} ({source}), line"
    if not isinstance(source, Sequence) or not all(
        isinstance(each, Sequence) and not isinstance(each, str) for each in source
    ):
        raise wrong("rows", param=param, shipped=shipped, row=row, source=source)
    return source, f"{param}, {row}"


@cache
def word_lists() -> dict[str, Any]:
    """The lists of `arena_envs/words/clues.toml`, by name."""
    return tomllib.loads("\n".join(_shipped("clues.toml")))


def _shipped(file: str) -> list[str]:
    text = (resources.files("arena_envs") / "words" / file).read_text(encoding="utf-8")
    return text.splitlines()


def _lines_of(
    param: str,
    source: str | Path,
    names: str,
    line: str,
    read: Callable[[list[str]], Iterable[T]],
) -> list[T]:
    require_operator(param, str(source), "open a file")
    try:
        return list(read(Path(source).read_text(encoding="utf-8").splitlines()))
    except (OSError, ValueError, csv.Error) as error:
        raise ValueError(
            f"want {param} as {names} or the path of a UTF-8 file with one {line} per line, "
            f"got {str(source)[:300]!r}: {error}"
        ) from error


def check_used(name: str, value: object, low: int, source: str, length: int) -> None:
    """Refuses a number of rows to use that is below `low` or that a list does not have.

    Args:
        name: of the parameter, which may have its default.
        value: of the parameter.
        low: the least value.
        source: what has the rows, for error messages.
        length: the number of its rows.

    Raises:
        ValueError: names the parameter to give.
    """
    try:
        check_int(name, value, low, length)
    except ValueError as error:
        raise ValueError(f"{error}; {source} has {length}: give {name}") from None


def of_list(
    param: str, rows: Sequence[T], split: str, *, is_shipped: bool
) -> tuple[T, ...]:
    """What a split draws from: half of a shipped list; of a list of one's own, all for training.

    Args:
        param: name of the game's parameter that has the list, for error messages.
        rows: of the list.
        split: "train" or "test".
        is_shipped: whether the list ships with the package.

    Raises:
        ValueError: another split, or "test" with a list of one's own.
    """
    if is_shipped or split not in SPLITS:
        return of_split(rows, split)
    if split != "train":
        raise wrong("own_split", param=param, split=split)
    return tuple(rows)


def check_words(words: Iterable[object], where: str, after: str = "") -> None:
    """Raises if a word is malformed or stands twice.

    Args:
        words: of the list.
        where: says where a word stands, up to its number.
        after: what follows the number.
    """
    first: dict[str, int] = {}
    for number, word in enumerate(words, 1):
        place = f"{where} {number}{after}"
        if not isinstance(word, str) or not WORD.fullmatch(word):
            raise wrong("letters", place=place, word=word)
        if word in first:
            raise wrong("twice", place=place, word=word, first=first[word])
        first[word] = number


# ruff: noqa: RUF001 (a table of characters that look alike)

_ALIKE = str.maketrans(
    "абвгсԁеһніјкӏмопрԛѕтухѵԝАВСЕНІЈКМОРЅТУХαβγεηικνορτυχωΑΒΕΖΗΙΚΜΝΟΡΤΥΧıɑɡ03457@$",
    "abbrcdehhijklmonpqstyxvwabcehijkmopstyxabyenikvoptuxwabezhikmnoptyxiagoeastas",
)
_PARTS = re.compile("[a-z]+")
_JOINED = re.compile(r"(?<![a-z])[a-z]+(?:[-_.'’*]+[a-z]+)+")
_SPACED = re.compile(r"(?<![a-z])[a-z](?:[^a-z0-9]{1,3}[a-z](?![a-z]))+")
_LONGEST = 24  # letters of a word that is put together


@lru_cache(4096)
def words_of(text: str) -> frozenset[str]:
    """The words that a text says, by rules 1 and 2."""
    plain = "".join(
        char
        for char in unicodedata.normalize("NFKD", text)
        if char.isspace() or unicodedata.category(char) not in ("Mn", "Me", "Cf", "Cc")
    )
    plain = plain.translate(_ALIKE).casefold()
    words: set[str] = set()
    for reading in {plain.replace("1", "i"), plain.replace("1", "l")}:
        words.update(_PARTS.findall(reading))
        for pattern in (_JOINED, _SPACED):
            for run in pattern.findall(reading):
                words.update(_put_together(_PARTS.findall(run)))
    return frozenset(words)


def _put_together(parts: Sequence[str]) -> Iterator[str]:
    """All words that neighbouring parts make."""
    for start in range(len(parts)):
        word = ""
        for part in parts[start:]:
            word += part
            if len(word) > _LONGEST:
                break
            yield word


@lru_cache(8192)
def forms(word: str) -> frozenset[str]:
    """The forms of a word, by rule 3."""
    found = {word, f"{word}s", word_lists()["plurals"].get(word, word)}
    if word.endswith(("s", "x", "z", "ch", "sh", "o")):
        found.add(f"{word}es")
    if word.endswith("y"):
        found |= {f"{word[:-1]}ies", f"{word[:-1]}ied"}
    if word.endswith(("f", "fe")):
        found.add(f"{word.rstrip('e')[:-1]}ves")
    if word.endswith("s") and not word.endswith("ss") and len(word) > 3:
        found.add(word[:-1])
    if len(word) < 3:
        return frozenset(found)
    stems = {word, word + word[-1]} if word[-1] not in "aeiouwxy" else {word}
    if word.endswith("e") and not word.endswith("ee"):
        stems = {word[:-1]}
    found |= {f"{stem}{ending}" for stem in stems for ending in ("ed", "ing")}
    return frozenset(found)


def said_among(text: str, words: Iterable[str]) -> str | None:
    """The first of some words that a text says in any form; None if it says none."""
    said = words_of(text)
    return next((word for word in words if not said.isdisjoint(forms(word))), None)
