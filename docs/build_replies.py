"""Writes `docs/replies.md` from the tested table of natural replies.

python docs/build_replies.py --write
python docs/build_replies.py
"""

import re
import sys
from pathlib import Path

DATA = Path(__file__).parents[1] / "tests" / "wrappers" / "prompts" / "replies.txt"
PAGE = Path(__file__).with_name("replies.md")
HEAD = """# What replies are read as

Written by `python docs/build_replies.py --write` from a table that the tests check. Replies are read
by the rules of `arena_wrappers.prompts.formats`; `parsing="strict"` reads canonical texts only. `\\n` is
a line break. On the right is the action, with the message before it, or why the reply is none.
"""


def page() -> str:
    """The text of the page."""
    text = HEAD
    for line in DATA.read_text("utf-8").splitlines():
        if head := re.fullmatch(r"\[(\w+): ([^]]+)\]", line):
            text += f"\n## {head[1]}, where `{head[2]}` is legal\n\n| reply | read as |\n|---|---|\n"
        elif " => " in line:
            cells = [f"`` {cell} ``" for cell in line.rsplit(" => ", 1)]
            text += f"| {cells[0]} | {cells[1]} |\n"
    return text


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(page(), "utf-8")
    elif not PAGE.exists() or PAGE.read_text("utf-8") != page():
        sys.exit("docs/replies.md is out of date; run with --write")
