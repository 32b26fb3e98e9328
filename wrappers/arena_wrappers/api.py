"""`ChatAPIPolicy`: a model behind an OpenAI-compatible chat endpoint.

Needs the package `openai` (extra `api`).
"""

import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from arena_wrappers.policies import Reply, TurnRequest

MAX_ERROR = 300  # characters
MIN_SECRET = 12  # characters of a key; shorter ones are not hidden


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
    """Asks a chat endpoint for each reply, several at a time.

    If a request fails after all retries, its reply has an `error`, and the seat forfeits
    that episode. Other episodes go on. The constructor reads the key from the environment.
    Replies and errors show `***` in place of a key of 12 characters or more. Shorter keys
    stay, since local servers accept any word as a key.

    Args:
        model: name of the model at the endpoint.
        base_url: URL of the endpoint; None: `OPENAI_BASE_URL`, else OpenAI's own.
        key_variable: environment variable with the key.
        max_concurrent: largest number of requests at the same time.
        timeout: longest wait of one attempt for a connection or for more bytes, in seconds.
        max_retries: attempts after the first, on connection errors, timeouts, and status
            408, 409, 429 and 5xx; exponential backoff, or the header `Retry-After`.
        max_tokens: longest reply; None: the endpoint's default.
        temperature: sampling temperature; None: the endpoint's default.
        send_seed: whether requests contain the seed of the turn, modulo 2³¹.
        prices: price of a million prompt tokens, and of a million completion tokens.

    Attributes:
        usage: calls, errors, tokens and cost so far.

    Raises:
        ValueError: the environment variable is not set, or a number is out of range.
        ModuleNotFoundError: the package `openai` is missing.
    """

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        key_variable: str = "OPENAI_API_KEY",
        max_concurrent: int = 8,
        timeout: float = 60.0,
        max_retries: int = 4,
        max_tokens: int | None = None,
        temperature: float | None = None,
        send_seed: bool = True,
        prices: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        if max_concurrent < 1:
            raise ValueError(f"want max_concurrent of at least 1, got {max_concurrent}")
        if not timeout > 0:
            raise ValueError(f"want a timeout above 0 seconds, got {timeout}")
        if max_retries < 0:
            raise ValueError(f"want max_retries of at least 0, got {max_retries}")
        key = os.environ.get(key_variable, "")
        if not key:
            raise ValueError(
                f"want a key in the environment variable {key_variable}, got none; set it"
            )
        self.model = self.name = model
        self.prices = prices
        self.max_concurrent = max_concurrent
        self.usage = Usage()
        self._secret = key
        self._send_seed = send_seed
        self._lock = threading.Lock()
        limits = {"max_tokens": max_tokens, "temperature": temperature}
        self._options = {k: v for k, v in limits.items() if v is not None}
        self._client = _openai().OpenAI(
            api_key=key, base_url=base_url, timeout=timeout, max_retries=max_retries
        )

    def act(self, requests: Sequence[TurnRequest]) -> list[Reply]:
        with ThreadPoolExecutor(min(self.max_concurrent, len(requests) or 1)) as pool:
            return list(pool.map(self._ask, requests))

    def _ask(self, request: TurnRequest) -> Reply:
        options = dict(self._options)
        if self._send_seed:
            options["seed"] = request.seed % 2**31
        try:
            answer = self._client.chat.completions.create(
                model=self.model,
                messages=[dict(m) for m in request.messages],
                **options,
            )
            choice = answer.choices[0]
            text, cut = choice.message.content or "", choice.finish_reason == "length"
            if not isinstance(text, str):
                raise TypeError(f"want a text as content, got {type(text).__name__}")
        except Exception as error:  # an endpoint may send anything
            self._count(num_errors=1)
            said = self._hide(f"{type(error).__name__}: {error}")
            return Reply("", error=" ".join(said.split())[:MAX_ERROR])
        self._count(answer.usage, num_calls=1)
        return Reply(self._hide(text), truncated=cut)

    def _hide(self, text: str) -> str:
        """The text without the key, which an endpoint may repeat."""
        # local servers accept any word as a key, and a reply may contain this word
        is_secret = len(self._secret) >= MIN_SECRET
        return text.replace(self._secret, "***") if is_secret else text

    def _count(self, counted: Any = None, **numbers: int) -> None:
        sent = _number(getattr(counted, "prompt_tokens", 0))
        came = _number(getattr(counted, "completion_tokens", 0))
        with self._lock:
            old = self.usage
            self.usage = replace(
                old,
                prompt_tokens=old.prompt_tokens + sent,
                completion_tokens=old.completion_tokens + came,
                cost=old.cost + (sent * self.prices[0] + came * self.prices[1]) / 1e6,
                **{name: getattr(old, name) + n for name, n in numbers.items()},
            )


def load(argument: str) -> ChatAPIPolicy:
    """The policy of the string `api:MODEL`; environment variables give endpoint and key."""
    if not argument:
        raise ValueError("want the name of a model, as in 'api:my-model', got 'api:'")
    return ChatAPIPolicy(argument)


def _number(value: Any) -> int:
    return value if type(value) is int and value > 0 else 0


def _openai() -> Any:
    try:
        import openai
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "ChatAPIPolicy needs openai; install it with: pip install 'arena-envs[api]'",
            name=error.name,
        ) from error
    return openai
