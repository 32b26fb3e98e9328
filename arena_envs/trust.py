"""Trust: what text may name that no operator wrote.

Operators write command lines, Python and the recipes that they run; their text may name code, files and
searches of any length. Strangers write records, boards, folders of runs and requests to servers; their
text names what is registered: built-in names and installed plug-ins.

    with named_only():
        game = make_game(record["game"], **record["params"])

The block covers all that it calls in its thread or task, at any depth: expressions in parentheses, options
and parameters. What a stranger's text names is made within the block, not later. An exception: what an
operator has named before in this process, so that records of your own game can be read where you named it.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal

_names: ContextVar[Literal["any", "registered", "allowed"]] = ContextVar(
    "names", default="any"
)
_named_by_operators: set[tuple[str, str]] = set()


class NotTrusted(ValueError):
    """A stranger's text names code, a file, a connection or a search without bound."""


@contextmanager
def named_only(active: bool = True) -> Iterator[None]:
    """Within the block, text may name only what is registered.

    Do not `yield` from a generator within the block: its caller would be in the block, too.

    Args:
        active: False changes nothing, also within another block.
    """
    with _naming("registered" if active else "any"):
        yield


@contextmanager
def code_allowed(active: bool = True) -> Iterator[None]:
    """Within the block, files may name code: an operator trusts them.

    Within a block `named_only()` this changes nothing.

    Args:
        active: False changes nothing.
    """
    with _naming("allowed" if active else "any"):
        yield


@contextmanager
def _naming(names: Literal["any", "registered", "allowed"]) -> Iterator[None]:
    """The outermost block holds."""
    token = _names.set(names if _names.get() == "any" else _names.get())
    try:
        yield
    finally:
        _names.reset(token)


def require_operator(kind: str, text: str, would: str, *values: Any) -> None:
    """Refuses what a stranger's text may not name; remembers what an operator names.

    Args:
        kind: what is named, such as "game".
        text: the name.
        would: what would happen, such as "import the module 'os'".
        *values: what follows the name, as JSON can hold it.

    Raises:
        NotTrusted: a stranger's text is being read, and no operator has named the same.
    """
    named = kind, json.dumps([text, *values], sort_keys=True, default=repr)
    if _names.get() == "any":
        _named_by_operators.add(named)
    elif _names.get() == "registered" and named not in _named_by_operators:
        raise NotTrusted(
            f"want a registered {kind}, got {text!r:.200} from a file or a client, which would "
            f"{would}; if you trust where it comes from, give --allow-code (in Python "
            "allow_code=True)"
        )
