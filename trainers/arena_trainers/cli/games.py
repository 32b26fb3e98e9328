"""The command `arena games`.

`games.json` holds the rows of the games of this distribution, as `docs/build_games.py` writes them.
Other games are played when they are listed.
"""

import json
from pathlib import Path
from typing import Any

import typer
from rich.table import Table

import arena_envs
from arena_envs import registration
from arena_envs.checks import install_advice
from arena_trainers.cli.output import JsonOption, print_tables
from arena_trainers.terminal import Console


def list_games(as_json: JsonOption = False) -> None:
    """List all games.

    Pays: whether rewards come at the end or on the way. Longest: most turns of an episode, all
    players together. Prompt: mean characters of a prompt in random play. All three are missing
    if the game's extra is not installed.
    """
    missing = arena_envs.missing_games()
    rows = {
        row["id"]: row
        for row in json.loads(ROWS.read_text())
        if row["id"] not in missing
    }
    if plugin_ids := registration._entries.keys() - rows:
        from rich.progress import track  # only games of plug-ins are played

        infos = arena_envs.game_infos(plugin_ids)
        console = Console(stderr=True)
        for info in track(infos, "playing", console=console, transient=True):
            rows[info.id] = game_row(info)
    sorted_rows = [rows[id] for id in sorted(rows)]
    if as_json:
        typer.echo(json.dumps(sorted_rows, indent=1))
        return
    print_tables([_games_table(sorted_rows, Console().is_terminal)])
    if extras := ",".join(sorted({*missing.values()})):
        typer.echo(f"-: not installed; {install_advice(extras)}")


ROWS = Path(__file__).with_name("games.json")
SIGNS = {"split": ("held_out", "*"), "pays": ("on_the_way", "+")}


def _games_table(rows: list[dict[str, Any]], terminal: bool) -> Table:
    """The games; a terminal's table has 80 columns, with signs for the split and `pays`."""
    names = [name for name in rows[0] if not (terminal and name in SIGNS)]
    caption = "* held out for evaluation, + pays on the way" if terminal else None
    table = Table(
        box=None,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        caption=caption,
        caption_justify="left",
    )
    for name in names:
        is_text = name in ("id", "kind", "information", "split", "pays")
        table.add_column(name, justify="left" if is_text else "right", no_wrap=True)
    for row in rows:
        cells = ["-" if row[name] is None else str(row[name]) for name in names]
        if terminal:
            signs = (
                sign for name, (value, sign) in SIGNS.items() if row[name] == value
            )
            cells[0] += "".join(signs)
        table.add_row(*cells)
    return table


def game_row(info: arena_envs.GameInfo) -> dict[str, Any]:
    """The facts of a game, and those that random play shows."""
    from arena_wrappers.prompts.pages import mean_prompt_length

    row = {
        "id": info.id,
        "kind": info.kind,
        "players": info.num_players,
        "information": info.information,
        "split": info.split,
        "pays": None,
        "longest": None,
        "prompt": None,
    }
    plugin = registration._entries[info.id].plugin
    try:
        game = arena_envs.make_game(info.id)
        length = round(mean_prompt_length(game))
        facts = {"pays": getattr(game, "pays", None), "longest": game.max_turns}
        return {**row, **facts, "prompt": length}
    except ImportError:
        if info.extra is None and plugin is None:
            raise
    except Exception as error:  # a plug-in may raise anything
        if plugin is None:
            raise
        message = f"{type(error).__name__}: {error}"
        typer.echo(f"game {info.id!r} of plug-in {plugin!r}: {message}", err=True)
    return row
