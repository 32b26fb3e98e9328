r"""Marks of reasoning in replies: what stands between them is neither played nor shown.

Models differ in their marks. These are read in every reply:

| opens | closes |
|---|---|
| `<think>`, `<thinking>`, `<thought>`, `<reasoning>`, `<seed:think>` | `</think>` and so on |
| `[THINK]` | `[/THINK]` |
| `<\|START_THINKING\|>` | `<\|END_THINKING\|>` |
| `<\|begin_of_thought\|>` | `<\|end_of_thought\|>` |
| `<\|channel\|>analysis<\|message\|>`, or another channel but `final` | `<\|channel\|>final<\|message\|>` |
| `<\|channel>` | `<channel\|>` |
| `◁think▷` | `◁/think▷` |

A policy whose model has other marks writes `OPENING` and `CLOSING` in place of them, and
`OPENING` where the prompt has opened the reasoning.
"""

import re

OPENING, CLOSING = "<think>", "</think>"

_WORDS = ("think", "thinking", "thought", "reasoning", "seed:think")
_START_RESPONSE = r"(?:\s*<\|START_RESPONSE\|>)?"
_FAMILIES = tuple(
    (re.compile(opening), re.compile(closing))
    for opening, closing in (
        *((f"<{word}>", f"</{word}>") for word in _WORDS),
        (r"\[THINK\]", r"\[/THINK\]"),
        (r"<\|START_THINKING\|>", rf"<\|END_THINKING\|>{_START_RESPONSE}"),
        (r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>"),
        (
            r"<\|channel\|>(?!final\b)[^<]{0,100}<\|message\|>",
            r"<\|channel\|>final[^<]{0,100}<\|message\|>",
        ),
        (r"<\|channel>", r"<channel\|>"),
        ("\u25c1think\u25b7", "\u25c1/think\u25b7"),
    )
)
_ANY_MARK = re.compile("|".join(mark.pattern for pair in _FAMILIES for mark in pair))


def without_reasoning(text: str) -> str | None:
    """What follows the last reasoning of a reply, to its end; None if reasoning is not closed.

    >>> without_reasoning("[THINK]K is high.[/THINK]bet")
    'bet'
    >>> without_reasoning("<think>K is high. bet") is None
    True
    """
    if not _ANY_MARK.search(text):  # most replies
        return text
    begin = 0
    for opening, closing in _FAMILIES:
        opened = max((match.end() for match in opening.finditer(text)), default=0)
        closed = max((match.end() for match in closing.finditer(text)), default=0)
        if opened > closed:
            return None
        begin = max(begin, closed)
    return text[begin:]


def opening_at_end(text: str) -> str:
    r"""The opening mark with which a text ends, white space aside; empty without one.

    >>> opening_at_end("Assistant: <think>\n")
    '<think>'
    """
    text = text.rstrip()
    for opening, _ in _FAMILIES:
        for match in opening.finditer(text):
            if match.end() == len(text):
                return match[0]
    return ""


def has_opening(text: str) -> bool:
    """Whether a mark that opens reasoning occurs in a text."""
    return bool(_ANY_MARK.search(text)) and any(
        opening.search(text) for opening, _ in _FAMILIES
    )


def names_marks(text: str) -> bool:
    """Whether one of these marks occurs in a text, such as the source of a chat template."""
    return any(mark.search(text) for family in _FAMILIES for mark in family)
