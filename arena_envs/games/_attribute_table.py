"""A table of things and of yes-or-no questions about them."""

import csv
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from arena_envs.games._word_lists import check_words

SHIPPED = "things"  # arena_envs/words/things.csv
CELLS = {"yes": True, "no": False}

Rows = Sequence[Sequence[str]]


class AttributeTable(NamedTuple):
    """Things, questions, and the answer to each question about each thing."""

    things: tuple[str, ...]
    questions: tuple[str, ...]
    answers: tuple[tuple[bool, ...], ...]  # by thing, then by question

    def part(self, num_things: int, num_questions: int) -> "AttributeTable":
        """The first things and questions.

        Raises:
            ValueError: two of these things have the same answers.
        """
        things, questions = self.things[:num_things], self.questions[:num_questions]
        answers = tuple(row[:num_questions] for row in self.answers[:num_things])
        first: dict[tuple[bool, ...], str] = {}
        for thing, row in zip(things, answers, strict=True):
            if row in first:
                raise ValueError(
                    f"want different answers for each thing, got the same for "
                    f"{first[row]!r} and {thing!r}: take more questions or fewer things"
                )
            first[row] = thing
        return AttributeTable(things, questions, answers)


def read_rows(param: str, source: str | Path | Rows) -> tuple[tuple[str, ...], ...]:
    """The rows of a table: a header of any word and the questions, then the things.

    Args:
        param: name of the game's parameter, for error messages.
        source: "things", the table that ships with the package; or the path of a UTF-8 file
            of comma-separated values; or the rows themselves. After its thing, a row has
            "yes" or "no" for each question.

    Raises:
        ValueError: there is no such file, or a row is malformed. Names the file and the line.
    """
    if isinstance(source, str | Path):
        where = f"{param} ({source}), line {{}}"
        rows: Rows = _rows_of_file(param, source)
    elif isinstance(source, Sequence) and all(
        isinstance(row, Sequence) and not isinstance(row, str) for row in source
    ):
        rows, where = source, f"{param}, row {{}}"
    else:
        raise ValueError(
            f"want {param} as {SHIPPED!r}, the path of a file or a sequence of rows, got "
            f"{source!r:.80}"
        )
    if len(rows) < 3 or len(rows[0]) < 2:
        raise ValueError(
            f"want a header with questions and two things or more in {param}, got "
            f"{len(rows)} rows"
        )
    check_words(rows[0], f"{where.format(1)}, column {{}}")
    check_words([row[0] if row else "" for row in rows], where)
    for number, row in enumerate(rows, 1):
        wrong = [cell for cell in row[1:] if number > 1 and cell not in CELLS]
        if wrong or len(row) != len(rows[0]):
            raise ValueError(
                f"{where.format(number)}: want {len(rows[0]) - 1} cells 'yes' or 'no' after "
                f"{row[0]!r}, got {len(row) - 1} cells, {len(wrong)} of them others: "
                "correct the row"
            )
    return tuple(map(tuple, rows))


def table_of(rows: Rows) -> AttributeTable:
    """The table of rows that `read_rows` has checked."""
    return AttributeTable(
        things=tuple(row[0] for row in rows[1:]),
        questions=tuple(rows[0][1:]),
        answers=tuple(tuple(CELLS[cell] for cell in row[1:]) for row in rows[1:]),
    )


def _rows_of_file(param: str, source: str | Path) -> list[list[str]]:
    if source == SHIPPED:
        file = resources.files("arena_envs") / "words" / f"{SHIPPED}.csv"
        return list(csv.reader(file.read_text(encoding="utf-8").splitlines()))
    try:
        text = Path(source).read_text(encoding="utf-8")
        return list(csv.reader(text.splitlines()))
    except (OSError, ValueError, csv.Error) as error:
        raise ValueError(
            f"want {param} as {SHIPPED!r} or the path of a UTF-8 file of comma-separated "
            f"values, got {str(source)[:80]!r}: {error}"
        ) from error
