"""Utterances of bargaining: their grammar, and the text of the other seat about them."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from arena_envs.game import IllegalAction
from arena_envs.hostile import quoted

CENT = 100  # amounts are whole hundredths
MAX_LISTED = 6  # earlier offers that are shown
MAX_SHOWN = 3  # latest utterances shown in full: at least those since the own last one
MAX_MOVE = 60  # characters at the end of a text that are searched for the move

_MOVE = re.compile(
    r"(?:\A|(?P<mark>[\n\r.!?;:]))\s*"
    r"(?:(?P<answer>accept|reject)"
    r"|offer\s+\$?(?P<whole>[0-9]{1,7})(?:\.(?P<part>[0-9]{1,2}))?)"
    r"\s*\.?\Z",
    re.IGNORECASE | re.ASCII,
)


class Utterance(NamedTuple):
    """An utterance: a move, and a message that may be empty.

    Attributes:
        move: `"offer"`, `"accept"` or `"reject"`.
        amount: hundredths of money offered to the other player; 0 unless an offer.
        message: free words.
    """

    move: str
    amount: int = 0
    message: str = ""


ACCEPT, REJECT = Utterance("accept"), Utterance("reject")


def read(text: str, answering: bool, most: int, max_message: int) -> Utterance:
    """The utterance of a text, by the grammar on the page of the game.

    Args:
        text: anything.
        answering: whether an answer is wanted, not an offer.
        most: the pie, in hundredths.
        max_message: longest message in characters.

    Raises:
        IllegalAction: the text does not follow the grammar, or offers or says too much.
    """
    text = text.strip()
    found = _MOVE.search(text, max(0, len(text) - MAX_MOVE))
    if found is None or (found["answer"] is not None) != answering:
        want = (
            'the answer "accept" or "reject"'
            if answering
            else 'an offer such as "offer 1", with at most two decimals,'
        )
        where = "alone in the last line" if max_message else "and nothing else"
        raise IllegalAction(f"want {want} {where}, got {text[-80:]!r}")
    message = text[: found.end("mark") if found["mark"] else 0].strip()
    # half a surrogate pair cannot be written to a record
    message = message.encode("utf-8", "replace").decode("utf-8")
    if message and not max_message:
        raise IllegalAction(f"want no message with the action, got {message[:80]!r}")
    if len(message) > max_message:
        raise IllegalAction(
            f"want a message of at most {max_message} characters, got {len(message)}"
        )
    if found["answer"]:
        return Utterance(found["answer"].lower(), 0, message)
    amount = CENT * int(found["whole"]) + int((found["part"] or "").ljust(2, "0"))
    if amount > most:
        raise IllegalAction(
            f"want an offer of at most {money(most)}, got {money(amount)}"
        )
    return Utterance("offer", amount, message)


def written(said: Utterance) -> str:
    """The canonical text of an utterance, which `read` reads."""
    move = f"offer {money(said.amount)}" if said.move == "offer" else said.move
    return f"{said.message}\n{move}" if said.message else move


def speaker_of(turn: int) -> int:
    """Who speaks in this turn: player_0 offers first, and who answers offers next."""
    return (turn + 1) // 2 % 2


def history(said: Sequence[Utterance], seat: int, whole: int) -> Iterator[str]:
    """The past as a seat reads it: the latest utterances in full, of earlier ones the offers.

    Each utterance is a line, with its message `quoted`; everything else is ASCII.
    """
    start = max(0, len(said) - MAX_SHOWN)
    offers = [
        f"player_{speaker_of(turn)} offered {money(said[turn].amount)} "
        f"(round {turn // 2 + 1})"
        for turn in range(0, start, 2)
    ]
    if offers:
        listed = ", ".join(offers[-MAX_LISTED:])
        more = len(offers) - MAX_LISTED
        yield f"Earlier: {f'{more} more, ' if more > 0 else ''}{listed}."
    for turn, utterance in enumerate(said[start:], start):
        told = _told(utterance, speaker_of(turn), seat, whole)
        yield f"Round {turn // 2 + 1}: {told}"


def _told(said: Utterance, speaker: int, seat: int, whole: int) -> str:
    who = "you" if speaker == seat else f"player_{speaker}"
    text = f"{who} {said.move}ed"
    if said.move == "offer":
        whom = f"player_{1 - speaker}" if speaker == seat else "you"
        rest = money(whole - said.amount)
        text += f" {whom} {money(said.amount)}, keeping {rest}"
    return f"{text}, and said: {quoted(said.message)}" if said.message else f"{text}."


def money(amount: int) -> str:
    """Hundredths as money.

    >>> money(4000), money(1250)
    ('40', '12.50')
    """
    whole, part = divmod(amount, CENT)
    return f"{whole}.{part:02d}" if part else str(whole)


def checked_discounts(
    discounts: Sequence[Sequence[float]],
) -> tuple[tuple[float, ...], ...]:
    """The factors as tuples of floats.

    Raises:
        ValueError: they are not two sets of numbers above 0 and at most 1.
    """
    try:
        sets = tuple(tuple(values) for values in discounts)
        valid = len(sets) == 2 and all(
            len(values) == len(set(values)) > 0 and all(0 < d <= 1 for d in values)
            for values in sets
        )
    except TypeError:
        valid = False
    if not valid:
        raise ValueError(
            "want discounts as distinct numbers above 0 and at most 1 for each of two "
            f"seats, got {discounts!r}"
        )
    return tuple(tuple(map(float, values)) for values in sets)
