"""An extension of griffe: doctests in docstrings become code blocks on the site.

Without it Markdown reads the output `[(0, 1)]` as a link.
"""

import re
from typing import Any

from griffe import Extension, Object

_DOCTEST = re.compile(
    r"(?m)^(?P<indent> *)>>> (?:.*\n?)(?:(?P=indent)(?! *\n)\S?.*\n?)*"
)


def fenced(text: str) -> str:
    """The docstring with fences around its doctests."""

    def fence(match: re.Match[str]) -> str:
        indent, block = match["indent"], match[0].rstrip("\n")
        return f"{indent}```pycon\n{block}\n{indent}```\n"

    return _DOCTEST.sub(fence, text)


class FencedDoctests(Extension):
    """Changes the docstring of every object that is loaded."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        """Called for each object."""
        if obj.docstring and ">>>" in obj.docstring.value:
            obj.docstring.value = fenced(obj.docstring.value)
