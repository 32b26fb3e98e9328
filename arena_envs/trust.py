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

Names = Literal["any", "no code", "registered", "trusted file"]
_names: ContextVar[Names] = ContextVar("names", default="any")
_named_by_operators: set[str] = set()


class NotTrusted(ValueError):
    """A stranger's text names code, a file, a connection or a search without bound."""


@contextmanager
def named_only(*, allow_code: bool = False) -> Iterator[None]:
    """Within the block, text may name only what is registered.

    Do not `yield` from a generator within the block: its caller would be in the block, too.

    Args:
        allow_code: whether an operator trusts the text, which may then name everything. A block
            within another one does not change it.
    """
    with _naming("trusted file" if allow_code else "registered"):
        yield


@contextmanager
def no_code(active: bool = True) -> Iterator[None]:
    """Within the block, text may name files and connections, but no code.

    Args:
        active: False changes nothing, also within another block.
    """
    with _naming("no code" if active else "any"):
        yield


@contextmanager
def _naming(names: Names) -> Iterator[None]:
    """The outermost block holds, but `named_only()` is stricter than `no_code()`."""
    outer = _names.get()
    is_stricter = (outer, names) == ("no code", "registered")
    token = _names.set(names if outer == "any" or is_stricter else outer)
    try:
        yield
    finally:
        _names.reset(token)


def require_operator(
    kind: str, text: str, would: str, *values: Any, code: bool = False
) -> None:
    """Refuses what a stranger's text may not name; remembers what an operator names.

    Args:
        kind: what is named, such as "game".
        text: the name.
        would: what would happen, such as "open a file".
        *values: what follows the name, as JSON can hold it.
        code: whether the text is `module:name`, which would be imported.

    Raises:
        NotTrusted: a stranger's text is being read, and no operator has named the same.
    """
    names, key = (
        _names.get(),
        json.dumps([text, *values], sort_keys=True, default=repr),
    )
    if names == "any":
        _named_by_operators.add(key)
    elif key in _named_by_operators or names == "trusted file":
        return
    elif names == "registered" or code:
        raise NotTrusted(
            f"want a registered {kind}, got {text!r:.200} from a file or a client, which would "
            f"{would}; if you trust where it comes from, give --allow-code (in Python "
            "allow_code=True)"
        )


def require_operator_of_code(kind: str, path: str) -> None:
    """As `require_operator`, of `module:name`."""
    would = f"import the module {path.partition(':')[0]!r}"
    require_operator(kind, path, would, code=True)
