"""`ChatAPIPolicy`: a model behind an OpenAI-compatible chat endpoint."""

import asyncio
import json
import logging
import os
import re
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from arena_envs.checks import JSON
from arena_wrappers.policies.client import BadAnswer, Client, StatusError, TooLate
from arena_wrappers.policies.endpoints import OPENAI_URL, read_endpoint
from arena_wrappers.policies.network import Call
from arena_wrappers.policies.protocol import Reply, TurnRequest
from arena_wrappers.prompts import Instead, PromptOptions


@dataclass(frozen=True)
class Usage:
    """Calls, tokens and cost of a policy so far.

    Attributes:
        num_calls: answered requests; retries do not count.
        num_errors: requests without an answer; retries do not count.
        prompt_tokens: tokens of prompts, as the endpoint counts them.
        completion_tokens: tokens of replies, as the endpoint counts them.
        cost: cost by `prices`, in their currency; 0 without prices.
    """

    num_calls: int = 0
    num_errors: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0


class ChatAPIPolicy:
    """Asks a chat endpoint for each reply, many at a time.

    If a request fails after all retries, its reply has an `error`, and the episode is lost.
    Other episodes go on. The key goes to the host of `base_url` and to no other:
    redirects are not followed. Replies and errors show `***` in place of a key of 12
    characters or more. Shorter keys stay, since local servers accept any word as a key.

    Args:
        model: name of the model at the endpoint.
        base_url: URL of the endpoint; None: `OPENAI_BASE_URL`, else OpenAI's own.
        key: the key for this endpoint; None: the key that is configured for its host, see
            `arena_wrappers.policies.endpoints.key_for`. Without one, the word "none" is sent.
        name: name in records; None: the model's.
        prompt: what the model reads, and how its replies are read; None: as the environment
            says.
        max_concurrent: largest number of requests at the same time.
        timeout: longest wait of one attempt for a connection or for more bytes, in seconds;
            ten times as long for a whole attempt.
        max_retries: attempts after the first, see `arena_wrappers.policies.client.Client`.
        max_tokens: longest reply; None: the endpoint's default.
        temperature: sampling temperature; None: the endpoint's default.
        send_seed: whether requests contain the seed of the turn, modulo 2³¹. If the endpoint
            refuses the field `seed`, requests go on without it, and if it refuses `max_tokens`,
            with `max_completion_tokens`; a line in the log says so once.
        prices: price of a million prompt tokens, and of a million completion tokens.
        fields: further fields of each request, by name.

    Attributes:
        url: of the endpoint.
        max_tokens: longest reply; None: the endpoint's default.
        usage: calls, errors, tokens and cost so far.

    Raises:
        ValueError: the URL or the key has another form, a number is out of range, or
            OpenAI's host has no key.
    """

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        key: str | None = None,
        *,
        name: str | None = None,
        prompt: PromptOptions | None = None,
        max_concurrent: int = 64,
        timeout: float = 60.0,
        max_retries: int = 4,
        max_tokens: int | None = None,
        temperature: float | None = None,
        send_seed: bool = True,
        prices: tuple[float, float] = (0.0, 0.0),
        fields: Mapping[str, Any] | None = None,
    ) -> None:
        url = base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL
        self.model, self.name, self.prompt = model, name or model, prompt
        self.url, self.prices, self.max_tokens = url, prices, max_tokens
        self.usage = Usage()
        self._send_seed = send_seed
        self._refused_fields: tuple[str, ...] = ()
        limits = {"max_tokens": max_tokens, "temperature": temperature}
        sampling = {k: v for k, v in limits.items() if v is not None}
        self._fields = {"model": model, **sampling, **(fields or {})}
        self._client = Client(url, key, timeout, max_retries, max_concurrent, model)
        self._counting = threading.Lock()

    @property
    def is_unreachable(self) -> bool:
        """Whether no connection could be made, and the endpoint has never answered."""
        return self._client.is_unreachable

    def act(self, requests: Sequence[TurnRequest]) -> list[Reply]:
        calls = [self._call(request, None) for request in requests]
        try:
            return [self._reply_of(call, None) for call in calls]
        finally:
            for call in calls:  # a person may have pressed Ctrl-C
                call.cancel()

    async def act_async(
        self, request: TurnRequest, timeout: float | None = None
    ) -> Reply:
        call = self._call(request, timeout)
        try:
            with suppress(Exception):  # read below
                await asyncio.wrap_future(call.future)
        except asyncio.CancelledError:
            call.cancel()
            raise
        return self._reply_of(call, timeout)

    def _call(self, request: TurnRequest, timeout: float | None) -> Call[Any]:
        body = {**self._fields, "messages": [dict(m) for m in request.messages]}
        if self._send_seed:
            body["seed"] = request.seed % 2**31
        for name in self._refused_fields:
            body = _without_field(name, body)
        return self._client.ask("POST", "/chat/completions", body, timeout, self._mend)

    def _mend(
        self, error: StatusError, body: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        """The body without the field that the endpoint refuses by its name."""
        problem = str(error)
        if _TOO_LONG.search(
            problem
        ):  # a reply that fills the context is shorter than limits
            limits = {"max_tokens", "max_completion_tokens"} & body.keys()
            return (
                {k: v for k, v in body.items() if k not in limits} if limits else None
            )
        for name, hint in _REFUSABLE.items():
            if name not in body or not re.search(
                rf"(?<![\w-]){name}(?![\w-])", problem
            ):
                continue
            if name == "max_tokens" and not re.search(_REFUSED, problem):
                continue
            with self._counting:
                if name not in self._refused_fields:
                    self._refused_fields = (*self._refused_fields, name)
                    warning = (
                        f"{self.url} refuses the field {name!r}: {hint} ({problem})"
                    )
                    LOG.warning("%s", self._client.hide(warning))
            return _without_field(name, body)
        return None

    def _reply_of(self, call: Call[Any], timeout: float | None) -> Reply:
        """The reply of a request, when it is over."""
        try:
            answer = call.future.result()
            reply = _reply(answer)
        except TooLate as error:
            self._count(num_errors=1)
            raise TimeoutError(f"no reply within {timeout} s{error}") from None
        except Exception as error:  # an endpoint may send anything
            is_answer = isinstance(error, StatusError) and error.status in (400, 422)
            if is_answer and _TOO_LONG.search(str(error)):
                self._count(num_calls=1)
                return Reply("", instead="context_length")
            self._count(num_errors=1)
            reason = self._client.reason(error)
            return Reply("", error=reason, timed_out=isinstance(error, TimeoutError))
        self._count(answer.get("usage"), num_calls=1)
        return replace(reply, text=self._client.hide(reply.text))

    def _count(self, usage: JSON = None, **numbers: int) -> None:
        usage = usage if isinstance(usage, dict) else {}
        sent = _number(usage.get("prompt_tokens"))
        came = _number(usage.get("completion_tokens"))
        with self._counting:  # several threads may play
            old = self.usage
            self.usage = replace(
                old,
                prompt_tokens=old.prompt_tokens + sent,
                completion_tokens=old.completion_tokens + came,
                cost=old.cost + (sent * self.prices[0] + came * self.prices[1]) / 1e6,
                **{name: getattr(old, name) + n for name, n in numbers.items()},
            )


def load(argument: str, **options: Any) -> ChatAPIPolicy:
    """The policy of the string `api:MODEL` or `api:MODEL@URL`, see `make_policy`.

    Args:
        argument: what follows `api:`.
        **options: arguments of `ChatAPIPolicy`; they override those of the string.

    Raises:
        ValueError: the string has another form, or an argument is wrong.
    """
    endpoint = read_endpoint(argument)
    if not endpoint.model or "model" in endpoint.options:
        raise ValueError(
            "want the name of a model, as in 'api:my-model' or "
            f"'api:my-model@http://localhost:8000/v1', got 'api:{argument}'"
        )
    arguments = {**endpoint.options, **options}
    if "prompt" in arguments:
        arguments["prompt"] = PromptOptions(**arguments["prompt"])
    return ChatAPIPolicy(endpoint.model, endpoint.base_url, name=argument, **arguments)


LOG = logging.getLogger(__name__)
MAX_REPLY = 1_000_000  # characters
# what OpenAI, vLLM and SGLang; llama.cpp; Anthropic; and TGI say
_TOO_LONG = re.compile(
    "(?i)context.?length|available context size|prompt is too long"
    "|inputs. (tokens|must have less)"
)
_REFUSABLE = {
    "seed": "requests go on without it, so that equal seeds may give other replies",
    "max_tokens": "requests go on with 'max_completion_tokens'",
}
_REFUSED = r"(?i)max_completion_tokens|un(supported|known|recogni[sz]ed|expected)|not (supported|permitted|allowed)|extra"


def _without_field(name: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a request without a field that an endpoint refused."""
    remainder = {key: value for key, value in body.items() if key != name}
    if name == "max_tokens" and name in body:
        remainder.setdefault("max_completion_tokens", body[name])
    return remainder


def _reply(answer: Any) -> Reply:
    """The reply in a chat completion; with token ids if the endpoint tells all of them."""
    try:
        choice = answer["choices"][0]
        message, finish_reason = choice["message"], choice.get("finish_reason")
        text = _text_of(message.get("content"))
    except (LookupError, TypeError, AttributeError):
        beginning = json.dumps(answer)[:80]
        raise BadAnswer(
            f"want a chat completion with a message, got {beginning}"
        ) from None
    if len(text) > MAX_REPLY:
        note = f"\n[cut: the reply has {len(text)} characters]"
        return Reply(text[:MAX_REPLY] + note, truncated=True)
    is_cut = finish_reason == "length"
    if not text.strip() and not is_cut:
        refusal = message.get("refusal")
        text = refusal if isinstance(refusal, str) else text
        return Reply(text, instead=_missing_text_reason(message, finish_reason))
    ids = answer.get("prompt_token_ids"), choice.get("token_ids")
    has_ids = all(isinstance(i, list) and all(type(n) is int for n in i) for i in ids)
    prompt_ids, token_ids = ids if has_ids else (None, None)
    return Reply(text, prompt_ids, token_ids, truncated=is_cut)


def _text_of(content: JSON) -> str:
    """The text of a message, which may be a list of parts; raises TypeError for others."""
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, dict))
        return "".join(text for text in parts if isinstance(text, str))
    if not isinstance(content, str | None):
        raise TypeError
    return content or ""


def _missing_text_reason(message: Mapping[str, Any], finish_reason: JSON) -> Instead:
    """The kind of a message without text."""
    if message.get("refusal"):
        return "refusal"
    if message.get("tool_calls") or message.get("function_call"):
        return "tool_call"
    if finish_reason == "content_filter":
        return "content_filter"
    has_reasoning = message.get("reasoning_content") or message.get("reasoning")
    return "reasoning" if has_reasoning else "empty"


def _number(value: JSON) -> int:
    return value if type(value) is int and value > 0 else 0
