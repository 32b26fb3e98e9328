"""The marks of a model's reasoning, as its chat template has them.

Some templates open the reasoning in the prompt itself, and each family of models has its own
marks. They are learned from two texts: the generation prompt, and a message of the assistant
with reasoning, which is given in each of the forms that templates read.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from arena_trainers.lm.prompt_file import PROMPT_FILE
from arena_wrappers.prompts.reasoning import (
    CLOSING,
    OPENING,
    has_opening,
    names_marks,
    opening_at_end,
    without_reasoning,
)

THOUGHT, ANSWER = "\u2063thought\u2063", "\u2063answer\u2063"  # in nobody's template
FIELDS = ("reasoning_content", "reasoning", "thinking", "thought")

_MARK = r"<[^<>\s]{1,60}>|\[[^\[\]\s]{1,60}\]|\u25c1[^\s\u25b7]{1,60}\u25b7"
_LAST_MARK = re.compile(rf"({_MARK})\s*\Z")
_READS_REASONING = re.compile(
    rf"\.(?:{'|'.join(FIELDS)})\b|['\"](?:{'|'.join(FIELDS)})['\"]"
)

Render = Callable[[Sequence[Mapping[str, Any]], bool], str | None]


@dataclass(frozen=True)
class ReasoningMarks:
    r"""How a model marks its reasoning.

    Attributes:
        opening: what begins the reasoning.
        closing: what ends it.
        between: what the template writes from the end of the reasoning to the answer.
        header: what it writes before an answer without reasoning.
    """

    opening: str = OPENING
    closing: str = CLOSING
    between: str = f"\n{CLOSING}\n\n"
    header: str = ""

    def opened_by(self, prompt: str) -> str:
        """The end of a prompt that opens the reasoning, from the mark on; else empty."""
        text = prompt.rstrip()
        if not text.endswith(self.opening):
            return ""
        return prompt[len(text) - len(self.opening) :]

    def readable(self, reply: str) -> str:
        """A reply with marks that `arena_wrappers.prompts.reasoning` reads."""
        if self._is_standard:
            return reply
        if header := self.header.strip():
            reply = reply.replace(self.closing, CLOSING)
            reasoning, _, answer = reply.rpartition(header)
            if answer != reply:
                reply = f"{reasoning}{CLOSING}{answer}" if reasoning.strip() else answer
        return reply.replace(self.opening, OPENING).replace(self.closing, CLOSING)

    def written(self, reply: str) -> str:
        """A reply of `readable` with the model's own marks."""
        if self._is_standard:
            return reply
        return reply.replace(OPENING, self.opening).replace(CLOSING, self.closing)

    def behind(self, prompt: str, reply: str) -> str:
        """The text of a reply behind the end of its prompt, as the template would write it.

        Args:
            prompt: its end.
            reply: its text, with reasoning or without.
        """
        if not self.opened_by(prompt):
            has_reasoning = without_reasoning(reply) != reply
            return self.written(reply) if has_reasoning else f"{self.header}{reply}"
        if without_reasoning(reply) == reply:
            return f"{self.between}{reply}"
        return self.written(reply.removeprefix(OPENING).lstrip("\n"))

    @cached_property
    def _is_standard(self) -> bool:
        open_reply, closed_reply = f"{self.opening}x", f"{self.opening}x{self.closing}y"
        header = self.header.strip()
        return (
            without_reasoning(open_reply) is None
            and without_reasoning(closed_reply) == "y"
            and (not header or without_reasoning(f"{header}y") == "y")
        )


def stated_marks(marks: Sequence[str], render: Render, question: str) -> ReasoningMarks:
    """The marks that a user states: two texts, or none for a model that does not reason.

    Args:
        marks: `["<think>", "</think>"]`, or empty.
        render: the text of messages, with a generation prompt or without; None if the
            template raises.
        question: the content of a user message, which the texts are searched for.
    """
    opening, closing = marks or (OPENING, CLOSING)
    header = _answer_header(render, question, opening)
    return ReasoningMarks(opening, closing, f"\n{closing}\n\n", header)


