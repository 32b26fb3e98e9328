r"""The referee of clues: which messages may hint at a word without writing it.

`heard` reads a message as its words in lower case, without punctuation. `fault_of` says what is
wrong with a clue, by these rules:

1. It consists of words of the vocabulary `arena_envs/words/vocabulary.csv`, with at most two numbers.
   Hyphens join words; `x-ray`, `t-shirt` and `u-turn` are the only words with single letters.
2. It says no banned word in any form or disguise (`arena_envs.games.kits.words`).
3. No word of it is a part of a banned word, or the other way round. A part leaves a word of three
   letters or more: "shelf" is a part of "bookshelf", "ring" none of "booking". A word with
   `SUFFIXES`, such as "sunny", has the first word as its part.
4. No word is spelled like a banned word: with one letter more, less, other or swapped, or with
   two where both have seven letters or more. Headwords of the vocabulary may be: "beard" may hint at
   "bear", "beans" may not hint at "beaks". No word is a banned word backwards, or an anagram of
   four letters or more.
5. It spells no banned word: neither initials, last letters nor names of letters of words in a row
   do so, with "and" or other small words between them or without, nor do words without blanks.
   The words of earlier clues count. No word but a small one stands three times.

>>> fault_of("It grows on your shin", ["beard", "chin"])
''
>>> fault_of("d2o2g", ["dog"]), fault_of("dotted old goose", ["dog"])
("'d2o2g' is no word", "it spells 'dog'")
>>> fault_of("shelves", ["bookshelf"]), fault_of("brk", ["bark"])
("'shelves' is a part of 'bookshelf'", "'brk' is not in the vocabulary")
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from importlib import resources

from arena_envs.games.kits.words import forms, said_among

MAX_NUMBERS = 2  # of a clue
SUFFIXES = frozenset("er ers y ly ish less ful ness like hood ian ist".split())
SMALL = frozenset(
    "a an and are as at be but by for from has have he her his i if in is it its my no not of on or "
    "our she so that the their then they this to very was we with you your".split()
)
NUMBERS = frozenset(
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty thirty forty fifty first second third fourth "
    "fifth sixth seventh eighth ninth tenth".split()
)
# words that two others make by chance
WHOLE = frozenset(
    "button captain cargo carnation carpenter carpet carrot carton cartridge cotton damsel donkey "
    "earnest father flagrant forest forfeit forget garden garland garnet hamlet kingdom legend "
    "legion manage mandate message mushroom napkin notice office palace palate parrot passion "
    "pigeon potion pumpkin rampage rampant ration scarlet season stable starling target tenant "
    "together warden wigeon window".split()
)
_CHANCE = frozenset("able age ant ate ion ism ling ting ted".split())  # endings
_LETTERS = {
    **{"ay": "a", "be": "b", "bee": "b", "sea": "c", "see": "c", "dee": "d", "ex": "x"},
    **{"gee": "g", "eye": "i", "i": "i", "jay": "j", "kay": "k", "el": "l", "em": "m"},
    **{"en": "n", "oh": "o", "owe": "o", "pea": "p", "pee": "p", "cue": "q", "queue": "q"},
    **{"are": "r", "ass": "s", "tea": "t", "tee": "t", "you": "u", "ewe": "u", "why": "y"},
    **{"zed": "z", "zee": "z", "a": "a", "eff": "f", "ell": "l", "aye": "i", "ess": "s"},
}
_MARKS = re.compile(r"""[\s.,;:!?"()/\u2013\u2014\u2026\u201c\u201d-]+""")
_JOINED = re.compile(r"(?<![\w-])(?:x-ray|t-shirt|u-turn)(s?)(?![\w-])")
_TAIL = re.compile(r"(?:n't|'(?:s|re|ve|ll|d|m)?)$")


@cache
def vocabulary() -> dict[str, bool]:
    """The words that clues consist of; whether each is a headword, not a form or a name."""
    file = resources.files("arena_envs") / "words" / "vocabulary.csv"
    lines = file.read_text(encoding="utf-8").split()
    return {line.rstrip("*"): line[-1] != "*" for line in lines}


