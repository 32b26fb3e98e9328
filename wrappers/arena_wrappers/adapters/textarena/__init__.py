"""TextArena: our games there (`to_textarena`), its games here (`from_textarena`).

Importing this package registers every game: `textarena.make("arena/kuhn_poker-v0")`.
"""

from arena_wrappers.adapters import check_version

check_version("textarena", "textarena", "0.7.4", "0.8")

from arena_wrappers.adapters.textarena.incoming import (  # noqa: E402  # after the check
    TextArenaGame,
    from_textarena,
)
from arena_wrappers.adapters.textarena.outgoing import (  # noqa: E402
    TextArenaEnv,
    register_games,
    to_textarena,
)
from arena_wrappers.adapters.textarena.positions import UnsupportedGame  # noqa: E402

register_games()

__all__ = [
    "TextArenaEnv",
    "TextArenaGame",
    "UnsupportedGame",
    "from_textarena",
    "to_textarena",
]
