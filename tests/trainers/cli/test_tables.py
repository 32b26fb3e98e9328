"""Tables of the command, on a terminal and in a pipe."""

import pytest
from rich.table import Table

import arena_envs
from arena_trainers.cli.games import _games_table
from arena_trainers.cli.output import plain
from arena_trainers.terminal import Console


@pytest.fixture(scope="module")
def rows():
    return [
        {
            "id": info.id,
            "kind": info.kind,
            "players": info.num_players,
            "information": info.information,
            "split": info.split,
            "pays": "on_the_way" if info.split == "held_out" else "end",  # both signs
            "longest": 17697,  # as many digits as any has
            "prompt": 2155,
        }
        for info in arena_envs.game_infos()
    ]


def test_the_list_of_games_fits_80_columns_without_breaking_words(rows):
    console = Console(width=80, force_terminal=True, color_system=None)
    with console.capture() as capture:
        console.print(_games_table(rows, terminal=True))
    lines = [line.split() for line in capture.get().splitlines()]
    for row, words in zip(rows, lines[1:], strict=False):
        signs = "*+" if row["split"] == "held_out" else ""
        wanted = [row[name] for name in row if name not in ("id", "split", "pays")]
        assert words == [row["id"] + signs, *map(str, wanted)]


def test_a_piped_table_is_plain_text_with_tabs(rows):
    head, *lines = plain(_games_table(rows, terminal=False)).splitlines()
    assert head.split("\t") == list(rows[0])
    assert [line.split("\t") for line in lines] == [
        [str(value) for value in row.values()] for row in rows
    ]


def test_a_piped_cell_keeps_its_brackets_and_has_one_line():
    table = Table("reads", title="[b]kuhn[/b]")
    table.add_row("[bet]\nor [pass]")
    assert plain(table) == "# [b]kuhn[/b]\nreads\n[bet]; or [pass]"
