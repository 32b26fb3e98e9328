"""Objects that are made of attributes, such as "large red circle", and lists of their words."""

import re
from collections.abc import Sequence
from importlib import resources
from itertools import product
from pathlib import Path

from arena_envs.games._word_lists import check_words

SHIPPED = "attributes"  # arena_envs/words/attributes.csv
_WORD = re.compile("[a-z]{1,20}")

Rows = Sequence[Sequence[str]]


def read_attributes(
    param: str, source: str | Path | Rows
) -> tuple[tuple[str, ...], ...]:
    """The values of each attribute, in the order in which they name an object.

    Args:
        param: name of the game's parameter, for error messages.
        source: "attributes", the list that ships with the package; or the path of a UTF-8 file
            with one attribute per line, its values separated by commas; or the values of each
            attribute.

    Raises:
        ValueError: there is no such file; an attribute has fewer than two values; or a value is
            empty, stands twice or is not made of 1 to 20 letters a to z. Names the file and the
            line.
    """
    if isinstance(source, str | Path):
        where = f"{param} ({source}), line {{}}"
        rows: Rows = [line.split(",") for line in _text(param, source).splitlines()]
    elif isinstance(source, Sequence) and all(
        isinstance(row, Sequence) for row in source
    ):
        rows, where = source, f"{param}, attribute {{}}"
    else:
        raise ValueError(
            f"want {param} as {SHIPPED!r}, the path of a file or a sequence of values for each "
            f"attribute, got {source!r:.80}"
        )
    if not rows:
        raise ValueError(f"want an attribute or more in {param}, got none")
    first: dict[str, int] = {}
    for number, row in enumerate(rows, 1):
        place = where.format(number)
        check_words(row, f"{place}, value {{}}")
        if wrong := [value for value in row if not _WORD.fullmatch(value)]:
            raise ValueError(
                f"{place}: want values of 1 to 20 letters a to z, got {wrong[0]!r:.80}; correct it"
            )
        if len(row) < 2:
            raise ValueError(
                f"{place}: want two values or more, got {len(row)}; add some"
            )
        for value in row:
            if value in first:
                raise ValueError(
                    f"{place}: {value!r} stands at {first[value]} already; delete one of the two"
                )
            first[value] = number
    return tuple(map(tuple, rows))


def _text(param: str, source: str | Path) -> str:
    if source == SHIPPED:
        file = resources.files("arena_envs") / "words" / f"{SHIPPED}.csv"
        return file.read_text(encoding="utf-8")
    try:
        return Path(source).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ValueError(
            f"want {param} as {SHIPPED!r} or the path of a UTF-8 file with one attribute per "
            f"line, its values separated by commas, got {str(source)[:80]!r}: {error}"
        ) from error


def names_of(attributes: Rows) -> tuple[str, ...]:
    """The names of all objects with these attributes.

    >>> names_of([("small", "large"), ("circle", "star")])
    ('small circle', 'small star', 'large circle', 'large star')
    """
    return tuple(" ".join(values) for values in product(*attributes))
