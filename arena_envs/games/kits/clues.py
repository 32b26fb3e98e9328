r"""The referee of clues: which messages may hint at a word without writing it.

`heard` reads a message as its words in lower case, without punctuation. `fault_of` says what is
wrong with a clue, by these rules:

1. It consists of words of the vocabulary `arena_envs/words/vocabulary.csv`, with at most two numbers
   from 2 on, or none where a game says so.
   Hyphens join words; `x-ray`, `t-shirt` and `u-turn` are the only words with single letters.
2. It says no banned word in any form or disguise (`arena_envs.games.kits.words`).
3. No word of it is a part of a banned word, or the other way round. A part leaves a word of three
   letters or more: "shelf" is a part of "bookshelf", "ring" none of "booking". A word with
   `SUFFIXES`, such as "sunny", has the first word as its part.
4. No word is spelled like a banned word: with one letter more, less, other or swapped, or with
   two where both have seven letters or more. Headwords of the vocabulary may be: "beard" may hint at
   "bear", "beans" may not hint at "beaks". No word is a banned word backwards, or an anagram of
   four letters or more.
5. No word is the secret word with a letter more or less, and the clue does not spell it: neither initials, last letters nor names of letters of words in a row
   do so, with "and" or other small words between them or without, nor do words without blanks.
   The words of earlier clues count. No word but a small one stands three times.

>>> fault_of("It grows on your shin", ["beard", "chin"])
''
>>> fault_of("d2o2g", ["dog"]), fault_of("dotted old goose", secret="dog")
('something in it is no word of the letters a to z', "it spells 'dog'")
>>> fault_of("shelves", ["bookshelf"]), fault_of("brk", ["bark"])
("'shelves' is a part of 'bookshelf'", "'brk' is not in the vocabulary")
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Sequence
from functools import cache, lru_cache
from importlib import resources

from arena_envs.games.kits.words import forms, said_among, word_lists

MAX_NUMBERS = 2  # of a clue


_LISTS = word_lists()
SUFFIXES, SMALL, NUMBERS, WHOLE, _CHANCE = (
    frozenset(_LISTS[name].split())
    for name in ("suffixes", "small", "numbers", "whole", "chance")
)
_LETTERS = {
    word: letter
    for letter, words in _LISTS["letters"].items()
    for word in words.split()
}
_MARKS = re.compile(r"""[\s.,;:!?"()/*_~#`\u2013\u2014\u2026\u201c\u201d-]+""")
_JOINED = re.compile(r"(?<![\w-])(?:x-ray|t-shirt|u-turn)(s?)(?![\w-])")
_TAIL = re.compile(r"(?:n't|'(?:s|re|ve|ll|d|m)?)$")


@cache
def vocabulary() -> dict[str, bool]:
    """The words that clues consist of; whether each is a headword, not a form or a name."""
    file = resources.files("arena_envs") / "words" / "vocabulary.csv"
    lines = file.read_text(encoding="utf-8").split()
    return {line.rstrip("*"): line[-1] != "*" for line in lines}


@lru_cache(4096)
def heard(text: str) -> str:
    """The words of a clue in lower case with single blanks, as the other players read it.

    A text that has other letters than a to z is left as it is; no such clue may be given.
    """
    if "\0" in text:  # it stands for a hyphen below
        return text
    plain = unicodedata.normalize("NFKD", text).replace("\u2019", "'").casefold()
    plain = "".join(char for char in plain if unicodedata.category(char) != "Mn")
    plain = _JOINED.sub(lambda found: found[0].replace("-", "\0"), plain)
    words = (word.strip("'") for word in _MARKS.split(plain))
    clean = " ".join(word for word in words if word).replace("\0", "-")
    return clean if clean.isascii() and 0 < len(clean) <= len(text) else text


def fault_of(
    clue: str,
    banned: Sequence[str] = (),
    *,
    secret: str = "",
    earlier: Sequence[str] = (),
    allowed: Collection[str] = (),
    numbers: int = MAX_NUMBERS,
) -> str:
    """What is wrong with a clue, in a few words; empty if it may be given.

    Args:
        clue: anything.
        banned: words of the letters a to z.
        secret: the banned word that the clue hints at, if there is one.
        earlier: clues of the same player that were given before.
        allowed: words that count as words of the vocabulary.
        numbers: the most numbers that the clue may have.
    """
    alone = _fault_alone(clue, tuple(banned), secret, frozenset(allowed), numbers)
    if alone or not secret:
        return alone
    words = heard(clue).split()
    spells = _spells(" ".join([*map(heard, earlier), *words]), words, secret)
    return f"it spells {secret!r}" if spells else ""


