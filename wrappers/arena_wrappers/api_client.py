"""`Client`: requests to one OpenAI-compatible server, and the reasons why they failed.

Needs the package `openai` (extra `api`).
"""

import os
import weakref
from collections.abc import Mapping
from typing import Any

from arena_wrappers.endpoints import OPENAI_URL, host_of, key_for, want_key
from arena_wrappers.network import submit

MAX_ERROR = 300  # characters
# from OPENAI_ORG_ID and OPENAI_PROJECT_ID
_IDS = ("OpenAI-Organization", "OpenAI-Project")
MIN_SECRET = 12  # characters of a key; shorter ones are not hidden


class Client:
    """Sends requests to one server, each again if it fails.

    Args:
        url: URL of the endpoint.
        key: the key; None: the one that is configured for the host of `url`, see `key_for`.
            Without one, the word "none" is sent, since local servers accept any word.
        timeout: longest wait of one attempt for a connection or for more bytes, in seconds.
        max_retries: attempts after the first, on connection errors, timeouts, and status
            408, 409, 429 and 5xx; exponential backoff, or the header `Retry-After`.
        max_concurrent: largest number of connections.

    Raises:
        ValueError: the URL or the key has another form, a number is out of range, or
            OpenAI's host has no key.
        ModuleNotFoundError: the package `openai` is missing.
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        timeout: float = 60.0,
        max_retries: int = 4,
        max_concurrent: int = 64,
    ) -> None:
        _check(timeout, max_retries, max_concurrent)
        is_openai = host_of(url) == host_of(OPENAI_URL)
        key = (key_for(url) or "" if key is None else key).strip()
        if not key and is_openai:
            raise ValueError(f"want a key for {url}, got none; {want_key(url)}")
        if not key.isascii() or any(char.isspace() for char in key):
            raise ValueError(
                f"want a key of ASCII characters without spaces for {url}, got another; "
                "correct it"
            )
        self.url, self._secret = url, key
        self._attempts = f"{1 + max_retries} attempts of {timeout:g} s"
        self._openai = openai = _openai()
        limits = type(openai.DEFAULT_CONNECTION_LIMITS)(
            max_connections=max_concurrent, max_keepalive_connections=max_concurrent
        )
        self._client = openai.AsyncOpenAI(
            api_key=key or "none",
            base_url=url,
            timeout=timeout,
            max_retries=max_retries,
            default_headers=_headers(key or "none", None if is_openai else openai.omit),
            # a redirect would take prompts to another host
            http_client=openai.DefaultAsyncHttpxClient(
                limits=limits, follow_redirects=False
            ),
        )
        weakref.finalize(self, lambda client: submit(client.close()), self._client)

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """The answer to a request, as JSON; to be awaited in the network's loop."""
        return await self._client.post(path, body=body, cast_to=object)

    async def get(self, path: str) -> Any:
        """As `post`."""
        return await self._client.get(path, cast_to=object)

    def reason(self, error: Exception, model: str) -> str:
        """Why a request failed, in a sentence that ends with what to do."""
        openai, url = self._openai, self.url
        said = f"{type(error).__name__}: {error}"
        if isinstance(error, openai.APITimeoutError):
            text = f"{url} gave no reply in {self._attempts}; look whether it stalls"
        elif isinstance(error, openai.APIConnectionError):
            text = (
                f"the connection to {url} failed ({error.__cause__}); start the server "
                "or correct the URL"
            )
        elif isinstance(
            error, openai.AuthenticationError | openai.PermissionDeniedError
        ):
            got = "refuses its key" if self._secret else "wants a key, and has none"
            text = f"{url} {got}; {want_key(url)} ({said})"
        elif isinstance(error, openai.NotFoundError):
            text = f"{url} has no model {model!r}; correct name or URL ({said})"
        else:
            text = f"{url} gave no usable answer; read the server's log ({said})"
        return self.hide(" ".join(text.split()))[:MAX_ERROR]

    def hide(self, text: str) -> str:
        """The text without the key, which an endpoint may repeat."""
        # local servers accept any word as a key, and a reply may contain this word
        is_secret = len(self._secret) >= MIN_SECRET
        return text.replace(self._secret, "***") if is_secret else text


def _headers(key: str, omitted: Any) -> dict[str, Any]:
    """Headers of each request.

    Args:
        key: the key.
        omitted: stands for no header; None: those of OpenAI's environment variables stay.
    """
    headers = {"Authorization": f"Bearer {key}"}
    if omitted is None:
        return headers
    lines = os.environ.get("OPENAI_CUSTOM_HEADERS", "").split("\n")
    named = [line.partition(":")[0].strip() for line in lines if ":" in line]
    others = [name for name in named if name.lower() != "authorization"]
    return {**headers, **dict.fromkeys([*_IDS, *others], omitted)}


def _check(timeout: float, max_retries: int, max_concurrent: int) -> None:
    if not timeout > 0:
        raise ValueError(f"want a timeout above 0 seconds, got {timeout}")
    if type(max_retries) is not int or max_retries < 0:
        raise ValueError(f"want max_retries of at least 0, got {max_retries}")
    if type(max_concurrent) is not int or max_concurrent < 1:
        raise ValueError(f"want max_concurrent of at least 1, got {max_concurrent}")


def _openai() -> Any:
    try:
        import openai
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "ChatAPIPolicy needs openai; install it with: pip install 'arena-envs[api]'",
            name=error.name,
        ) from error
    return openai
