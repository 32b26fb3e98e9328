"""Games in a browser: `arena serve web`. `Tables` keeps the games, `make_app` serves them."""

from arena_studio.web.app import make_app as make_app
from arena_studio.web.connections import ConnectionLimits as ConnectionLimits
from arena_studio.web.connections import Connections as Connections
from arena_studio.web.connections import protocol_of as protocol_of
from arena_studio.web.games import listed as listed
from arena_studio.web.rates import Limits as Limits
from arena_studio.web.refusal import Refused as Refused
from arena_studio.web.server import LOOPBACK as LOOPBACK
from arena_studio.web.tables import PERSON as PERSON
from arena_studio.web.tables import Tables as Tables
