r"""Reply formats: the place of the answer in a policy's reply.

- `"answer"`: between `<answer>` and `</answer>`, exactly once;
- `"boxed"`: in `\boxed{...}`, exactly once, braces inside it in pairs;
- `"bracket"`: in `[...]`, exactly once;
- `"bare"`: the whole text.

In language games the answer includes the message to the other players. They do not read the
rest of the reply, which may be reasoning. `arena_wrappers.prompts.parsing` reads the answer.
"""

from dataclasses import dataclass
from typing import Literal, Protocol

from arena_envs.checks import check_known
from arena_envs.talk import to_closing_brace

MAX_ANSWER = 4000  # characters

Instead = Literal[
    "empty", "reasoning", "refusal", "tool_call", "content_filter", "context_length"
]
Reason = Literal["format", "illegal", "ambiguous", "overlong"] | Instead


@dataclass(frozen=True)
class InvalidReply:
    """The reason why a reply is no action.

    Attributes:
        reason: `"format"` (no answer found), `"illegal"` (the answer names no legal
            action), `"ambiguous"` (more than one answer), `"overlong"` (cut at a limit, or
            an answer beyond `MAX_ANSWER` characters), `"reasoning"` (the reply ends within its
            reasoning), or why a model sent no text: `"empty"`, `"refusal"`, `"tool_call"`,
            `"content_filter"` or `"context_length"`.
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


@dataclass(frozen=True)
class Enclosed:
    """The answer stands between an opening and a closing mark."""

    opening: str
    closing: str

    @property
    def place(self) -> str:
        """Where the answer stands, for instructions."""
        return f"between {self.opening} and {self.closing}"

    @property
    def instruction(self) -> str:
        return (
            "Think if you like. Then give exactly one legal action, exactly as it is "
            f"listed, {self.place}."
        )

    @property
    def free_instruction(self) -> str:
        return (
            "Think if you like. Then give your action, with any message that the rules "
            f"allow, {self.place}. {_UNHEARD}"
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
            return InvalidReply("format", f"Write your action as {shape}.")
        if opened > 1 or closed > 1:
            return InvalidReply("ambiguous", "Write one answer, not several.")
        answers = self.answers(text)
        if not answers:
            return InvalidReply(
                "format", "Write the opening mark before the closing one."
            )
        return answers[0]


class BoxedFormat(Enclosed):
    r"""The answer stands in `\boxed{...}`."""

    place = r"in \boxed{...}"

    def answers(self, text: str) -> list[str]:
        answers = [to_closing_brace(part) for part in text.split(r"\boxed{")[1:]]
        return [answer for answer in answers if answer is not None]

    def extract(self, text: str) -> str | InvalidReply:
        num_boxes, answers = text.count(r"\boxed{"), self.answers(text)
        if num_boxes > 1:
            return InvalidReply("ambiguous", "Write one box, not several.")
        if not answers:
            return InvalidReply("format", r"Write your action as \boxed{...}.")
        return answers[0]


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
    "answer": Enclosed("<answer>", "</answer>"),
    "bare": BareFormat(),
    "boxed": BoxedFormat("\\boxed{", "}"),
    "bracket": Enclosed("[", "]"),
}


def find_reply_format(name: str) -> ReplyFormat:
    """The reply format of this name.

    Raises:
        ValueError: there is none.
    """
    check_known(name, FORMATS, f"unknown reply format {name!r}")
    return FORMATS[name]
