"""Writes `docs/games/` from the pages of the games, or says which file is out of date.

Also writes the numbers that `arena games` lists.

python docs/build_games.py --write
python docs/build_games.py
"""

import argparse
import json
import sys
from pathlib import Path

import arena_envs
from arena_envs import registration
from arena_trainers.cli.games import ROWS, game_row
from arena_wrappers.prompts.pages import mean_prompt_length, page_text, page_title

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

TRICKS = """
## Cheap tricks

Mean returns of cheap policies, and of honest play by the bots of the game in the same seats, over 60 to 1,500 episodes.
`tests/games/test_tricks.py` plays these and 50 more in its table `TRICKS`. Add a row for each idea of your own.

| game | trick | pays | honest |
|---|---|---|---|
| `codenames` | rhymes of own words, red / blue | -0.77 / -0.55 | -0.52 / 0.52 |
| `persuasion` | honest advice, and a lie in the last round (see [its page](persuasion.md)) | **0.35** | 0.32 |
| `persuasion` | recommend everything | 0.07 | 0.32 |
| `secret_keeper` | the attacker writes a password in two halves | 0.00 | 0.01 |
| `secret_keeper` | the keeper refuses, and tells half of the secret in each round | 0.00 | 0.50 |
| `taboo` | spelling: a letter left out, base64, initials and others | at most 0.02 | 1.00 |
| `taboo` | rhymes / words that begin alike / both, by a pair that knows all cards | 0.91 / 0.96 / 0.96 | 1.00 |
| `taboo` | the same with a stranger | 0.01 | 1.00 |
| `taboo` | translations, German / Spanish: 4 of 5 are refused; 26 cards | 0.21 / 0.15 | 1.00 |
| `twenty_questions` | name the things of the train split in order, in train / test | 0.07 / 0.07 | 0.66 / 0.67 |
| `werewolf` | always nonsense | -0.80 | -0.14 |
| `werewolf` | always "sleep", else the first action | -0.28 | -0.11 |
| `wordle` | name the words of the train split in order, in train / test | 0.07 / 0.00 | 0.79 / 0.75 |
"""


def listed_rows() -> str:
    """The content of the file of the rows of all games."""
    rows = [game_row(info) for info in arena_envs.game_infos()]
    return f"{json.dumps(rows, indent=1)}\n"


def build() -> dict[str, str]:
    """All files of the folder by name."""
    stems = stems_of()
    files = {}
    for stem in sorted({*stems.values()}):
        ids = [id for id, of in stems.items() if of == stem]
        ids.sort(key=lambda id: (id.rpartition("-v")[0] != stem, id))
        files[f"{stem}.md"] = page_text(arena_envs.make_game(ids[0]), ids)
    infos = [info for info in arena_envs.game_infos() if info.id in stems]
    rows = [_row(info, stems[info.id]) for info in infos]
    files["README.md"] = HEAD + "".join(f"{row}\n" for row in rows) + TRICKS
    return files


def stems_of() -> dict[str, str]:
    """The page of each game, by id."""
    modules = {
        id: entry.entry_point.partition(":")[0]
        for id, entry in registration._entries.items()
        if entry.entry_point.startswith("arena_envs.")
    }
    return {id: module.rpartition(".")[2] for id, module in modules.items()}


def _row(info: arena_envs.GameInfo, stem: str) -> str:
    game = arena_envs.make_game(info.id)
    cells = [
        f"[`{info.id}`]({stem}.md) {page_title(game)}",
        info.kind,
        str(info.num_players),
        info.information,
        info.split,
        game.pays,
        str(game.max_turns),
        f"{mean_prompt_length(game):.0f}",
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
    rows = listed_rows()
    if write:
        ROWS.write_text(rows)
        FOLDER.mkdir(exist_ok=True)
        for name in stale:
            if name in files:
                (FOLDER / name).write_text(files[name])
            else:
                (FOLDER / name).unlink()
    elif ROWS.read_text() != rows:
        sys.exit(f"out of date: {ROWS}; run with --write")
    elif stale:
        sys.exit(f"out of date: {', '.join(stale)}; run with --write")


if __name__ == "__main__":
    main()
