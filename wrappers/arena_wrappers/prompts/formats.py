r"""Reply formats: from a policy's raw reply to a legal action, or to an `InvalidReply`.

A reply is hostile input: no text, of any length or alphabet, raises an exception here.
Only the text after the last `</think>` is read. The formats differ in the place of the
answer:

- `"answer"`: between `<answer>` and `</answer>`, exactly once;
- `"boxed"`: in `\boxed{...}`, exactly once, braces inside it in pairs;
- `"bracket"`: in `[...]`, exactly once;
- `"bare"`: the whole text.

In language games the answer includes the message to the other players. They do not read the
rest of the reply, which may be reasoning.

The answer must be a legal action's canonical text, whatever its case and white space, or
a text that the game's own `parse` reads. This is strict parsing.

Tolerant parsing accepts more replies, by fixed rules:

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
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from arena_envs.checks import did_you_mean
from arena_envs.game import AnyGame, IllegalAction, fold

MAX_ANSWER = 4000  # characters
MAX_FAULT = 200  # characters of a game's reason for refusing an answer

Instead = Literal["empty", "refusal", "tool_call", "content_filter", "context_length"]
Reason = Literal["format", "illegal", "ambiguous", "overlong"] | Instead


@dataclass(frozen=True)
class InvalidReply:
    """The reason why a reply is no action.

    Attributes:
        reason: `"format"` (no answer found), `"illegal"` (the answer names no legal
            action), `"ambiguous"` (more than one answer), `"overlong"` (cut at a limit, or
            an answer beyond `MAX_ANSWER` characters), or why a model sent no text:
            `"empty"`, `"refusal"`, `"tool_call"`, `"content_filter"` or `"context_length"`.
        detail: the reason in a sentence, without a quotation of the reply.
    """

    reason: Reason
    detail: str


class ReplyFormat(Protocol):
    """The place of the answer in a reply."""

    @property
    def instruction(self) -> str:
        """The instruction on how to reply."""

    @property
    def free_instruction(self) -> str:
        """The instruction in language games, where legal actions are only examples."""

    def wrap(self, action_text: str) -> str:
        """The shortest reply with this answer."""

    def answers(self, text: str) -> list[str]:
        """All answers in the part of a reply that follows the reasoning, in order."""

    def extract(self, text: str) -> str | InvalidReply:
        """The answer if there is exactly one, else the reason why not."""


_UNHEARD = "Nobody else reads what you write outside."


class _Enclosed:
    """The answer stands between an opening and a closing mark."""

    opening: str
    closing: str

    @property
    def instruction(self) -> str:
        return (
            "Think if you like. Then give exactly one legal action, exactly as it is "
            f"listed, between {self.opening} and {self.closing}."
        )

    @property
    def free_instruction(self) -> str:
        return (
            "Think if you like. Then give your action, with any message that the rules "
            f"allow, between {self.opening} and {self.closing}. {_UNHEARD}"
        )

    def wrap(self, action_text: str) -> str:
        return f"{self.opening}{action_text}{self.closing}"

    def answers(self, text: str) -> list[str]:
        parts = (part.partition(self.closing) for part in text.split(self.opening)[1:])
        return [answer for answer, closed, _ in parts if closed]

    def extract(self, text: str) -> str | InvalidReply:
        opened, closed = text.count(self.opening), text.count(self.closing)
        if opened == 0 or closed == 0:
            shape = f"{self.opening}...{self.closing}"
            return InvalidReply("format", f"The reply has no {shape}.")
        if opened > 1 or closed > 1:
            return InvalidReply("ambiguous", "The reply has more than one answer.")
        found = self.answers(text)
        if not found:
            return InvalidReply("format", "The answer marks are in the wrong order.")
        return found[0]


class AnswerFormat(_Enclosed):
    """The answer stands between `<answer>` and `</answer>`."""

    opening, closing = "<answer>", "</answer>"


class BracketFormat(_Enclosed):
    """The answer stands between `[` and `]`."""

    opening, closing = "[", "]"


class BoxedFormat:
    r"""The answer stands in `\boxed{...}`."""

    instruction = (
        "Think if you like. Then give exactly one legal action, exactly as it is listed, "
        r"in \boxed{...}."
    )
    free_instruction = (
        "Think if you like. Then give your action, with any message that the rules "
        rf"allow, in \boxed{{...}}. {_UNHEARD}"
    )

    def wrap(self, action_text: str) -> str:
        return rf"\boxed{{{action_text}}}"

    def answers(self, text: str) -> list[str]:
        found = [_to_closing_brace(part) for part in text.split(r"\boxed{")[1:]]
        return [answer for answer in found if answer is not None]

    def extract(self, text: str) -> str | InvalidReply:
        num_boxes, found = text.count(r"\boxed{"), self.answers(text)
        if num_boxes > 1:
            return InvalidReply("ambiguous", "The reply has more than one box.")
        if not found:
            return InvalidReply("format", r"The reply has no \boxed{...}.")
        return found[0]


def _to_closing_brace(text: str) -> str | None:
    """The text before the first closing brace without an opening one; None without."""
    depth = 1
    for brace in re.finditer("[{}]", text):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return text[: brace.start()]
    return None


class BareFormat:
    """The answer is the whole reply."""

    instruction = (
        "Reply with exactly one legal action, exactly as listed, and nothing else."
    )
    free_instruction = "Reply with your action, with any message that the rules allow, and nothing else."

    def wrap(self, action_text: str) -> str:
        return action_text

    def answers(self, text: str) -> list[str]:
        return [text] if text.strip() else []

    def extract(self, text: str) -> str | InvalidReply:
        return text if text.strip() else InvalidReply("format", "The reply is empty.")


FORMATS: dict[str, ReplyFormat] = {
    "answer": AnswerFormat(),
    "bare": BareFormat(),
    "boxed": BoxedFormat(),
    "bracket": BracketFormat(),
}


def reply_format_named(name: str) -> ReplyFormat:
    """The reply format of this name.

    Raises:
        ValueError: there is none.
    """
    if name not in FORMATS:
        raise ValueError(
            f"unknown reply format {name!r}; {did_you_mean(name, FORMATS)}"
        )
    return FORMATS[name]


def parse_reply(
    game: AnyGame,
    state: Any,
    text: str,
    reply_format: str = "answer",
    legal: Sequence[str] | None = None,
) -> Any | InvalidReply:
    """The legal action that a reply names, or an `InvalidReply`; never an exception.

    Args:
        game: the rules.
        state: a state in which a seat is to move.
        text: the raw reply.
        reply_format: name of a reply format.
        legal: canonical texts of the legal actions, if they are known.

    >>> import arena_envs
    >>> game = arena_envs.make_game("kuhn_poker")
    >>> state = game.apply(game.apply(game.initial_state(), 2), 0)
    >>> parse_reply(game, state, "<think>K is high.</think><answer> BET </answer>")
    1
    >>> parse_reply(game, state, "<answer>bet</answer> or <answer>pass</answer>").reason
    'ambiguous'
    """
    rest = after_reasoning(text)
    if isinstance(rest, InvalidReply):
        return rest
    answer = reply_format_named(reply_format).extract(rest)
    if isinstance(answer, InvalidReply):
        return answer
    return action_named(game, state, answer, legal)


def after_reasoning(text: str) -> str | InvalidReply:
    """The text after the last `</think>`."""
    _, _, rest = text.rpartition("</think>")
    if "<think>" in rest:
        return InvalidReply("format", "The reasoning is not closed by </think>.")
    return rest


def legal_texts(game: AnyGame, state: Any) -> list[str]:
    """Canonical texts of the legal actions, in their order."""
    return [game.action_text(state, action) for action in game.legal_actions(state)]


def action_named(
    game: AnyGame, state: Any, answer: str, legal: Sequence[str] | None = None
) -> Any | InvalidReply:
    """The legal action that an answer names: by its canonical text, or by `Game.parse`."""
    if len(answer) > MAX_ANSWER:
        return InvalidReply("overlong", f"The answer exceeds {MAX_ANSWER} characters.")
    answer, actions = answer.strip(), game.legal_actions(state)
    legal = legal_texts(game, state) if legal is None else legal
    if answer in legal:  # texts may differ in case alone, as bxc3 and Bxc3 in chess
        return actions[legal.index(answer)]
    wanted = fold(answer)
    named = [
        action for action, t in zip(actions, legal, strict=True) if fold(t) == wanted
    ]
    if len(named) == 1:
        return named[0]
    if named:
        return InvalidReply("ambiguous", "The answer fits several legal actions.")
    try:
        action = game.parse(state, answer)
    except ValueError as error:  # IllegalAction, or too many digits for int()
        if game.num_actions is None and isinstance(error, IllegalAction):
            return InvalidReply("illegal", _fault(error))
        return InvalidReply("illegal", "The answer is not a legal action.")
    if game.num_actions is not None and action not in actions:
        return InvalidReply("illegal", "The answer is not a legal action.")
    return action


def _fault(error: IllegalAction) -> str:
    """The wanted part of a game's message, without the part that may quote the reply."""
    want = str(error).partition(", got")[0][:MAX_FAULT]
    return f"The answer is not as the rules want it now: {want}."


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
    r"""Like `parse_reply`, but by the rules of tolerant parsing.

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
