"""Links each page's first use of a word of the glossary to `docs/glossary.md`.

    python docs/build_glossary.py          # says which pages are out of date
    python docs/build_glossary.py --write  # writes them

Pages that other scripts write, code, tables, headings and links stay as they are. Only words with one meaning
in these pages are linked.
"""

import os
import re
import sys
from pathlib import Path

DOCS = Path(__file__).parent
TERMS = {
    "action-mask": "action masks?",
    "advantage": "advantages?",
    "bot": "bots?",
    "episode": "episodes?",
    "observation": "observations?",
    "policy": "policy|policies",
    "reply": "(?<!to )reply|replies",
    "return-to-go": "returns?-to-go",
    "trajectory": "trajectory|trajectories",
    "truncated": "truncated",
    "turn-batch": "turn batch(?:es)?",
}
_LINKED = re.compile(r"\[([^\]]*)\]\([\w./]*glossary\.md#[\w-]+\)")
_LINK = re.compile(r"glossary\.md#[\w-]+")
_LEFT = (  # as it is
    r"^```.*?^```|^#.*?$|^\|.*?$|<[^>]*>|`[^`]*`|!?\[[^\]]*\]\([^)]*\)|https?:\S+"
    r'|"[^"]{0,90}"|security policy|policy gradient'
)
_WORD = "|".join(f"(?P<{key.replace('-', '_')}>{word})" for key, word in TERMS.items())
_ANY = re.compile(
    rf"{_LEFT}|(?<![-\w])(?i:{_WORD})\b(?![-/.]\w)", re.DOTALL | re.MULTILINE
)


def linked(text: str, path: str) -> str:
    """The page with its links; `path` leads from it to the glossary.

    >>> linked("An advantage: `bot`. Advantages, bots.", "glossary.md")
    'An [advantage](glossary.md#advantage): `bot`. Advantages, [bots](glossary.md#bot).'
    """
    used = set()

    def link(match: re.Match[str]) -> str:
        key = (match.lastgroup or "").replace("_", "-")
        if not key or key in used:
            return match[0]
        used.add(key)
        return f"[{match[0]}]({path}#{key})"

    return _ANY.sub(link, _LINKED.sub(r"\1", text))


def pages() -> list[Path]:
    """Pages that are written by hand, but the glossary and the list of decisions."""
    paths = []
    for path in sorted(DOCS.rglob("*.md")):
        is_left = path.parent.name in ("games", "reference") or path.stem == "decisions"
        head = path.read_text(encoding="utf-8")[:800].lower()
        if is_left or path.stem == "glossary" or re.search(WRITTEN, head):
            continue
        paths.append(path)
    return paths


WRITTEN = "(written|made) by|wrote this page|written from"  # in the head of other pages


def main() -> None:
    """Writes the pages, or looks for a word without a link."""
    lacking = []
    for path in pages():
        text = path.read_text(encoding="utf-8")
        new = linked(text, os.path.relpath(DOCS / "glossary.md", path.parent))
        if {*_LINK.findall(text)} != {*_LINK.findall(new)}:
            lacking.append(path.relative_to(DOCS).as_posix())
        if "--write" in sys.argv:
            path.write_text(new, encoding="utf-8")
    if lacking and "--write" not in sys.argv:
        sys.exit(f"{lacking} lack links: python docs/build_glossary.py --write")


if __name__ == "__main__":
    main()
