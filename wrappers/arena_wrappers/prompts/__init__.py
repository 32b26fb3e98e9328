"""Prompts: what models read, and how their replies are read."""

from arena_wrappers.prompts.formats import (
    FORMATS,
    Instead,
    InvalidReply,
    Parsing,
    ReplyFormat,
    after_reasoning,
    legal_texts,
    parse_reply,
    reply_format_named,
)
from arena_wrappers.prompts.messages import (
    PROMPT_OPTIONS,
    History,
    Message,
    PromptOptions,
    messages,
    neutralise,
    seat_options,
)
from arena_wrappers.prompts.seating import (
    Seating,
    Seats,
    View,
    ask_again,
    named_seats,
    said_by_author,
)

__all__ = [
    "FORMATS",
    "PROMPT_OPTIONS",
    "History",
    "Instead",
    "InvalidReply",
    "Message",
    "Parsing",
    "PromptOptions",
    "ReplyFormat",
    "Seating",
    "Seats",
    "View",
    "after_reasoning",
    "ask_again",
    "legal_texts",
    "messages",
    "named_seats",
    "neutralise",
    "parse_reply",
    "reply_format_named",
    "said_by_author",
    "seat_options",
]
