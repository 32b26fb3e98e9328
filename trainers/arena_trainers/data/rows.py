"""Rows to train on: completions, labels and pairs.

A completion is a list of pieces: what the seat said, and what it heard between two of its replies.
A piece has the tokens of the record, or none; `columns` gives all rows their tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from arena_wrappers import Message

GENERAL = "general"  # game of rows that are of no episode


class ReplyPart(NamedTuple):
    """A part of a reply, or a whole one.

    Attributes:
        text: what the policy wrote.
        ids: its tokens as they were sampled, the end token included; None without a record.
        counts: whether its tokens are trained.
        ends: whether the reply ends here.
    """

    text: str
    ids: Sequence[int] | None
    counts: bool = True
    ends: bool = True


class NewMessages(NamedTuple):
    """The messages that a seat read between two of its replies.

    Attributes:
        prompt: all messages of the later turn's prompt.
        start: index in `prompt` of the first message that is new.
        ids: the new tokens as they were read; None without a record.
    """

    prompt: Sequence[Message]
    start: int
    ids: Sequence[int] | None


Piece = ReplyPart | NewMessages


class Dropped(NamedTuple):
    """A count of what a selector did not choose, for the table of `arena data select`.

    Attributes:
        reason: why, in words that are the same for all that is dropped for this reason.
        num: how many episodes of a seat, or turns.
    """

    reason: str
    num: int = 1


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row to train on: its source and its prompt.

    Attributes:
        game: id of the game.
        seat: who learns.
        turn: which of the seat's turns the prompt is of, from 0.
        seed: of the episode.
        sample: of the episode.
        policy: who replied.
        reason: why the row was chosen.
        prompt: messages that the seat read.
        prompt_ids: their tokens as they were read; None without a record.
        role: of a generation of an agent's turn; "" for other turns.
        parent: which generation of its turn it answers, from 0; -1 for none.
    """

    game: str
    seat: int
    turn: int
    seed: int
    sample: int
    policy: str
    reason: str
    prompt: Sequence[Message]
    prompt_ids: Sequence[int] | None = None
    role: str = ""
    parent: int = -1

    names: ClassVar[Sequence[str]] = ()  # of the completions

    @property
    def texts(self) -> tuple[Sequence[Piece], ...]:
        """The completions of the row."""
        return tuple(getattr(self, name) for name in self.names)


@dataclass(frozen=True, kw_only=True)
class Completion(Row):
    """A completion to imitate.

    Attributes:
        completion: what follows the prompt.
        weight: how much the row counts; at least 0.
    """

    completion: Sequence[Piece]
    weight: float = 1.0
    names = ("completion",)


@dataclass(frozen=True, kw_only=True)
class Label(Completion):
    """A completion that is good or bad.

    Attributes:
        label: whether it is good.
    """

    label: bool


@dataclass(frozen=True, kw_only=True)
class Pair(Row):
    """Two completions of one prompt, the first of which is better.

    Attributes:
        chosen: the better one.
        rejected: the other one.
        margin: difference of their values; 0 where there is none.

    Raises:
        ValueError: both say the same.
    """

    chosen: Sequence[Piece]
    rejected: Sequence[Piece]
    margin: float = 0.0
    names = ("chosen", "rejected")

    def __post_init__(self) -> None:
        texts = [messages_of(pieces) for pieces in self.texts]
        if texts[0] == texts[1]:
            raise ValueError(
                f"want a chosen completion that differs from the rejected one, got "
                f"{texts[0][0]['content']!r:.60} as both; leave the pair out"
            )


AnyRow = Completion | Label | Pair


def messages_of(pieces: Sequence[Piece]) -> list[Message]:
    """The messages of a completion; parts of one reply are one message.

    >>> messages_of([ReplyPart("bet", None, False, False), ReplyPart(" no: pass", None)])
    [{'role': 'assistant', 'content': 'bet no: pass'}]
    """
    messages: list[Message] = []
    reply = ""
    for piece in pieces:
        if isinstance(piece, NewMessages):
            messages += piece.prompt[piece.start :]
            continue
        reply += piece.text
        if piece.ends:
            messages.append({"role": "assistant", "content": reply})
            reply = ""
    return messages


def content_of(row: Row) -> tuple[Any, ...]:
    """The content that equal rows share: start, texts and label."""
    facts = (row.game, row.seed, row.seat, row.turn, row.policy, row.role, row.parent)
    prompt = tuple(message["content"] for message in row.prompt)
    texts = tuple(tuple(map(_texts, pieces)) for pieces in row.texts)
    label = row.label if isinstance(row, Label) else False
    return (type(row).__name__, *facts, prompt, texts, label)


def _texts(piece: Piece) -> tuple[str, ...]:
    if isinstance(piece, ReplyPart):
        return piece.text, str(piece.counts)
    return tuple(message["content"] for message in piece.prompt[piece.start :])
