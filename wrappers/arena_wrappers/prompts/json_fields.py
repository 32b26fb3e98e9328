"""The JSON objects of an answer: the fields that name an action, and the message with it."""

import ast
import json
import re
from itertools import islice
from typing import Any

from arena_wrappers.prompts.formats import MAX_ANSWER

ACTION_FIELDS = re.compile(  # after the words that say whose it is
    "(?:final|next|chosen|selected|best|my)?(?:action|answer|move|choice|decision|response|reply)"
)
MESSAGE_FIELDS = ("message", "say", "speech")
CALL_FIELDS = ("arguments", "parameters", "args", "input")  # of a call of a function
MAX_OBJECTS = 8  # that are looked for in an answer


def field_answers(text: str, has_words: bool) -> list[str]:
    """What the named fields of the JSON objects of an answer say; empty without such fields.

    Args:
        text: the answer.
        has_words: whether a message may go with an action.
    """
    text = text.strip()[-MAX_ANSWER:]
    if text[:1] in ("'", '"') and ":" in text:  # \boxed{...} takes the braces
        text = f"{{{text}}}"
    answers: list[str] = []
    starts = (brace.start() for brace in re.finditer("{", text))
    end = 0
    for start in islice(starts, MAX_OBJECTS):
        if start < end:
            continue
        pairs, length = _decoded(text[start:])
        end = start + length
        answers += _answers_in(pairs, has_words)
    return answers


class _Pairs(list[tuple[str, Any]]):
    """The fields of a JSON object, also those with one name."""


_decoder = json.JSONDecoder(object_pairs_hook=_Pairs)


def _decoded(text: str) -> tuple[Any, int]:
    """The object at the start of a text, in JSON or as Python writes it, and its length."""
    try:
        return _decoder.raw_decode(text)
    except (ValueError, RecursionError):
        end = text.rfind("}") + 1
    try:
        value = ast.literal_eval(text[:end])
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None, 0
    return (_Pairs(value.items()) if isinstance(value, dict) else None), end


def _answers_in(pairs: Any, has_words: bool) -> list[str]:
    """The answers of an object: its named fields, each with the message, or those of a call."""
    if isinstance(pairs, dict):
        pairs = _Pairs(pairs.items())
    if not isinstance(pairs, _Pairs):
        return []
    fields = [(re.sub(r"[\W_]", "", str(key)).lower(), value) for key, value in pairs]
    messages = (value for key, value in fields if key in MESSAGE_FIELDS and value)
    words = "\n".join(map(str, messages)) if has_words else ""
    answers = []
    for key, value in fields:
        if key not in CALL_FIELDS and not ACTION_FIELDS.fullmatch(key):
            continue
        if isinstance(value, dict | _Pairs):
            answers += _answers_in(value, has_words)
        elif key not in CALL_FIELDS:
            text = "" if value is None else str(value)
            is_bare = len(text.split()) == 1  # as "say: hello"
            parts = (
                (f"{text}: {words}" if is_bare else f"{words}\n{text}")
                if words
                else text
            )
            answers.append(parts)
    return answers