@lru_cache(32_768)
def _fault_alone(
    clue: str,
    banned: tuple[str, ...],
    secret: str,
    allowed: frozenset[str],
    numbers: int,
) -> str:
    """What is wrong with a clue whatever was said before; see `fault_of`."""
    words = heard(clue).split()
    if not words:
        return "it has no word"
    if banned_word_in_clue := said_among(clue, banned):
        return f"it says {banned_word_in_clue!r}"
    for word in words:
        if word not in allowed and (fault := _no_word(word)):
            return fault
    num = sum(word.isdigit() or word in NUMBERS for word in words)
    if num > numbers:
        return f"it has {num} numbers, and {numbers} may stand in a clue"
    for word in words:
        for banned_word in banned:
            if fault := _too_close(word, banned_word):
                return f"{word!r} is {fault} {banned_word!r}"
    for word, times in Counter(words).items():
        if times > 2 and word not in SMALL:
            return f"it says {word!r} {times} times"
    for word in words if secret else ():
        is_near = abs(len(word) - len(secret)) == 1 == _distance(word, secret)
        if word not in SMALL and is_near:
            return f"{word!r} is spelled like {secret!r}"
    return ""


def _no_word(word: str) -> str:
    plain = _TAIL.sub("", word)
    if word.isdigit() and word.isascii() and len(word) < 5:
        return ""
    if not re.fullmatch("[a-z]+(-[a-z]+)?", plain):
        return "something in it is no word of the letters a to z"  # hostile text, not shown
    word_values = vocabulary()
    if (
        plain in word_values
        or "-" in plain
        or (word.endswith("n't") and plain in ("ca", "wo"))
    ):
        return ""
    return f"{word[:20]!r} is not in the vocabulary"


@lru_cache(65_536)
def _too_close(word: str, banned: str) -> str:
    """What a word of a clue is to a banned word; empty if it is far enough."""
    word = _TAIL.sub("", word)
    if word in SMALL and word != banned:
        return ""
    if word in forms(banned) or banned in forms(word):
        return "a form of"
    if _is_part(word, banned):
        return "a part of"
    if _is_part(banned, word):
        return "made of"
    limit = 2 if min(len(word), len(banned)) >= 7 else 1
    if not vocabulary().get(word) and _distance(word, banned) <= limit:
        return "spelled like"
    is_anagram = len(word) > 3 and sorted(word) == sorted(banned)
    return "an anagram of" if is_anagram or word == banned[::-1] else ""


def _is_part(part: str, whole: str) -> bool:
    """Whether a word, in the singular too, is a part of another."""
    return any(
        _leaves_word(short, long)
        for long in _singulars(whole)
        if long not in WHOLE and len(long) > len(part) - 2
        for short in _singulars(part)
        if 3 <= len(short) < len(long)
    )


def _singulars(word: str) -> set[str]:
    singulars = {word, word.removesuffix("s"), word.removesuffix("es")}
    if word.endswith("ves"):
        singulars |= {f"{word[:-3]}f", f"{word[:-3]}fe"}
    if word.endswith("ies"):
        singulars.add(f"{word[:-3]}y")
    return {singular for singular in singulars if len(singular) > 2}


def _leaves_word(short: str, long: str) -> bool:
    """Whether a word begins or ends with another and the rest is a word, too."""
    word_values = vocabulary()
    if long.endswith(("ing", "ed")):  # "booking" has no king
        stem = re.sub("(ing|ed)$", "", long)
        if {stem, f"{stem}e", stem[:-1]} & word_values.keys():
            return False
    remainder = long.removeprefix(short)
    ending = remainder
    if remainder == long:
        remainder, ending = long.removesuffix(short), short
    elif remainder in SUFFIXES or (
        remainder[1:] in SUFFIXES and remainder[0] == short[-1]
    ):
        return True
    is_baker = short[-1] == "e" and f"e{ending}" in SUFFIXES
    is_word = 2 < len(remainder) < len(long) and bool(word_values.get(remainder))
    return is_baker or (is_word and ending not in _CHANCE)


def _distance(a_word: str, b_word: str) -> int:
    """Letters to add, leave out, change or swap with their neighbour; 3 if there are more."""
    if abs(len(a_word) - len(b_word)) > 2:
        return 3
    before: list[int] = []
    row = list(range(len(b_word) + 1))
    for i, a in enumerate(a_word, 1):
        before, last, row = row, before, [i]
        for j, b in enumerate(b_word, 1):
            least = min(before[j] + 1, row[-1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == b_word[j - 2] and b == a_word[i - 2]:
                least = min(least, last[j - 2] + 1)
            row.append(least)
    return min(row[-1], 3)


def _spells(past: str, words: Sequence[str], banned: str) -> bool:
    """Whether all words so far spell a word by their letters, or a clue does without blanks."""
    is_long = past.count(" ") + 1 >= len(banned)  # a word gives one letter
    return (is_long and banned in _readings(past)) or any(
        banned == "".join(words[i:j])
        for i in range(len(words))
        for j in range(i + 2, min(len(words), i + 8) + 1)
    )


@lru_cache(4096)
def _readings(text: str) -> str:
    words = text.split()
    readings = []
    for selected in (words, [word for word in words if word not in SMALL]):
        initials = "".join(word[0] for word in selected)
        last = "".join(word[-1] for word in selected)
        spelled = "".join(_LETTERS.get(word, ".") for word in selected)
        readings += [initials, initials[::-1], last, spelled]
    return " ".join(readings)
