"""Messages about an agent's own replies, and about invalid ones."""

from arena_wrappers.formats import InvalidReply
from arena_wrappers.prompts import Message

_CUT = "\n[...]\n"  # in place of the middle of a long reply


def said_by_author(text: str, most: int) -> Message:
    """A reply for later prompts of its author, cut to at most `most` characters."""
    if len(text) > most:
        half = most // 2 - len(_CUT)
        text = f"{text[:half]}{_CUT}{text[-half:]}"
    return {"role": "assistant", "content": _encodable(text)}


def ask_again(invalid: InvalidReply) -> Message:
    """The reason why a reply is invalid, with a request for another reply."""
    # the reason may quote the reply
    content = f"{_encodable(invalid.detail)} Reply again."
    return {"role": "user", "content": content}


def _encodable(text: str) -> str:
    """The two halves of a surrogate pair as one character, and a lone half as U+FFFD."""
    units = text.encode("utf-16-le", "surrogatepass")
    return units.decode("utf-16-le", "replace")
