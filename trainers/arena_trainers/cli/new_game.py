"""The command `arena new-game`."""

import keyword
import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from arena_envs import registration
from arena_trainers.cli.errors import usage_errors

SKELETONS = Path(__file__).with_name("skeletons")


def new_game(
    name: Annotated[str, typer.Argument(metavar="NAME")],
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder of the two files.")
    ] = Path(),
    hidden: Annotated[
        bool, typer.Option("--hidden", help="Players do not see each other's cards.")
    ] = False,
    talk: Annotated[
        bool, typer.Option("--talk", help="Players say something with their moves.")
    ] = False,
    players: Annotated[int, typer.Option(help="Number of players.", min=2, max=8)] = 2,
) -> None:
    """Write a small game with its page and its test, as a start for yours.

    Without options it is a race of two players; with them a game of cards.

    Examples:
      arena new-game capture_the_hill
      arena new-game liars_table --hidden --talk --players 3
    """
    with usage_errors():
        paths = write_skeleton(name, out, hidden, talk, players)
    for path in paths:
        typer.echo(f"wrote {path}")
    typer.echo(f"check it with: arena check {name}:{_class_name(name)}")
    typer.echo(f"play it with: arena play {name}:{_class_name(name)}")


def _check_name(name: str) -> None:
    is_snake = re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name)
    if not is_snake or keyword.iskeyword(name):
        raise ValueError(f"want a name in snake_case, such as my_game, got {name!r}")
    if registration.games.knows(name):
        raise ValueError(
            f"want a name for a new game, got {name!r}, which is a built-in game; give another "
            f"name, such as my_{name}"
        )


def write_skeleton(
    name: str,
    directory: Path,
    hidden: bool = False,
    talk: bool = False,
    players: int = 2,
) -> list[Path]:
    """Writes the module of a new game and its test; returns their paths.

    In a skeleton the line `[hidden]`, `[open]`, `[talk]` or `[mute]` begins lines for such a game
    only, `[all]` lines for all games.

    Raises:
        ValueError: the name is not in snake_case, or a file, a module of Python or a class
            in the skeleton has it; nothing is written.
    """
    _check_name(name)
    stem = "cards" if hidden or talk or players > 2 else "game"
    files = {f"{name}.py": f"{stem}.txt", f"test_{name}.py": f"test_{stem}.txt"}
    words = re.findall(r"\w+", (SKELETONS / f"{stem}.txt").read_text())
    if name in sys.stdlib_module_names or _class_name(name) in words:
        raise ValueError(
            f"{name!r} is a name of Python or of the skeleton; give another name"
        )
    paths = [directory / file for file in files]
    for path in paths:
        if path.exists():
            raise ValueError(f"{path} exists; give another name or --out")
    directory.mkdir(parents=True, exist_ok=True)
    kinds = ["all", "hidden" if hidden else "open", "talk" if talk else "mute"]
    values_of_fields = {
        "NAME": name,
        "CLASS": _class_name(name),
        "PLAYERS": str(players),
        "CARDS": str(players + 1),
    }
    for path, skeleton in zip(paths, files.values(), strict=True):
        text, is_included = "", True
        for line in (SKELETONS / skeleton).read_text().splitlines(keepends=True):
            if mark := re.fullmatch(r"\[(\w+)\]\n", line):
                is_included = mark[1] in kinds
            elif is_included:
                text += line
        for field, value in values_of_fields.items():
            text = text.replace(f"@{field}@", value)
        path.write_text(text)
    return paths


def _class_name(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))
