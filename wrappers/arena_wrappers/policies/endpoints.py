"""Endpoints: the strings that name them, their hosts, and the keys for these."""

import difflib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from arena_envs.checks import did_you_mean
from arena_wrappers.prompts import PROMPT_OPTIONS, PromptOptions

OPENAI_URL = "https://api.openai.com/v1"
KEYS_FILE = "ARENA_KEYS_FILE"
_PREFIX = "ARENA_KEY_"
_PORTS = {"https": 443, "http": 80}
_URL = re.compile(
    r"(https?)://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?(?:/[^\s#@?\\]*)?"
)
_NO_SCHEME = re.compile(r".+@(?:[^@]*[/:.]|localhost$)")  # m@localhost:8000, not m@2
_HOST = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?")
_NUMBERS = ("max_tokens", "temperature", "max_concurrent", "timeout", "max_retries")
_OWN = ("messages", "model", "n", "seed", "stream", "stream_options", "tools")
_NEAR = 0.8  # a name as near as this to that of an option is a mistake


@dataclass(frozen=True)
class Endpoint:
    """An endpoint as the string of a policy names it.

    Attributes:
        model: name of the model; empty if the string names none.
        base_url: URL of the endpoint; None if the string names none.
        options: the options, as arguments of `ChatAPIPolicy`; `prompt` holds the prompt
            options, and `fields` the fields of requests, by name.
    """

    model: str
    base_url: str | None
    options: Mapping[str, Any] = field(default_factory=dict)


def read_endpoint(text: str) -> Endpoint:
    """The endpoint of `MODEL`, `MODEL@URL` or `URL`; each option follows as `#NAME=VALUE`.

    A name that is no option is that of a field of requests, as in `#top_p=0.9`.

    Raises:
        ValueError: the URL or an option has another form; the URL has no http:// or https://.

    >>> read_endpoint("m@http://localhost:8000/v1#history=transcript#temperature=0")
    ... # doctest: +NORMALIZE_WHITESPACE
    Endpoint(model='m', base_url='http://localhost:8000/v1',
             options={'temperature': 0, 'prompt': {'history': 'transcript'}})
    """
    address, *option_texts = text.split("#")
    match = re.fullmatch(r"(?:(.*?)@)?(https?://.*)", address)
    model, url = (match[1] or "", match[2]) if match else (address, None)
    if url is None and _NO_SCHEME.match(address):
        host = address.rpartition("@")[2].partition("?")[0]  # no password, no query
        raise ValueError(
            f"want http:// or https:// after @, got {host!r:.200}; write the whole "
            "URL, as in my-model@http://localhost:8000/v1"
        )
    if url is not None:
        host_of(url)
    return Endpoint(model, url, _options(option_texts))


def _options(option_texts: Sequence[str]) -> dict[str, Any]:
    prompt: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for part in option_texts:
        name, mark, value = part.partition("=")
        option_names = (*PROMPT_OPTIONS, *_NUMBERS, "send_seed", "model")
        if name in PROMPT_OPTIONS:
            prompt[name] = _value(name, value)
        elif name in option_names:
            others[name] = _value(name, value)
        elif (  # as near as this to an option, a name is a mistake
            not (mark and re.fullmatch("[a-z][a-z0-9_]*", name))
            or name in _OWN
            or difflib.get_close_matches(name, option_names, 1, _NEAR)
        ):
            raise ValueError(
                f"want #NAME=VALUE, got {'#' + part!r}; {did_you_mean(name, option_names)}"
            )
        else:
            others.setdefault("fields", {})[name] = _value(name, value)
    PromptOptions(**prompt)  # refuses wrong values
    return {**others, "prompt": prompt} if prompt else others


def _value(name: str, text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    if re.search("&[a-z0-9_]+=", text):
        raise ValueError(f"want # before each option, got {name + '=' + text!r:.80}")
    if name == "send_seed" and type(value) is not bool:
        raise ValueError(f"want send_seed as true or false, got {text!r}")
    if name in _NUMBERS and type(value) not in (int, float):
        raise ValueError(f"want {name} as a number, as in {name}=1, got {text!r}")
    return text if name == "model" else value


def host_of(url: str) -> tuple[str, int]:
    """Host and port of a URL.

    Raises:
        ValueError: it is no URL of an endpoint. A user, a password or a query is refused,
            too: URLs stand in records, and these may hold a key.

    >>> host_of("https://api.openai.com/v1")
    ('api.openai.com', 443)
    """
    match = _URL.fullmatch(url)
    port = 0 if match is None else int(match[3] or _PORTS[match[1]])
    if match is None or not 0 < port < 2**16:
        public_url = re.sub(r"//.*@", "//***@", url)
        public_url = re.sub(r"\?.*", "?***", public_url, flags=re.DOTALL)
        raise ValueError(
            "want the URL of an endpoint, such as http://localhost:8000/v1, got "
            f"{public_url!r:.200}; leave out user, password and query"
        )
    return match[2].lower(), port


def key_for(url: str) -> str | None:
    """The key that was configured for the host and port of a URL, or None.

    Sources, the first one that has a key for this host and port:

    1. environment variables `ARENA_KEY_<name>`, with any name: `HOST KEY`, or `HOST:PORT KEY`
       where the port is another one than 443;
    2. the lines of the file that `ARENA_KEYS_FILE` names, in the same form;
    3. `OPENAI_API_KEY`, for api.openai.com.

    Raises:
        ValueError: a variable or a line has another form; names it without its content.
        OSError: the file cannot be read.
    """
    host = host_of(url)
    entries = [
        _entry(os.environ[name], f"the environment variable {name}")
        for name in sorted(os.environ)
        if name.startswith(_PREFIX)
    ]
    path = os.environ.get(KEYS_FILE)
    if path:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
        entries += [
            _entry(line, f"{path}, line {number}")
            for number, line in enumerate(lines, 1)
            if line.strip() and not line.startswith("#")
        ]
    if os.environ.get("OPENAI_API_KEY"):
        entries.append((host_of(OPENAI_URL), os.environ["OPENAI_API_KEY"]))
    return next((key for owner, key in entries if owner == host), None)


def _entry(text: str, source: str) -> tuple[tuple[str, int], str]:
    host, _, key = text.strip().partition(" ")
    match = _HOST.fullmatch(host)
    key = key.strip()
    if match is None or not key or not key.isascii() or " " in key:
        raise ValueError(
            f"want 'HOST KEY' in {source}, such as 'localhost:8000 my-key', got "
            "another form; correct it"
        )
    return (match[1].lower(), int(match[2] or _PORTS["https"])), key


def want_key(url: str) -> str:
    """A sentence that says how to configure a key for the host of a URL."""
    host, port = host_of(url)
    name = host if port == _PORTS["https"] else f"{host}:{port}"
    if (host, port) == host_of(OPENAI_URL):
        return "set OPENAI_API_KEY"
    return f"set ARENA_KEY_<any name>='{name} KEY'"
