"""What an agent reads of its own replies, and of why one is invalid."""

from arena_wrappers.formats import InvalidReply
from arena_wrappers.prompts import Message

_CUT = "\n[...]\n"  # in place of the middle of a long reply


def said_by_author(text: str, most: int) -> Message:
    """A reply in later prompts of its author, of at most `most` characters."""
    if len(text) > most:
        half = most // 2 - len(_CUT)
        text = f"{text[:half]}{_CUT}{text[-half:]}"
    return {"role": "assistant", "content": _encodable(text)}


def ask_again(invalid: InvalidReply) -> Message:
    """Why a reply is invalid, and that another is wanted."""
    # the rules may quote a reply in what they say of it
    content = f"{_encodable(invalid.detail)} Reply again."
    return {"role": "user", "content": content}


def _encodable(text: str) -> str:
    """The two halves of a surrogate pair as one character, and a lone half as U+FFFD."""
    units = text.encode("utf-16-le", "surrogatepass")
    return units.decode("utf-16-le", "replace")
