r"""Tolerant parsing: fixed rules that accept more replies than strict parsing.

1. Only the text after the last `</think>` is read. Reasoning that is not closed is invalid.
2. The answer is the last one in the reply format. If there is none, it is the last line
   with text. A bare reply in a language game is read as a whole, because its lines may be
   words to the other players.
3. If the answer names no action, it is read again without surrounding quotes, emphasis,
   brackets and punctuation, and without a label such as `Action:` or `Final answer:`.
4. If it still names none, the answer is searched for the texts of legal actions, as whole
   words. One action found is the action; several make the reply ambiguous. Where one text
   contains another ("bet 2" and "bet"), the longer counts. An action "2" is not found in
   2.5, -2, 2,000 or 2%. Language games skip this rule: only the game itself reads texts.

These rules take "I do not bet." for "bet". Use strict parsing, the default, to measure a
policy.
"""

import re
from collections.abc import Sequence
from typing import Any

from arena_envs.game import AnyGame, fold
from arena_wrappers.formats import (
    MAX_ANSWER,
    InvalidReply,
    action_named,
    after_reasoning,
    legal_texts,
    reply_format_named,
)

_LABEL = re.compile(
    r"(?:(?:the|my|final|next|chosen)\s+){0,3}(?:action|answer|move|choice)\s*(?:is\b|:)\s*",
    re.IGNORECASE,
)
_BEFORE = r"(?<!\w)(?<![\d][.,/])(?<!(?<!\w)-)"  # also not after a sign
_AFTER = r"(?!\w)(?![.,/]\d)(?! ?%)"
_AROUND = " \t\n\r*_`'\"()[]{}<>.,;:!"


def parse_tolerantly(
    game: AnyGame,
    state: Any,
    text: str,
    reply_format: str = "answer",
    legal: Sequence[str] | None = None,
) -> Any | InvalidReply:
    r"""Like `arena_wrappers.formats.parse_reply`, but by the rules above.

    >>> import arena_envs
    >>> game = arena_envs.make_game("kuhn_poker")
    >>> state = game.apply(game.apply(game.initial_state(), 2), 0)
    >>> parse_tolerantly(game, state, "K is high.\nFinal answer: **Bet.**")
    1
    >>> parse_tolerantly(game, state, "I bet or pass.").reason
    'ambiguous'
    """
    rest = after_reasoning(text)
    if isinstance(rest, InvalidReply):
        return rest
    legal = legal_texts(game, state) if legal is None else legal
    tagged = reply_format != "bare" and reply_format_named(reply_format).answers(rest)
    is_talk = reply_format == "bare" and game.num_actions is None
    answer = tagged[-1] if tagged else rest if is_talk else _last_line(rest)
    if not answer.strip():
        return InvalidReply("format", "The reply has no answer.")
    if len(answer) > MAX_ANSWER:
        return InvalidReply("overlong", f"The answer exceeds {MAX_ANSWER} characters.")
    stripped = _LABEL.sub("", answer.strip(_AROUND), count=1).strip(_AROUND)
    for candidate in dict.fromkeys((answer.strip(), stripped)):
        outcome = action_named(game, state, candidate, legal)
        if not isinstance(outcome, InvalidReply):
            return outcome
    return (
        outcome if game.num_actions is None else _mentioned(game, state, answer, legal)
    )


def _last_line(text: str) -> str:
    return text.rstrip().rpartition("\n")[2]


def _mentioned(
    game: AnyGame, state: Any, answer: str, legal: Sequence[str]
) -> Any | InvalidReply:
    """The legal action whose text occurs in the answer, if there is exactly one."""
    folded = [fold(text) for text in legal]
    longest_first = sorted(set(folded), key=lambda text: (-len(text), text))
    pattern = "|".join(re.escape(text) for text in longest_first)
    starts = re.finditer(rf"{_BEFORE}(?=({pattern}){_AFTER})", fold(answer))
    found, end = set[str](), 0
    for start in starts:
        if start.end(1) > end:  # else it is inside a longer one
            found.add(start[1])
            end = start.end(1)
    if len(found) > 1:
        return InvalidReply("ambiguous", "The answer names several legal actions.")
    if not found or folded.count(text := found.pop()) > 1:
        return InvalidReply("illegal", "The answer is not a legal action.")
    return game.legal_actions(state)[folded.index(text)]
