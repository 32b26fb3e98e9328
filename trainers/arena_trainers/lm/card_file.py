"""Model cards, which strangers may have written."""

import re
from collections.abc import Mapping
from pathlib import Path

from arena_envs import yaml_text

_FRONT_MATTER = re.compile(r"\s*---\n(.*?)\n---[ \t]*(?:\n|\Z)", re.DOTALL)


def read_card(card: Path) -> tuple[Mapping[str, object], str]:
    """The YAML front matter of a model card, and the text after it.

    The front matter is empty if it is missing or broken, and the text then the whole card.
    """
    try:
        text = card.read_text(encoding="utf-8-sig", errors="replace")
    except OSError:
        return {}, ""
    match = _FRONT_MATTER.match(text)
    try:
        stated = yaml_text.read(match[1]) if match else None
    except ValueError:
        stated = None
    if match is None or not isinstance(stated, dict):
        return {}, text
    return stated, text[match.end() :]