def heard(text: str) -> str:
    """The words of a clue in lower case with single blanks, as the other players read it."""
    plain = unicodedata.normalize("NFKD", text).replace("\u2019", "'").casefold()
    plain = "".join(char for char in plain if unicodedata.category(char) != "Mn")
    plain = _JOINED.sub(lambda found: found[0].replace("-", "\0"), plain)
    words = (word.strip("'") for word in _MARKS.split(plain))
    return " ".join(word for word in words if word).replace("\0", "-")


def fault_of(
    clue: str, banned: Sequence[str], earlier: Sequence[str] = (), numbers: int = MAX_NUMBERS
) -> str:
    """What is wrong with a clue, in a few words; empty if it may be given.

    Args:
        clue: anything.
        banned: words of the letters a to z; of these the clue may not spell the first.
        earlier: clues of the same player that were given before.
        numbers: the most numbers that the clue may have.
    """
    words = heard(clue).split()
    if not words:
        return "it has no word"
    for word in words:
        if fault := _no_word(word):
            return fault
    if said := said_among(clue, banned):
        return f"it says {said!r}"
    num = sum(word.isdigit() or word in NUMBERS for word in words)
    if num > numbers:
        return f"it has {num} numbers"
    for word in words:
        for other in banned:
            if fault := _too_close(word, other):
                return f"{word!r} is {fault} {other!r}"
    word, num = Counter(word for word in words if word not in SMALL).most_common(1)[0] if set(words) - SMALL else ("", 0)
    if num > 2:
        return f"it says {word!r} {num} times"
    past = [word for each in earlier for word in heard(each).split()]
    spelled = (other for other in banned[:1] if _spells(past, words, other))
    return next((f"it spells {other!r}" for other in spelled), "")


def _no_word(word: str) -> str:
    plain = _TAIL.sub("", word)
    if word.isdigit() and word.isascii() and len(word) < 5:
        return ""
    if not re.fullmatch("[a-z]+(-[a-z]+)?", plain):
        return f"{word[:20]!r} is no word"
    known = vocabulary()
    if plain in known or "-" in plain or (word.endswith("n't") and plain in ("ca", "wo")):
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
    found = {word, word.removesuffix("s"), word.removesuffix("es")}
    if word.endswith("ves"):
        found |= {f"{word[:-3]}f", f"{word[:-3]}fe"}
    return {each for each in found if len(each) > 2}


def _leaves_word(short: str, long: str) -> bool:
    known, rest = vocabulary(), long.removeprefix(short)
    if rest != long:
        ending = rest[1:] if rest[0] == short[-1] else rest
        if rest in SUFFIXES or (ending in SUFFIXES and len(short) > 2):
            return True
        if len(rest) > 2 and known.get(rest) and rest not in _CHANCE | {"ring", "red", "king", "bed"}:
            return True
    rest = long.removesuffix(short)
    if rest == long or len(rest) < 3 or not known.get(rest) or short in _CHANCE:
        return False
    if not long.endswith(("ing", "ed")):
        return True
    stem = re.sub("(ing|ed)$", "", long)  # "booking" has no king, "earring" a ring
    return not ({stem, f"{stem}e", stem[:-1]} & known.keys() - {"earr"})


def _distance(one: str, other: str) -> int:
    """Letters to add, leave out, change or swap with their neighbour; 3 if there are more."""
    if abs(len(one) - len(other)) > 2:
        return 3
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        before, last, row = row, before, [i]
        for j, b in enumerate(other, 1):
            least = min(before[j] + 1, row[-1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and b == one[i - 2]:
                least = min(least, last[j - 2] + 1)
            row.append(least)
    return min(row[-1], 3)


def _spells(past: Sequence[str], words: Sequence[str], banned: str) -> bool:
    """Whether the latest words, after those of the past, spell a word."""
    return any(banned in reading for reading in _readings([*past, *words])) or any(
        banned == "".join(words[i:j])
        for i in range(len(words))
        for j in range(i + 2, min(len(words), i + 8) + 1)
    )


def _readings(words: Sequence[str]) -> Iterator[str]:
    if len(words) < 3:
        return
    for kept in (words, [word for word in words if word not in SMALL]):
        yield "".join(word[0] for word in kept)
        yield "".join(word[-1] for word in kept)
        yield "".join(_LETTERS.get(word, " ") for word in kept)
        yield "".join(word[0] for word in kept)[::-1]
