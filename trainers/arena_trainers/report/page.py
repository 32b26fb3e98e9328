"""Writes pages: one HTML file without links to anything else.

The page runs no code but our script: its content security policy names the hash of the script
and of the style sheet. What players wrote comes as compressed data, and the script shows it as
text.
"""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from arena_envs.scenes.svg import css, surfaces_css
from arena_trainers.extras import import_extra
from arena_trainers.report.page_data import packed, page_data
from arena_trainers.report.reading import BadLine, Recorded
from arena_wrappers.files import whole_file

FOLDER = files("arena_trainers.report")


def write_replay(
    path: Path, lines: Iterable[Recorded | BadLine], *, title: str, left: int = 0
) -> None:
    """Writes a page of replays; the file appears whole or not at all.

    Args:
        path: the HTML file.
        lines: what the page shows.
        title: title of the page, such as the name of the file of episodes.
        left: number of lines after those of the page.

    Raises:
        ModuleNotFoundError: Jinja is not installed.
    """
    text = replay_page(lines, title=title, left=left)
    with whole_file(path) as file:
        file.write(text)


def replay_page(
    lines: Iterable[Recorded | BadLine], *, title: str, left: int = 0
) -> str:
    """The page that `write_replay` writes."""
    found = list(lines)
    recorded = [line for line in found if isinstance(line, Recorded)]
    return rendered(
        "replay.html",
        title=title,
        left=left,
        num_episodes=len(recorded),
        bad=[line for line in found if isinstance(line, BadLine)],
        data=packed(page_data(recorded)),
    )


def rendered(
    template: str, *, scripts: Sequence[str] = ("replay.js",), **values: Any
) -> str:
    """A page of one of our templates, with the script and the style of replays.

    Args:
        template: its file name; it extends `page.html`.
        scripts: file names of what the page runs, in order.
        values: what the template shows.

    Raises:
        ModuleNotFoundError: Jinja is not installed.
    """
    style = f"{_asset('replay.css')}{_scene_css()}"
    script = "".join(map(_asset, scripts))
    page: str = (
        _templates()
        .get_template(template)
        .render(
            **values,
            style=style,
            script=script,
            style_hash=_hash(style),
            script_hash=_hash(script),
        )
    )
    return page


def _templates() -> Any:
    jinja = import_extra("jinja2", "report")
    return jinja.Environment(
        loader=jinja.FunctionLoader(_asset),
        autoescape=True,
        undefined=jinja.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _asset(name: str) -> str:
    return FOLDER.joinpath(name).read_text(encoding="utf-8")


def _scene_css() -> str:
    """The colors of pictures; surfaces follow the reader's choice of light or dark."""
    dark = f"@media (prefers-color-scheme: dark){{{surfaces_css(dark=True)}}}"
    return f"@media all{{{css()}}}{dark}"


def _hash(text: str) -> str:
    """The hash of an inline script or style sheet in a content security policy."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
