"""Pages of our templates, and the page of replays.

A page is one HTML file without links to anything else. It runs no code but our script: its content
security policy names the hash of the script and of the style sheet. What players wrote comes as
compressed JSON, and the script shows it as text.
"""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from arena_envs.extras import import_extra
from arena_envs.scenes.svg import css, surfaces_css
from arena_envs.trust import named_only
from arena_studio.report.episodes import BadLine, Recorded
from arena_studio.report.replay_data import packed, page_data
from arena_wrappers.records import write_whole

FOLDER = files("arena_studio.report")


def write_replay(
    path: Path,
    lines: Iterable[Recorded | BadLine],
    *,
    title: str,
    left: int = 0,
    allow_code: bool = False,
) -> None:
    """Writes a page of replays; the file appears whole or not at all.

    Args:
        path: the HTML file.
        lines: what the page shows.
        title: title of the page, such as the name of the file of episodes.
        left: number of lines after those of the page.
        allow_code: whether the lines may name code and files, as for
            `arena_wrappers.play.game_of`. Without it, such episodes have prompts in place of
            pictures.

    Raises:
        ModuleNotFoundError: Jinja is not installed.
    """
    with named_only(allow_code=allow_code):
        write_whole(path, replay_page(lines, title=title, left=left))


def replay_page(
    lines: Iterable[Recorded | BadLine], *, title: str, left: int = 0
) -> str:
    """The page that `write_replay` writes."""
    all_lines = list(lines)
    recorded = [line for line in all_lines if isinstance(line, Recorded)]
    return filled_page(
        "replay.html",
        title=title,
        left=left,
        num_episodes=len(recorded),
        bad=[line for line in all_lines if isinstance(line, BadLine)],
        data=packed(page_data(recorded)),
    )


def filled_page(
    template: str,
    *,
    scripts: Sequence[str] = ("replay.js",),
    connects: bool = False,
    **values: Any,
) -> str:
    """A page of one of our templates, with the script and the style of replays.

    Args:
        template: its file name; it extends `page.html`.
        scripts: file names of what the page runs, in order.
        connects: whether the page listens to the server that it comes from.
        values: what the template shows.

    Raises:
        ModuleNotFoundError: Jinja is not installed.
    """
    # the colors of pictures; surfaces follow the reader's choice of light or dark
    dark = f"@media (prefers-color-scheme: dark){{{surfaces_css(dark=True)}}}"
    style = f"{_asset('replay.css')}@media all{{{css()}}}{dark}"
    script = "".join(map(_asset, scripts))
    jinja = import_extra("jinja2", "report")
    templates = jinja.Environment(
        loader=jinja.FunctionLoader(_asset),
        autoescape=True,
        undefined=jinja.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    hashes = {"style_hash": _hash(style), "script_hash": _hash(script)}
    values |= {"style": style, "script": script, "connects": connects, **hashes}
    page: str = templates.get_template(template).render(**values)
    return page


def _asset(name: str) -> str:
    return FOLDER.joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """The hash of an inline script or style sheet in a content security policy."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