def learned_marks(
    render: Render, question: str, template: str, name: str
) -> ReasoningMarks:
    """The marks that a chat template writes; those of most models where it writes none.

    Args:
        render: as for `stated_marks`.
        question: as for `stated_marks`.
        template: its source.
        name: of the tokenizer, for errors.

    Raises:
        ValueError: the template has marks that are not understood.
    """
    prompt = _text_after(question, render([_user_message(question)], True) or "")
    for message in _messages_with_reasoning():
        text = _text_after(
            question, render([_user_message(question), message], False) or ""
        )
        text_before, thought, text_after = text.partition(THOUGHT)
        between, answer, _ = text_after.partition(ANSWER)
        is_json = '"type"' in text_before  # of a template that shows parts as they are
        if thought and answer and not is_json:
            opening, closing = _opening_mark(text_before, prompt), between.strip()
            if not opening or not closing:
                raise _unknown_marks(name, f"{text_before!r}, {between!r}")
            header = _answer_header(render, question, opening)
            return ReasoningMarks(opening, closing, between, header)
    if opening := opening_at_end(prompt):
        return stated_marks([opening, _closing_mark(opening)], render, question)
    suffix = _prompt_suffix(render, question, prompt)
    if _LAST_MARK.search(suffix) and not has_opening(suffix):
        raise _unknown_marks(name, f"the prompt ends with {suffix!r}")
    if _READS_REASONING.search(template) and not names_marks(template):
        raise _unknown_marks(name, "it reads reasoning and shows none")
    return stated_marks([], render, question)


def _messages_with_reasoning() -> Iterator[dict[str, Any]]:
    for field in FIELDS:
        yield {"role": "assistant", "content": ANSWER, field: THOUGHT}
    parts = [
        {"type": "thinking", "thinking": THOUGHT},
        {"type": "text", "text": ANSWER},
    ]
    yield {"role": "assistant", "content": parts}


def _user_message(question: str) -> dict[str, Any]:
    return {"role": "user", "content": question}


def _text_after(question: str, text: str) -> str:
    return text.rpartition(question)[2]


def _opening_mark(before: str, prompt: str) -> str:
    """The mark before the reasoning: what follows the generation prompt, or the last mark."""
    header = prompt.rstrip()
    if before.startswith(header) and (added := before[len(header) :].strip()):
        return added
    mark = _LAST_MARK.search(before)
    return mark[1] if mark else opening_at_end(before)


def _text_before_reply(render: Render, question: str) -> str:
    """What the template writes from a user message to a reply without reasoning."""
    text = _rendered_reply(render, question)
    return text.partition(ANSWER)[0] if ANSWER in text else ""


def _rendered_reply(render: Render, question: str) -> str:
    """What it writes from a user message on, if a reply without reasoning follows."""
    reply = {"role": "assistant", "content": ANSWER}
    return _text_after(question, render([_user_message(question), reply], False) or "")


def _answer_header(render: Render, question: str, opening: str) -> str:
    """What it writes from the generation prompt to a reply without reasoning.

    Args:
        render: as for `stated_marks`.
        question: as for `stated_marks`.
        opening: the mark that begins reasoning. Reasoning that is empty is left out.
    """
    prompt = _text_after(question, render([_user_message(question)], True) or "")
    text_before = _text_before_reply(render, question)
    if not text_before.startswith(prompt) or prompt.rstrip().endswith(opening):
        return ""
    header = text_before[len(prompt) :]
    return "" if opening in header or has_opening(header) else header


def _prompt_suffix(render: Render, question: str, prompt: str) -> str:
    """The end of the generation prompt that the template does not write before replies."""
    text_before = _text_before_reply(render, question)
    reply_end = _rendered_reply(render, question).partition(ANSWER)[2]
    num_shared = 0
    for pair in zip(text_before, prompt, strict=False):
        if pair[0] != pair[1]:
            break
        num_shared += 1
    suffix = prompt[num_shared:]
    return "" if suffix.strip() in reply_end else suffix


def _closing_mark(opening: str) -> str:
    """The closing mark of a family whose opening mark a prompt ends with."""
    for closing in (f"{opening[0]}/{opening[1:]}", opening.replace("START", "END")):
        if without_reasoning(f"{opening}x{closing}y") == "y":
            return closing
    pairs = {"<|channel>": "<channel|>", "<|begin_of_thought|>": "<|end_of_thought|>"}
    return pairs.get(opening, "<|channel|>final<|message|>")


def _unknown_marks(name: str, reason: str) -> ValueError:
    return ValueError(
        f"the chat template of {name} has marks of reasoning that are not understood "
        f"({reason}): state them as reasoning_marks, such as ['<think>', '</think>'], or [] "
        f"if the model does not reason; {PROMPT_FILE} in the model's folder may hold them"
    )
