"""Writes `docs/games/` from the pages of the games, or says which file is out of date.

python docs/build_games.py --write
python docs/build_games.py
"""

import argparse
import sys
from pathlib import Path

import arena_envs
from arena_envs import registration
from arena_wrappers.prompts.pages import mean_prompt_length, page_text, title_of

FOLDER = Path(__file__).with_name("games")
OTHER = ("language.md",)  # written by docs/build_language.py
HEAD = """\
# Games

Written by `python docs/build_games.py --write` from the docstrings of the games. Longest:
decisions of all players together. Prompt: characters of a prompt with default options, on
average over random play. Split: whether the id is for training or held out, as in MARSHAL; the parameter
`split` of a game holds out instances within the game. [language.md](language.md) has the tiny model in self-play of five
language games.

| id | kind | players | information | split | pays | longest | prompt |
|---|---|---|---|---|---|---|---|
"""


def build() -> dict[str, str]:
    """All files of the folder by name."""
    stems = stems_of()
    files = {}
    for stem in sorted({*stems.values()}):
        own = [id for id, of in stems.items() if of == stem]
        own.sort(key=lambda id: (id.rpartition("-v")[0] != stem, id))
        files[f"{stem}.md"] = page_text(arena_envs.make_game(own[0]), own)
    infos = [info for info in arena_envs.game_infos() if info.id in stems]
    rows = [_row(info, stems[info.id]) for info in infos]
    files["README.md"] = HEAD + "".join(f"{row}\n" for row in rows)
    return files


def stems_of() -> dict[str, str]:
    """The page of each game, by id."""
    modules = {
        id: entry.entry_point.partition(":")[0]
        for id, entry in registration._entries.items()
        if not entry.plugin
    }
    return {id: module.rpartition(".")[2] for id, module in modules.items()}


def _row(info: arena_envs.GameInfo, stem: str) -> str:
    game = arena_envs.make_game(info.id)
    cells = [
        f"[`{info.id}`]({stem}.md) {title_of(game)}",
        *(info.kind, str(info.num_players), info.information, info.split, game.pays),
        *(str(game.max_turns), f"{mean_prompt_length(game):.0f}"),
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Runs the script."""
    parser = argparse.ArgumentParser(description="Pages of the games.")
    parser.add_argument("--write", action="store_true", help="into docs/games")
    write = parser.parse_args().write
    files = build()
    stale = [
        name
        for name, text in files.items()
        if not (FOLDER / name).exists() or (FOLDER / name).read_text() != text
    ]
    stale += [p.name for p in FOLDER.glob("*.md") if p.name not in (*files, *OTHER)]
    if write:
        FOLDER.mkdir(exist_ok=True)
        for name in stale:
            if name in files:
                (FOLDER / name).write_text(files[name])
            else:
                (FOLDER / name).unlink()
    elif stale:
        sys.exit(f"out of date: {', '.join(stale)}; run with --write")


if __name__ == "__main__":
    main()
