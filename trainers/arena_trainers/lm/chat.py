"""`Chat`: from chat messages to token ids, and which tokens end a reply.

Text of others is broken at control tokens, so that it opens no message: the added tokens that the
chat template writes, and those that begin and end texts. It stands in user messages. The words
of this package, words and single characters stay whole even where they are added tokens.

A reply is encoded behind the end of its prompt and cut off, because tokenizers write a text
otherwise at its beginning.
"""

import datetime
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, Protocol

from jinja2 import Environment, TemplateError
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from arena_trainers.lm.pieces import PieceEncoder
from arena_trainers.lm.reasoning import (
    ReasoningMarks,
    learned_marks,
    stated_marks,
)
from arena_wrappers.prompts import DATE, Message
from arena_wrappers.prompts.reasoning import first_reasoning, has_opening

_REPLY_MARKER = "\u2063reply\u2063"  # invisible separators: in nobody's template
_QUESTION_MARKER, _SYSTEM_MARKER = "\u2063asked\u2063", "\u2063rules\u2063"
_CONTEXTS = ("\n", ":", "x", "<", "")  # of a text that does not stand at a beginning
_STRFTIME = ("-d", "-m", *"aAbBcdDeFGHIjmMpSTuUVwWxXyYzZ%")  # directives
TAIL = 32  # tokens of a prompt's end that a reply is encoded behind
MAX_MEMO = 50_000  # replies whose token ids are remembered


