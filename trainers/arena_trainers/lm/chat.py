"""`Chat`: from chat messages to token ids, and which tokens end a reply."""

from collections.abc import Sequence
from typing import Any

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from arena_wrappers.prompts import Message

_STAND_IN = "\u2063reply\u2063"  # invisible separators: in nobody's template
_ASKED, _RULES = "\u2063asked\u2063", "\u2063rules\u2063"


class Chat:
    """A tokenizer's chat template, tried out before it is used.

    Where the template refuses or drops system messages (Gemma 1 and 2), their text begins
    the first user message. Where it reads contents as lists of parts (templates of vision
    models), it gets them so.

    Args:
        tokenizer: with a chat template.
        known_ends: further tokens that end a reply, as a model's `generation_config` lists.
        template_options: passed to the chat template.

    Attributes:
        end_ids: tokens that end a reply. In order: the added token that the template writes
            after an assistant message, the tokenizer's EOS, `known_ends`.

    Raises:
        ValueError: there is no chat template, or it does not show user messages.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        known_ends: Sequence[int] = (),
        template_options: dict[str, Any] | None = None,
    ) -> None:
        if tokenizer.chat_template is None:
            raise ValueError("the tokenizer has no chat template, so it cannot prompt")
        self.tokenizer = tokenizer
        self._options = template_options or {}
        self._added: dict[int, str] = {
            i: str(token) for i, token in tokenizer.added_tokens_decoder.items()
        }
        self._in_parts, self._has_system = False, True
        asked: Message = {"role": "user", "content": _ASKED}
        if not self._shows(asked):
            self._in_parts = True
            if not self._shows(asked):
                try:
                    self._text([asked], prompt=True)
                    reason = "it drops the text"
                except (TemplateError, TypeError) as error:
                    reason = str(error)
                raise ValueError(
                    "want a chat template that shows user messages; that of "
                    f"{self._name} does not ({reason}); use the instruct version of "
                    "the model"
                )
        self._has_system = self._shows({"role": "system", "content": _RULES}, asked)
        final, middle = self._endings()
        ends = [final, tokenizer.eos_token_id, *known_ends]
        self.end_ids = list(dict.fromkeys(int(i) for i in ends if i is not None))
        # what the template writes after a reply, unless that opens the next message
        is_end = final is not None and not self._opens_message(middle)
        self._closing = {final, middle} if is_end else set()

    def encode(self, messages: Sequence[Message]) -> list[int]:
        """Token ids of a prompt that is given as messages, up to where the reply begins."""
        return self.ids(self._render(messages))

    def ids(self, text: str) -> list[int]:
        """Token ids of a text as it stands."""
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        return ids

    def continuation(
        self, context_ids: Sequence[int], messages: Sequence[Message]
    ) -> list[int]:
        """Token ids of what follows a conversation that is known token by token.

        Args:
            context_ids: the conversation, up to the end of this seat's last reply.
            messages: of the whole prompt; those after the last reply are new.

        Raises:
            ValueError: the template cannot show earlier replies.
        """
        last = max(i for i, m in enumerate(messages) if m["role"] == "assistant")
        rest = self._after_reply(messages[last + 1 :], prompt=True)
        ids = self.ids(rest)
        if context_ids[-1] not in self.end_ids:
            return ids
        at = self._first_added(ids)
        if at is not None and ids[at] in {context_ids[-1], *self._closing}:
            return ids[at + 1 :]
        return ids

    def check_replies(self) -> None:
        """Finds out whether prompts can hold earlier replies.

        Transcripts hold them, and so do prompts that ask again after an invalid reply.

        Raises:
            ValueError: the template cannot show them; says what would do.
        """
        self._after_reply([{"role": "user", "content": _ASKED}], prompt=True)

    @property
    def _name(self) -> str:
        return repr(self.tokenizer.name_or_path or type(self.tokenizer).__name__)

    def _shows(self, *messages: Message) -> bool:
        """True if all of these messages can be read in the prompt."""
        try:
            text = self._text(messages, prompt=True)
        except (TemplateError, TypeError):
            return False
        return all(message["content"] in text for message in messages)

    def _endings(self) -> tuple[int | None, int | None]:
        """Tokens that follow an assistant's message, as the last one and as an earlier one."""
        found: list[int | None] = []
        for following in ([], [Message(role="user", content=_ASKED)]):
            try:
                ids = self.ids(self._after_reply(following, prompt=False))
            except ValueError:
                ids = []
            at = self._first_added(ids)
            found.append(None if at is None else ids[at])
        return found[0], found[1]

    def _opens_message(self, token: int | None) -> bool:
        """True if a token that follows a reply is there because a user speaks next."""
        asked: Message = {"role": "user", "content": _ASKED}
        try:
            between = self._after_reply([asked], prompt=True)
        except ValueError:
            return False
        before = self._text([asked], prompt=True)
        found = [
            [i for i in self.ids(text.partition(_ASKED)[0]) if i in self._added]
            for text in (between, before)
        ]
        return found[0] == [token] and found[1][-1:] == [token]

    def _first_added(self, ids: Sequence[int]) -> int | None:
        """Index of the token beyond the vocabulary that comes first, but for white space."""
        at = next((i for i, token in enumerate(ids) if token in self._added), None)
        if at is None or str(self.tokenizer.decode(list(ids[:at]))).strip():
            return None
        return at

    def _after_reply(self, following: Sequence[Message], prompt: bool) -> str:
        """The text of a conversation after a reply, the end of the reply included."""
        messages: list[Message] = [
            {"role": "user", "content": "?"},
            {"role": "assistant", "content": _STAND_IN},
            *following,
        ]
        reason = "it drops them"
        try:
            _, found, rest = self._text(messages, prompt).rpartition(_STAND_IN)
        except (TemplateError, TypeError) as error:
            found, reason = "", str(error)
        if not found:
            raise ValueError(
                f"the chat template of {self._name} cannot show earlier replies "
                f"({reason}): use history='state' without on_invalid='retry'"
            )
        return rest

    def _render(self, messages: Sequence[Message]) -> str:
        try:
            return self._text(messages, prompt=True)
        except TemplateError:
            # some raise at special tokens in a reply, which a seat may have written
            broken: list[Message] = [
                {**m, "content": self._safe(m["content"])} for m in messages
            ]
            return self._text(broken, prompt=True)

    def _text(self, messages: Sequence[Message], prompt: bool) -> str:
        shown = messages if self._has_system else _without_system(messages)
        given: list[Any] = []
        for message in shown:
            role, content = message["role"], message["content"]
            text = content if role == "assistant" else self._safe(content)
            parts = [{"type": "text", "text": text}]
            given.append({"role": role, "content": parts if self._in_parts else text})
        whole = self.tokenizer.apply_chat_template(
            given, tokenize=False, add_generation_prompt=prompt, **self._options
        )
        return str(whole)

    def _safe(self, text: str) -> str:
        for special in self._added.values():
            if special.strip() and special in text:
                text = text.replace(special, f"{special[0]} {special[1:]}")
        return text


def _without_system(messages: Sequence[Message]) -> list[Message]:
    """The messages with the system's text at the beginning of the first user message."""
    rules = [m["content"] for m in messages if m["role"] == "system"]
    rest = [m for m in messages if m["role"] != "system"]
    if not rules:
        return rest
    first = next((i for i, m in enumerate(rest) if m["role"] == "user"), None)
    if first is None:
        return [{"role": "user", "content": "\n\n".join(rules)}, *rest]
    text = "\n\n".join([*rules, rest[first]["content"]])
    return [*rest[:first], {"role": "user", "content": text}, *rest[first + 1 :]]
