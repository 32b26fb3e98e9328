"""Matchmaking: who plays each seat of each start, and who learns.

docs/plugins.md lists them.

`Matchmaker` is the protocol. The entry-point group `arena.matchmakers` names matchmakers of
other distributions, and `arena_trainers.matchmaking.testing` checks them. A matchmaker that
knows only names, numbers and results decides for every process alike: it imports no torch.
"""

from arena_trainers.matchmaking.by_name import make_matchmaker as make_matchmaker
from arena_trainers.matchmaking.by_name import matchmakers as matchmakers
from arena_trainers.matchmaking.history import History as History
from arena_trainers.matchmaking.protocol import SELF as SELF
from arena_trainers.matchmaking.protocol import BaseMatchmaker as BaseMatchmaker
from arena_trainers.matchmaking.protocol import EpisodeReturns as EpisodeReturns
from arena_trainers.matchmaking.protocol import Match as Match
from arena_trainers.matchmaking.protocol import Matchmaker as Matchmaker
from arena_trainers.matchmaking.protocol import Seats as Seats
from arena_trainers.matchmaking.protocol import Start as Start
from arena_trainers.matchmaking.protocol import against as against
from arena_trainers.matchmaking.protocol import is_past as is_past
from arena_trainers.matchmaking.protocol import snapshot_name as snapshot_name
from arena_trainers.matchmaking.protocol import snapshot_step as snapshot_step

names = matchmakers.names
