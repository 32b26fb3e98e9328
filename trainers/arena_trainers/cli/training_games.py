"""The games that a model was trained on, as the runs of its folder say."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from arena_envs import make
from arena_envs.game import AnyGame
from arena_envs.registry import split
from arena_envs.trust import named_only
from arena_trainers.cli.arguments import read_env
from arena_trainers.runs.folder import CONFIG
from arena_trainers.runs.recipe import load_recipe


def training_games(
    policy: str, game_names: Sequence[str] | None, *, allow_code: bool = False
) -> tuple[list[AnyGame] | None, list[str]]:
    """The games that a model was trained on, as given or as the runs of its folder say.

    Args:
        policy: the model.
        game_names: the games, where an operator names them.
        allow_code: whether the files of the runs may name code.
    """
    from arena_trainers.train.game_entries import checked_entry, expanded

    if game_names:
        games_of_operator = [read_env(name, None, None).game for name in game_names]
        return games_of_operator, list(game_names)
    listing: list[str | Mapping[str, Any]] = []
    visited_runs: set[Path] = set()
    while match := re.fullmatch(r"(lm:|past:)([^@]*)(@.*)?", policy):
        folder = Path(match[2]).absolute()
        run = _run_with(folder)
        if run is None or run in visited_runs:
            break
        visited_runs.add(run)
        settings = load_recipe(str(run / CONFIG))
        games = settings.get("games") or ()
        listing += split(games) if isinstance(games, str) else games
        policy = f"lm:{settings.get('model')}"  # the run that it started from
    with named_only(allow_code=allow_code):
        entries = [*map(checked_entry, expanded(listing))]
        trained_games = [
            make(entry["id"], **entry.get("params", {})).game for entry in entries
        ]
    return trained_games or None, [str(entry["id"]) for entry in entries]


def _run_with(folder: Path) -> Path | None:
    """The run that holds a model's folder, at most two levels above; None without one."""
    for candidate in (folder, *folder.parents[:2]):
        if (candidate / CONFIG).is_file():
            return candidate
    return None
