"""OpenSpiel: our games there (`to_openspiel`), its games here (`from_openspiel`)."""

try:
    import pyspiel as _pyspiel  # noqa: F401  # tells whether it is installed
except ImportError as error:
    raise ImportError(
        "OpenSpiel is not installed; install it with: pip install 'arena-envs[openspiel]'"
    ) from error

from arena_wrappers.adapters.openspiel.incoming import (
    OpenSpielGame,
    from_openspiel,
)
from arena_wrappers.adapters.openspiel.outgoing import to_openspiel
from arena_wrappers.adapters.openspiel.states import UnsupportedGame

__all__ = ["OpenSpielGame", "UnsupportedGame", "from_openspiel", "to_openspiel"]
