"""Writes the report of an evaluation or a tournament: results and replays in one page."""

from pathlib import Path

from arena_trainers.report.page import rendered
from arena_trainers.report.page_data import packed, page_data
from arena_trainers.report.played_files import Played
from arena_wrappers.files import whole_file


def write_played(path: Path, found: Played) -> None:
    """Writes the report; the file appears whole or not at all.

    Args:
        path: the HTML file.
        found: what `read_evaluation` or `read_tournament` gave.

    Raises:
        ModuleNotFoundError: Jinja is not installed.
    """
    text = played_page(found)
    with whole_file(path) as file:
        file.write(text)


def played_page(found: Played) -> str:
    """The page that `write_played` writes."""
    data = packed(page_data(found.episodes))
    return rendered("played.html", title=found.name, found=found, data=data)
