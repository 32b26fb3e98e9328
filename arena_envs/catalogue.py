"""The ids of our games in alphabetical order, and the names of bots for one game or family.

They stand in `catalogue.toml`.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from arena_envs.game import Information, Kind, as_tuples

Split = Literal["train", "held_out"]
CatalogueFacts = tuple[
    Kind, int, Information
]  # kind, number of players and information


class CatalogueEntry(NamedTuple):
    """A game of the catalogue.

    Attributes:
        game: `"module:Class"` below `arena_envs.games`.
        params: parameters of the class, where the id is a preset.
        split: whether the game is for training or held out for evaluation.
        extra: the extra of this distribution that the game needs.
        facts: what `game_infos()` tells of a game with an extra.
        bots: `"module:Class"` below `arena_envs.games`, by the name that
            `arena_envs.bots.make_bot` reads.
    """

    game: str
    params: Mapping[str, Any] = {}  # nobody changes it
    split: Split = "train"
    extra: str | None = None
    facts: CatalogueFacts | None = None
    bots: Mapping[str, str] = {}


def _entry(entry: str | dict[str, Any]) -> CatalogueEntry:
    """A game of the file, which is its class or all that is told of it."""
    if isinstance(entry, str):
        return CatalogueEntry(entry)
    return CatalogueEntry(**as_tuples(entry))


_FILE = Path(__file__).with_suffix(".toml")
GAMES: dict[str, CatalogueEntry] = {
    id: _entry(entry)
    for id, entry in sorted(tomllib.loads(_FILE.read_text("utf-8")).items())
}