class Chat:
    """A tokenizer's chat template, tried out before it is used.

    Where the template refuses or drops system messages (Gemma 1 and 2), their text begins
    the first user message. Where it reads contents as lists of parts (templates of vision
    models), it gets them so.

    Args:
        tokenizer: with a chat template.
        known_ends: further tokens that end a reply, as a model's `generation_config` lists.
        template_options: passed to the chat template.
        reasoning_marks: what begins and what ends the model's reasoning; empty if it does not
            reason; None to learn the marks from the template.
        date: the day that the template reads as today, as in `PromptOptions`.

    Attributes:
        end_ids: tokens that end a reply. In order: the added token that the template writes
            after an assistant message, the tokenizer's EOS, `model_end_ids`.
        marks: of the model's reasoning.

    Raises:
        ValueError: there is no chat template, it does not show user messages, or it has marks
            of reasoning that are not understood.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        model_end_ids: Sequence[int] = (),
        template_options: dict[str, Any] | None = None,
        reasoning_marks: Sequence[str] | None = None,
        date: str = DATE,
    ) -> None:
        if tokenizer.chat_template is None:
            raise ValueError("the tokenizer has no chat template, so it cannot prompt")
        self.tokenizer, self.date = tokenizer, date
        self._decoder = _decoder_of(tokenizer)
        self._options = template_options or {}
        self._template = str(tokenizer.get_chat_template())
        self._control_texts: list[str] = []  # none while the template is tried out
        self._replies: dict[tuple[Any, ...], list[int]] = {}
        self._pieces: dict[int, str] = {}  # text of tokens
        self._opened_reasoning: dict[
            tuple[int, ...], str
        ] = {}  # by the end of a prompt
        self._added_tokens: dict[int, str] = {
            i: str(token) for i, token in tokenizer.added_tokens_decoder.items()
        }
        self._in_parts, self._has_system = False, True
        self.marks: ReasoningMarks = ReasoningMarks()  # until they are known
        question: Message = {"role": "user", "content": _QUESTION_MARKER}
        self._in_parts = not self._shows(question)
        self._check_shows_users(question)
        self._has_system = self._shows(
            {"role": "system", "content": _SYSTEM_MARKER}, question
        )
        final, middle = self._endings()
        ends = [final, tokenizer.eos_token_id, *model_end_ids]
        self.end_ids = list(dict.fromkeys(int(i) for i in ends if i is not None))
        # what the template writes after a reply, unless that opens the next message
        is_end = final is not None and not self._opens_message(middle)
        self._closing = {final, middle} if is_end else set()
        if reasoning_marks is None:
            self.marks = learned_marks(
                self._try_render, _QUESTION_MARKER, self._template, self._name
            )
        else:
            self.marks = stated_marks(
                reasoning_marks, self._try_render, _QUESTION_MARKER
            )
        self._control_texts = self._control_tokens()
        self._encoder = PieceEncoder(
            tokenizer, self._control_texts, self._sample_texts()
        )

    def encode(self, messages: Sequence[Message], date: str | None = None) -> list[int]:
        """Token ids of a prompt that is given as messages, up to where the reply begins.

        Args:
            messages: of the prompt.
            date: the day that the template reads as today; by default that of the chat.
        """
        return self.ids_of([self.prompt_text(messages, date)])[0]

    def prompt_text(self, messages: Sequence[Message], date: str | None = None) -> str:
        """The text of a prompt; arguments as for `encode`."""
        try:
            return self._text(messages, prompt=True, date=date)
        except TemplateError:
            # some raise at special tokens in a reply, which a seat may have written
            safe = [self._safe_message(message) for message in messages]
            return self._text(safe, prompt=True, date=date)

    def ids_of(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of texts of the template, as `ids` gives them for each."""
        return self._encoder.encode(texts)

    def ids(self, text: str) -> list[int]:
        """Token ids of a text as it stands."""
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        return ids

    def reply_ids(
        self, prompt_ids: Sequence[int], reply: str, plain: bool = False
    ) -> list[int]:
        """Token ids of a reply behind its prompt, without its end.

        Where the prompt opens the reasoning, a reply without reasoning closes it first, as the
        template does. Where the template writes a header before an answer, the reply has it.

        Args:
            prompt_ids: of the prompt.
            reply: its text.
            plain: whether special tokens that it spells stay text.

        Raises:
            ValueError: the tokenizer cannot write the reply behind this prompt.
        """
        tail = self._tail(prompt_ids)
        if (tail, reply, plain) in self._replies:
            return self._replies[tail, reply, plain]
        text = self.marks.behind(self.decoded(tail), reply)
        ids = self.text_ids(prompt_ids, text, plain)
        if not plain:  # the replies of others are many, and long
            if len(self._replies) >= MAX_MEMO:
                self._replies.clear()
            self._replies[tail, reply, plain] = ids
        return ids

    def text_ids(
        self, prompt_ids: Sequence[int], text: str, plain: bool = False
    ) -> list[int]:
        """Token ids of a text behind these tokens; arguments as for `reply_ids`."""
        tail = self._tail(prompt_ids)
        return self._behind(tail, self.decoded(tail), text, plain)

    def check_reply(self, messages: Sequence[Message], reply: str) -> None:
        """Compares `reply_ids` with the tokens of the whole text, prompt and reply.

        Raises:
            ValueError: they differ.
        """
        prompt = self.prompt_text(messages)
        prompt_ids = self.ids(prompt)
        scored = self.reply_ids(prompt_ids, reply)
        text = self.marks.behind(prompt, reply)
        whole_ids = self.ids(prompt + text)
        is_cut = whole_ids[: len(prompt_ids)] == prompt_ids
        if is_cut and whole_ids[len(prompt_ids) :] != scored:
            raise ValueError(
                f"the tokenizer of {self._name} writes {text!r} behind a whole prompt as "
                f"{whole_ids[len(prompt_ids) :]}, and behind its end as {scored}: what would be "
                "scored is not what is sampled; use a model whose chat template ends the "
                "prompt with a special token"
            )

    def readable_reply(self, prompt_ids: Sequence[int], text: str) -> str:
        """The text of sampled tokens, with marks of reasoning that parsing reads.

        Where the prompt opens the reasoning, the text begins with that mark.
        """
        return self.marks.readable(f"{self._opened_by(prompt_ids)}{text}")

    def _opened_by(self, prompt_ids: Sequence[int]) -> str:
        """The end of a prompt that opens the reasoning; else empty."""
        last = tuple(prompt_ids[-TAIL:])
        opened = self._opened_reasoning.get(last)
        if opened is None:
            if len(self._opened_reasoning) >= MAX_MEMO:
                self._opened_reasoning.clear()
            opened = self.marks.opened_by(self.decoded(self._tail(last)))
            self._opened_reasoning[last] = opened
        return opened

    def spans(
        self, prompt_ids: Sequence[int], token_ids: Sequence[int], text: str
    ) -> list[int]:
        """For each token of a reply: 0 if reasoning is open before it, else 1.

        So it is known before the token is drawn, and sums over each kind have mean 0 if their
        terms do. The mark that opens reasoning counts as 1, that which closes it as 0. Only
        the first reasoning counts.

        Args:
            prompt_ids: token ids of the prompt.
            token_ids: of the reply.
            text: the reply, as `readable_reply` gives it.
        """
        if not has_opening(text):
            return [1] * len(token_ids)
        for token in {*token_ids} - self._pieces.keys():
            self._pieces[token] = self.decoded((token,))
        pieces = [self._pieces[token] for token in token_ids]
        opened = self._opened_by(prompt_ids)
        whole = opened + "".join(pieces)
        reasoning = first_reasoning(whole, self.marks.opening, self.marks.closing)
        if reasoning is None:
            return [1] * len(token_ids)
        begin, end = reasoning
        starts = accumulate(map(len, pieces[:-1]), initial=len(opened))
        return [0 if begin <= start < end else 1 for start in starts]

    def reply_text(self, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> str:
        """The readable text of a reply's tokens, without the token that ends it."""
        is_whole = len(token_ids) > 0 and token_ids[-1] in self.end_ids
        text_ids = token_ids[:-1] if is_whole else token_ids
        return self.readable_reply(prompt_ids, self.decoded(text_ids))

    def _tail(self, prompt_ids: Sequence[int]) -> tuple[int, ...]:
        """The last tokens of a prompt, from the first added one on if there is one."""
        tail = tuple(prompt_ids[-TAIL:])
        start = next(
            (i for i, token in enumerate(tail) if token in self._added_tokens), 0
        )
        return tail[start:]

    def decoded(self, ids: Sequence[int]) -> str:
        """The text of tokens as they stand, special ones visible."""
        if self._decoder is not None:
            return self._decoder.decode(list(ids), skip_special_tokens=False)
        text = self.tokenizer.decode(
            list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        return str(text)

    def _behind(
        self, tail: tuple[int, ...], end: str, text: str, plain: bool
    ) -> list[int]:
        """Token ids of a text behind the end of a prompt."""

        def ids(whole: str) -> list[int]:
            encoded: list[int] = self.tokenizer.encode(
                whole, add_special_tokens=False, split_special_tokens=plain
            )
            return encoded

        candidates: list[list[int]] = []
        for context in (end, *_CONTEXTS):
            context_ids, whole_ids = ids(context), ids(context + text)
            text_ids = whole_ids[len(context_ids) :]
            if whole_ids[: len(context_ids)] != context_ids:
                continue  # a token holds the end of the context and the beginning of the text
            if context == end:
                return text_ids
            whole_text = self.decoded([*tail, *text_ids])
            if whole_text == end + text:
                return text_ids
            if whole_text.split() == f"{end} {text}".split():
                # tokens of words, with a blank between them
                candidates.append(text_ids)
        if candidates:
            return candidates[0]
        raise ValueError(
            f"the tokenizer of {self._name} cannot write {text!r} behind the end of its "
            f"prompt, {end!r}; use a model whose chat template ends the prompt otherwise"
        )

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
        ids = self.ids_of([self.continuation_text(messages)])[0]
        return self.continuation_ids(context_ids, ids)

    def continuation_text(self, messages: Sequence[Message]) -> str:
        """The text of a prompt behind its last reply, the end of the reply included."""
        roles = [message["role"] for message in messages]
        num_old = len(roles) - roles[::-1].index("assistant")
        return self._after_reply(messages[num_old:], prompt=True)

    def continuation_ids(self, context_ids: Sequence[int], ids: list[int]) -> list[int]:
        """The tokens of a `continuation_text`, without a reply's end that is in the context."""
        if context_ids[-1] not in self.end_ids:
            return ids
        end_index = self._first_added(ids)
        if end_index is not None and ids[end_index] in {
            context_ids[-1],
            *self._closing,
        }:
            return ids[end_index + 1 :]
        return ids

    def check_replies(self) -> None:
        """Finds out whether prompts can hold earlier replies.

        Transcripts hold them, and so do prompts that ask again after an invalid reply.

        Raises:
            ValueError: the template cannot show them; says what would do.
        """
        self._after_reply([{"role": "user", "content": _QUESTION_MARKER}], prompt=True)

    @property
    def _name(self) -> str:
        return repr(self.tokenizer.name_or_path or type(self.tokenizer).__name__)

    def _check_shows_users(self, question: Message) -> None:
        """Raises ValueError if the template does not show user messages."""
        if self._shows(question):
            return
        try:
            self._text([question], prompt=True)
            reason = "it drops the text"
        except (TemplateError, TypeError) as error:
            reason = str(error)
        raise ValueError(
            f"want a chat template that shows user messages; that of {self._name} does not "
            f"({reason}); use the instruct version of the model"
        )

    def _shows(self, *messages: Message) -> bool:
        """True if all of these messages can be read in the prompt."""
        try:
            text = self._text(messages, prompt=True)
        except (TemplateError, TypeError):
            return False
        return all(message["content"] in text for message in messages)

    def _endings(self) -> tuple[int | None, int | None]:
        """Tokens that follow an assistant's message, as the last one and as an earlier one."""
        question = Message(role="user", content=_QUESTION_MARKER)
        return self._ending_before([]), self._ending_before([question])

    def _ending_before(self, following: Sequence[Message]) -> int | None:
        """The token that ends an assistant's message before these messages."""
        try:
            ids = self.ids(self._after_reply(following, prompt=False))
        except ValueError:
            return None
        index = self._first_added(ids)
        return None if index is None else ids[index]

    def _opens_message(self, token: int | None) -> bool:
        """True if a token that follows a reply is there because a user speaks next."""
        question: Message = {"role": "user", "content": _QUESTION_MARKER}
        try:
            later_prompt = self._after_reply([question], prompt=True)
        except ValueError:
            return False
        first_prompt = self._text([question], prompt=True)
        before_ids = self._added_before_question(first_prompt)
        return self._added_before_question(later_prompt) == [token] == before_ids[-1:]

    def _added_before_question(self, text: str) -> list[int]:
        """The added tokens of a text up to the question in it."""
        ids = self.ids(text.partition(_QUESTION_MARKER)[0])
        return [token for token in ids if token in self._added_tokens]

    def _first_added(self, ids: Sequence[int]) -> int | None:
        """Index of the token beyond the vocabulary that comes first, but for white space."""
        index = next(
            (i for i, token in enumerate(ids) if token in self._added_tokens), None
        )
        if index and str(self.tokenizer.decode(list(ids[:index]))).strip():
            return None
        return index

    def _after_reply(self, following: Sequence[Message], prompt: bool) -> str:
        """The text of a conversation after a reply, the end of the reply included."""
        messages: list[Message] = [
            {"role": "user", "content": "?"},
            {"role": "assistant", "content": _REPLY_MARKER},
            *following,
        ]
        reason = "it drops them"
        try:
            text = self._text(messages, prompt)
            _, marker, text_after = text.rpartition(_REPLY_MARKER)
        except (TemplateError, TypeError) as error:
            marker, reason = "", str(error)
        if not marker:
            raise ValueError(
                f"the chat template of {self._name} cannot show earlier replies "
                f"({reason}): use history='state' without on_invalid='retry'"
            )
        return text_after

    def _text(
        self, messages: Sequence[Message], prompt: bool, date: str | None = None
    ) -> str:
        safe = [
            self._safe_message(message) if message["role"] == "user" else message
            for message in messages
        ]
        if not self._has_system:
            safe = _without_system(safe)
        in_template = [self._template_message(message) for message in safe]
        return self._apply_template(in_template, prompt, date)

    def _safe_message(self, message: Message) -> Message:
        content = self._break_control_tokens(message["content"])
        return {"role": message["role"], "content": content}

    def _template_message(self, message: Mapping[str, Any]) -> dict[str, Any]:
        role, text = message["role"], message["content"]
        if role == "assistant":
            text = self.marks.written(text)
        parts = [{"type": "text", "text": text}]
        return {"role": role, "content": parts if self._in_parts else text}

    def _apply_template(
        self, messages: Sequence[Any], prompt: bool, date: str | None = None
    ) -> str:
        text = self.tokenizer.apply_chat_template(
            list(messages),
            chat_template=with_fixed_date(self._template, date or self.date),
            tokenize=False,
            add_generation_prompt=prompt,
            **self._options,
        )
        return str(text)

    def _break_control_tokens(self, text: str) -> str:
        for token in self._control_texts:
            if token in text:
                text = text.replace(token, f"{token[0]} {token[1:]}")
        return text

    def _try_render(
        self, messages: Sequence[Mapping[str, Any]], prompt: bool
    ) -> str | None:
        """The text of messages that may have further fields; None if the template raises."""
        conversation: list[Mapping[str, Any]] = []
        for message in messages:
            if isinstance(message["content"], str):
                content = self._template_message(message)["content"]
                message = {**message, "content": content}
            conversation.append(message)
        try:
            return self._apply_template(conversation, prompt)
        except (TemplateError, TypeError, ValueError):
            return None

    def _sample_texts(self) -> list[str]:
        """Conversations whose messages begin, break and end in different ways."""
        contents = ("rules\nA: 1\n2", " x.\nb-c\n\nd \ne", "\ny \n", "z:\n0 1\n\tF ")
        roles = ("system", "user", "assistant", "user")
        texts: list[str] = []
        for shift in range(len(contents)):
            shifted = (*contents[shift:], *contents[:shift])
            conversation = [
                {"role": role, "content": content}
                for role, content in zip(roles, shifted, strict=True)
            ]
            for messages in (conversation, conversation[:2], conversation[1:]):
                text = self._try_render(messages, True)
                if text is not None:
                    texts.append(text)
        return texts

    def _control_tokens(self) -> list[str]:
        """The added tokens that open or close something in a prompt."""
        question: Message = {"role": "user", "content": _QUESTION_MARKER}
        reply: Message = {"role": "assistant", "content": _REPLY_MARKER}
        rules: Message = {"role": "system", "content": _SYSTEM_MARKER}
        conversations = ([question], [rules, question], [question, reply, question])
        texts = [self._try_render(messages, True) for messages in conversations]
        template = "".join(_template_texts(self._template))
        control_ids = {i for text in texts if text for i in self.ids(text)}
        bos, pad = self.tokenizer.bos_token_id, self.tokenizer.pad_token_id
        control_ids |= {*self.end_ids, bos, pad}
        return sorted(
            token
            for i, token in self._added_tokens.items()
            if (i in control_ids or token in template) and _can_be_broken(token)
        )


def _decoder_of(tokenizer: PreTrainedTokenizerBase) -> Tokenizer | None:
    """The Rust tokenizer; None if a class overrides how transformers decodes with it.

    The method of transformers first looks at the type of each id, which takes as long as decoding.
    """
    kind = type(tokenizer)
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        return None
    overrides_decoding = (
        kind.decode is not PreTrainedTokenizerBase.decode
        or kind._decode is not PreTrainedTokenizerFast._decode
        or not vars(tokenizer).keys().isdisjoint(("decode", "_decode"))
    )
    return None if overrides_decoding else tokenizer.backend_tokenizer


def _can_be_broken(token: str) -> bool:
    """True unless an added token is a word, white space or a single character."""
    has_word = any(character.isalnum() for character in token)
    return len(token) > 1 and not token.isalnum() and has_word


@lru_cache
def with_fixed_date(template: str, date: str) -> str:
    """A chat template whose `strftime_now` tells a fixed day, at midnight.

    >>> template = "{{ strftime_now('%d %b %Y') }}"
    >>> Environment().from_string(with_fixed_date(template, "2026-01-31")).render()
    '31 Jan 2026'
    """
    if "strftime_now" not in template:
        return template
    day = datetime.datetime.fromisoformat(date)
    values = {f"%{letter}": day.strftime(f"%{letter}") for letter in _STRFTIME}
    filters = "".join(
        f" | replace({directive!r}, {value!r})" for directive, value in values.items()
    )
    macro = f"{{% macro strftime_now(format) -%}}{{{{ format{filters} }}}}"
    return f"{macro}{{%- endmacro +%}}{template}"


class ChatOptions(Protocol):
    """The settings of a run that its chat reads."""

    chat_template_kwargs: Any  # TRL also takes JSON
    reasoning_marks: list[str] | None
    date: str


def chat_of(tokenizer: PreTrainedTokenizerBase, args: ChatOptions) -> Chat:
    """The chat of a run's settings, with its prompt options and those of its chat template."""
    return Chat(
        tokenizer,
        template_options=args.chat_template_kwargs,
        reasoning_marks=args.reasoning_marks,
        date=args.date,
    )


def _template_texts(template: str) -> list[str]:
    """What a template writes: its text apart from its code, and strings in its code."""
    lexed = Environment().lex(template)
    return [text for _, kind, text in lexed if kind in ("data", "string")]


def _without_system(messages: Sequence[Message]) -> list[Message]:
    """The messages with the system's text at the beginning of the first user message."""
    rules = [m["content"] for m in messages if m["role"] == "system"]
    others = [m for m in messages if m["role"] != "system"]
    if not rules:
        return others
    index = next((i for i, m in enumerate(others) if m["role"] == "user"), None)
    if index is None:
        return [{"role": "user", "content": "\n\n".join(rules)}, *others]
    text = "\n\n".join([*rules, others[index]["content"]])
    return [*others[:index], {"role": "user", "content": text}, *others[index + 1 :]]
