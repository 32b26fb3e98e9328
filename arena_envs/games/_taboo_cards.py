"""Cards of taboo: a word, a clue that is allowed, and forbidden words."""

import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from arena_envs.games._word_lists import check_words
from arena_envs.games._word_match import said_among

SHIPPED = "taboo"  # arena_envs/words/taboo.csv
MAX_CARDS = 1000
_WORD = re.compile("[a-z]{2,20}")

Rows = Sequence[Sequence[str]]


class Card(NamedTuple):
    """A word, a clue of one word that points to it, and the words that no clue may say."""

    word: str
    clue: str
    forbidden: tuple[str, ...]


def read_rows(param: str, source: str | Path | Rows) -> tuple[tuple[str, ...], ...]:
    """The rows of a list of cards.

    Args:
        param: name of the game's parameter, for error messages.
        source: "taboo", the list that ships with the package; or the path of a UTF-8 file with
            one card per line, its words separated by commas; or the rows themselves. A row has
            the word, the clue and the forbidden words.

    Raises:
        ValueError: there is no such file; there are fewer than two cards; a word is empty, stands
            twice in a row or is not made of 2 to 20 letters a to z; two cards have one word or
            one clue; or a clue breaks the rule of its own card. Names the file and the line.
    """
    if isinstance(source, str | Path):
        where = f"{param} ({source}), line {{}}"
        rows: Rows = [line.split(",") for line in _text(param, source).splitlines()]
    elif isinstance(source, Sequence) and all(
        isinstance(row, Sequence) and not isinstance(row, str) for row in source
    ):
        rows, where = source, f"{param}, card {{}}"
    else:
        raise ValueError(
            f"want {param} as {SHIPPED!r}, the path of a file or a sequence of cards, got "
            f"{source!r:.80}"
        )
    for number, row in enumerate(rows, 1):
        _check_row(row, where.format(number))
    for column in (0, 1):
        check_words([row[column] for row in rows], f"{where}, column {column + 1}")
    if not 2 <= len(rows) <= MAX_CARDS:
        raise ValueError(f"want 2 to {MAX_CARDS:,} cards in {param}, got {len(rows)}")
    return tuple(map(tuple, rows))


def _check_row(row: Sequence[str], place: str) -> None:
    check_words(row, f"{place}, column {{}}")
    if len(row) < 2:
        raise ValueError(
            f"{place}: want a word, a clue and forbidden words, got {len(row)}; add some, after a "
            "comma each"
        )
    if wrong := [word for word in row if not _WORD.fullmatch(word)]:
        raise ValueError(
            f"{place}: want words of 2 to 20 letters a to z, got {wrong[0]!r:.80}; correct it"
        )
    if said := said_among(row[1], (row[0], *row[2:])):
        raise ValueError(
            f"{place}: want a clue that does not say {said!r}, got {row[1]!r}; choose another"
        )


def _text(param: str, source: str | Path) -> str:
    if source == SHIPPED:
        file = resources.files("arena_envs") / "words" / f"{SHIPPED}.csv"
        return file.read_text(encoding="utf-8")
    try:
        return Path(source).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ValueError(
            f"want {param} as {SHIPPED!r} or the path of a UTF-8 file with one card per line, "
            f"its words separated by commas, got {str(source)[:80]!r}: {error}"
        ) from error


def cards_of(rows: Rows, num_cards: int, num_forbidden: int) -> tuple[Card, ...]:
    """The first cards of rows that `read_rows` has checked, in alphabetical order."""
    return tuple(
        sorted(
            Card(row[0], row[1], tuple(row[2 : 2 + num_forbidden]))
            for row in rows[:num_cards]
        )
    )
