"""OpenSpiel: our games there (`to_openspiel`), its games here (`from_openspiel`)."""

from arena_wrappers.adapters import check_version

check_version("open_spiel", "openspiel", "1.6", "3")

from arena_wrappers.adapters.openspiel.incoming import (  # noqa: E402  # after the check
    OpenSpielGame,
    from_openspiel,
)
from arena_wrappers.adapters.openspiel.outgoing import to_openspiel  # noqa: E402
from arena_wrappers.adapters.openspiel.states import UnsupportedGame  # noqa: E402

__all__ = ["OpenSpielGame", "UnsupportedGame", "from_openspiel", "to_openspiel"]
