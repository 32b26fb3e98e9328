"""Games in a browser: `arena serve web`. `Tables` keeps the games, `make_app` serves them."""

from arena_trainers.web.app import LOOPBACK, Limits, make_app
from arena_trainers.web.tables import PERSON, Refused, Tables

__all__ = ["LOOPBACK", "PERSON", "Limits", "Refused", "Tables", "make_app"]
