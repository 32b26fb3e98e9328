r"""Which words a text says, whatever their case, form and spelling tricks.

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

# ruff: noqa: RUF001 (a table of characters that look alike)
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

_ALIKE = str.maketrans(
    "абвгсԁеһніјкӏмопрԛѕтухѵԝАВСЕНІЈКМОРЅТУХαβγεηικνορτυχωΑΒΕΖΗΙΚΜΝΟΡΤΥΧıɑɡ03457@$",
    "abbrcdehhijklmonpqstyxvwabcehijkmopstyxabyenikvoptuxwabezhikmnoptyxiagoeastas",
)
_PARTS = re.compile("[a-z]+")
_JOINED = re.compile(r"(?<![a-z])[a-z]+(?:[-_.'’*]+[a-z]+)+")
_SPACED = re.compile(r"(?<![a-z])[a-z](?:[^a-z0-9]{1,3}[a-z](?![a-z]))+")
_LONGEST = 24  # letters of a word that is put together

IRREGULAR = {
    "child": "children",
    "foot": "feet",
    "goose": "geese",
    "louse": "lice",
    "man": "men",
    "mouse": "mice",
    "ox": "oxen",
    "person": "people",
    "tooth": "teeth",
    "woman": "women",
}


def words_of(text: str) -> set[str]:
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
    return words


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
    """The forms of a word, by rule 3.

    Args:
        word: of the letters a to z.
    """
    found = {word, f"{word}s", IRREGULAR.get(word, word)}
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
    """The first of some words that a text says in any form; None if it says none.

    Args:
        text: anything.
        words: of the letters a to z.
    """
    said = words_of(text)
    return next((word for word in words if not said.isdisjoint(forms(word))), None)
