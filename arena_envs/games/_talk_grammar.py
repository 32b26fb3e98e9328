"""The grammar of talk: moves, utterances, and how a text is read and written."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product
from math import inf
from typing import Any, Literal, NamedTuple

from arena_envs.game import IllegalAction
from arena_envs.games._talk_fields import Field

MAX_MOVE = 200  # characters at the end of a text that are searched for the move


class Utterance(NamedTuple):
    """An action of a language game.

    Attributes:
        move: name of the move.
        values: values of its fields, in order; amounts are in hundredths.
        message: free words; may be empty.
        audience: seats that read the message, the speaker among them; empty: all seats.
    """

    move: str
    values: tuple[Any, ...] = ()
    message: str = ""
    audience: tuple[int, ...] = ()


@dataclass(frozen=True)
class Move:
    """A move.

    Attributes:
        name: one word of letters a to z, which is also a noun.
        fields: what follows the name.
        message: "may" or "no": whether a message may stand before the move; "must": a message
            follows the move.
    """

    name: str
    fields: tuple[Field, ...] = ()
    message: Literal["may", "must", "no"] = "may"

    @property
    def noun(self) -> str:
        return f"{'an' if self.name[0] in 'aeiou' else 'a'} {self.name}"


def read(
    text: str,
    moves: tuple[Move, ...],
    max_message: int,
    audience: tuple[int, ...] = (),
) -> Utterance:
    """The utterance of a text, by the grammar of `_talk`, in time linear in its length.

    Args:
        text: anything.
        moves: the moves that are allowed now.
        max_message: longest message in characters; 0: no message.
        audience: of the utterance.

    Raises:
        IllegalAction: the text does not follow the grammar, a value is out of range, or the
            message is too long, missing or not allowed. It says what was wanted and what came.
    """
    text = text.strip()
    before, after = _patterns(moves)
    if found := before.match(text):
        message = text[found.end() :]
    elif found := after.search(text, max(0, len(text) - MAX_MOVE)):
        message = text[: max(0, found.end("mark"))]
    else:
        raise IllegalAction(f"want {_wanted(moves, max_message)}, got {text[-80:]!r}")
    # half a surrogate pair cannot be written to a record
    message = message.strip().encode("utf-8", "replace").decode("utf-8")
    groups = found.groupdict()
    index = next(i for i in range(len(moves)) if groups.get(f"m{i}"))
    move = moves[index]
    _check_message(move, message, max_message)
    texts = [groups[f"m{index}f{number}"] for number in range(len(move.fields))]
    return Utterance(move.name, _values(move, texts), message, audience)


@lru_cache(1024)
def _patterns(moves: tuple[Move, ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """The patterns of a move that stands before its message, and of one that stands after it."""
    forms: dict[bool, list[str]] = {True: [], False: []}
    for index, move in enumerate(moves):
        fields = [
            rf"\s+(?P<m{index}f{number}>{field.pattern})"
            for number, field in enumerate(move.fields)
        ]
        pattern = f"(?P<m{index}>{move.name}{''.join(fields)})"
        forms[move.message == "must"].append(pattern)
    before, after = ("|".join(forms[must]) or "(?!)" for must in (True, False))
    flags = re.IGNORECASE | re.ASCII
    return (
        re.compile(rf"(?:{before})(?:\s*:|\s|\Z)", flags),
        re.compile(rf"(?:\A|(?P<mark>[\n\r.!?;:]))\s*(?:{after})\s*\.?\Z", flags),
    )


def _check_message(move: Move, message: str, max_message: int) -> None:
    if move.message == "must" and not message:
        raise IllegalAction(f'want a message after "{example(move)}:", got none')
    if message and (move.message == "no" or not max_message):
        raise IllegalAction(f"want no message with the action, got {message[:80]!r}")
    if len(message) > max_message:
        raise IllegalAction(
            f"want a message of at most {max_message} characters, got {len(message)}"
        )


def _values(move: Move, texts: Sequence[str]) -> tuple[Any, ...]:
    values = []
    for field, text in zip(move.fields, texts, strict=True):
        value = field.read(text)
        if value is None:
            what = (
                move.noun if len(move.fields) == 1 else f"{field.label} of {move.noun}"
            )
            raise IllegalAction(f"want {what} {field.limits}, got {text}")
        values.append(value)
    return tuple(values)


def _wanted(moves: Sequence[Move], max_message: int) -> str:
    """What a text should have been, as the error says it."""
    last = [move for move in moves if move.message != "must"]
    parts = [f'"{example(move)}:" and a message' for move in moves if move not in last]
    parts += [
        f'{move.noun} such as "{example(move)}"{"".join(f.note for f in move.fields)}'
        for move in last
        if move.fields
    ]
    if plain := [f'"{move.name}"' for move in last if not move.fields]:
        parts.append(f"the answer {' or '.join(plain)}")
    where = ""
    if last:
        may = max_message and any(move.message == "may" for move in last)
        where = " alone in the last line" if may else " and nothing else"
    return " or ".join(parts) + where


def written(said: Utterance, moves: Sequence[Move]) -> str:
    """The canonical text of an utterance, which `read` reads; `moves` has its move."""
    move = next(move for move in moves if move.name == said.move)
    text = _written_move(move, said.values)
    if not said.message:
        return text
    if move.message == "must":
        return f"{text}: {said.message}"
    return f"{said.message}\n{text}"


def _written_move(move: Move, values: Sequence[Any]) -> str:
    fields = zip(move.fields, values, strict=True)
    return " ".join([move.name, *(field.written(value) for field, value in fields)])


def example(move: Move) -> str:
    """A move as it may be written.

    >>> from arena_envs.games._talk_fields import Integer
    >>> example(Move("claim", (Integer(0, 2, "BOOKS"), Integer(0, 3, "HATS"))))
    'claim 1 1'
    """
    return _written_move(move, [field.example for field in move.fields])


def syntax(move: Move) -> str:
    """A move with the labels of its fields.

    >>> from arena_envs.games._talk_fields import Integer
    >>> syntax(Move("claim", (Integer(0, 2, "BOOKS"), Integer(0, 3, "HATS"))))
    'claim BOOKS HATS'
    """
    return " ".join([move.name, *(field.label for field in move.fields)])


def every(move: Move) -> list[Utterance]:
    """All utterances of a move without amounts and free words, ascending, without messages."""
    ranges = [field.values for field in move.fields]  # type: ignore[union-attr]
    return [Utterance(move.name, values) for values in product(*ranges)]


def nearest(
    said: Sequence[Utterance], core: Sequence[Utterance]
) -> tuple[Utterance, ...]:
    """For each utterance the one of a finite core with the same move and the closest values.

    The distance is the sum of the differences of numbers; other values that differ count 1.

    >>> nearest([Utterance("bid", (49,), "Hi")], [Utterance("bid", (n,)) for n in (0, 50)])
    (Utterance(move='bid', values=(50,), message='', audience=()),)
    """

    def distance(one: Utterance, other: Utterance) -> float:
        if one.move != other.move:
            return inf
        pairs = zip(one.values, other.values, strict=True)
        return sum(
            float(abs(x - y) if isinstance(x, int) else x != y) for x, y in pairs
        )

    return tuple(min(core, key=partial(distance, each)) for each in said)
