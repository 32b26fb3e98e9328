"""Lists of words for games: those that ship with the package, files, sequences of words."""

import re
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path

from arena_envs.game import check_int

NAMES = ("five_letters", "nouns")  # of the shipped lists, arena_envs/words/*.txt
WORD = re.compile("[a-z]+(?:[ '-][a-z]+)*")
MAX_WORDS = 10_000


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
        where = f"{param} ({source}), line {{}}"
        words: Sequence[str] = _lines(param, source)
    elif isinstance(source, Sequence):
        where, words = f"{param}, word {{}}", source
    else:
        raise ValueError(
            f"want {param} as the name of a list ({', '.join(NAMES)}), the path of a file or "
            f"a sequence of words, got {source!r:.80}"
        )
    check_words(words, where)
    if not min_words <= len(words) <= MAX_WORDS:
        raise ValueError(
            f"want {min_words} to {MAX_WORDS:,} words in {param}, got {len(words)}"
        )
    return tuple(words)


def _lines(param: str, source: str | Path) -> list[str]:
    if source in NAMES:
        text = (resources.files("arena_envs") / "words" / f"{source}.txt").read_text(
            encoding="utf-8"
        )
        return text.splitlines()
    try:
        return Path(source).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise ValueError(
            f"want {param} as the name of a list ({', '.join(NAMES)}) or the path of a UTF-8 "
            f"file with one word per line, got {str(source)[:80]!r}: {error}"
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


def check_words(words: Iterable[object], where: str) -> None:
    """Raises if a word is malformed or stands twice.

    Args:
        words: of the list.
        where: says where a word stands, with `{}` for its number.
    """
    first: dict[str, int] = {}
    for number, word in enumerate(words, 1):
        if not isinstance(word, str) or not WORD.fullmatch(word):
            raise ValueError(
                f"{where.format(number)}: want a word of the letters a to z, with single "
                f"blanks, hyphens or apostrophes between them, got {word!r:.80}; correct "
                "or delete it"
            )
        if word in first:
            raise ValueError(
                f"{where.format(number)}: {word!r} stands at {first[word]} already; "
                "delete one of the two"
            )
        first[word] = number
