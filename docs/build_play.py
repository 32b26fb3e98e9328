"""Writes `docs/play/app/`, where games are played in the browser without a server.

`build_reference.py` calls it. The page is that of `arena serve web`; `play/here.js` lets a Web Worker
answer its requests, `play/worker.js`, where `play_here.py` runs in Pyodide with the packages'
own modules. What takes seconds to find is written here: opponents, and values of small games.
"""

import importlib.util
import json
import math
import shutil
from importlib.metadata import distribution
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import arena_envs
from arena_envs.solvers import TooLarge
from arena_eval.move_values import TOO_LARGE, MoveValueTable, Search, source_of
from arena_studio.web.app import FOLDER, style
from arena_studio.web.games import listed, offered_opponents
from arena_studio.web.pictures import picture_of

ROOT = Path(__file__).parents[1]
SOURCES = Path(__file__).with_name("play")
APP = SOURCES / "app"
PYODIDE = "https://cdn.jsdelivr.net/pyodide/v314.0.7/full/"
PACKED = {  # what the page needs; the packages themselves are empty where they want more
    "arena_envs": "arena_envs",
    "wrappers/arena_wrappers/__init__.py": "arena_wrappers/__init__.py",
    "wrappers/arena_wrappers/locks.py": "arena_wrappers/locks.py",
    "wrappers/arena_wrappers/records.py": "arena_wrappers/records.py",
    "wrappers/arena_wrappers/policies": "arena_wrappers/policies",
    "wrappers/arena_wrappers/prompts": "arena_wrappers/prompts",
    "trainers/arena_eval/baselines.py": "arena_eval/baselines.py",
    "trainers/arena_eval/move_values.py": "arena_eval/move_values.py",
    "trainers/arena_studio/web/views.py": "arena_studio/web/views.py",
    "docs/play_here.py": "play_here.py",
}
EMPTY = ("arena_trainers", "arena_eval", "arena_studio/web")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "worker-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'"
)


def write_app(folder: Path = APP, pyodide: str = PYODIDE) -> None:
    """Writes the page and all that it loads but Pyodide.

    Args:
        folder: is made anew.
        pyodide: where the page loads Pyodide from, with a slash at its end.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    page = FOLDER.joinpath("index.html").read_text()
    for old, new in (
        ("/style.css", "style.css"),
        (
            '<script src="/app.js">',
            '<script src="here.js"></script>\n<script src="app.js">',
        ),
        (
            "<title>",
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n<title>',
        ),
        ("</header>", '<p class="soft"><a href="../">About this page</a></p></header>'),
    ):
        if old not in page:
            raise ValueError(
                f"want {old!r} in the page of arena serve web; follow it here"
            )
        page = page.replace(old, new)
    (folder / "index.html").write_text(page)
    (folder / "app.js").write_text(FOLDER.joinpath("app.js").read_text())
    (folder / "style.css").write_text(style())
    shutil.copy(SOURCES / "here.js", folder)
    worker = (SOURCES / "worker.js").read_text().replace("{{pyodide}}", pyodide)
    (folder / "worker.js").write_text(worker)
    (folder / "pictures").mkdir()
    for id in listed():
        (folder / "pictures" / f"{id}.svg").write_text(picture_of(id))
    (folder / "offers.json").write_text(json.dumps(offers(), separators=(",", ":")))
    pack(folder / "arena.zip")
    pack_chess(folder / "chess.zip")


def offers() -> dict[str, Any]:
    """Games, their opponents, and the values of moves in small games."""
    games = listed()
    values_by_id = {id: kept_values(id) for id in games}
    return {
        "games": list(games.values()),
        "opponents": {id: list(offered_opponents(id)) for id in games},
        "values": {
            id: values for id, values in values_by_id.items() if values is not None
        },
    }


def kept_values(id: str) -> Any:
    """Rows of a table, or why a game has none; None for values that the page itself finds."""
    game = arena_envs.make_game(id)
    try:
        source = source_of(game)
    except TooLarge:
        return TOO_LARGE
    if isinstance(source, Search):
        return None
    if isinstance(source, MoveValueTable):
        rows = {repr(key): list(map(_number, row)) for key, row in source.rows.items()}
        policy = {
            repr(key): list(map(float, row)) for key, row in source.policy.items()
        }
        return rows, policy, source.reference, source.accuracy
    return source


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def pack(path: Path) -> None:
    """Packs the modules that run in the page."""
    with ZipFile(path, "w", ZIP_DEFLATED, compresslevel=9) as packed:
        for source, name in PACKED.items():
            root = ROOT / source
            for file in sorted(root.rglob("*")) if root.is_dir() else [root]:
                if (
                    file.is_file()
                    and file.suffix != ".pyc"
                    and "testing" not in file.parts
                ):
                    place = Path(name) / file.relative_to(root)
                    packed.write(file, place.as_posix())
        for name in EMPTY:
            packed.writestr(f"{name}/__init__.py", "")


def pack_chess(path: Path) -> None:
    """Packs the package `chess` with its licence, if it is installed."""
    if importlib.util.find_spec("chess") is None:
        return
    with ZipFile(path, "w", ZIP_DEFLATED, compresslevel=9) as packed:
        for file in distribution("chess").files or ():
            if (
                file.suffix == ".py"
                or "LICENSE" in file.name
                or file.name == "METADATA"
            ):
                packed.write(str(file.locate()), file.as_posix())


if __name__ == "__main__":
    write_app()
