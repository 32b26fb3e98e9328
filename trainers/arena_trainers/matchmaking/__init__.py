"""Matchmaking: who plays each seat of each start, and who learns.

| matchmaker | opponents of the policy that learns |
|---|---|
| `past_selves` | its snapshots, uniformly: a window of them, or all of its history |
| `prioritised` | its snapshots, those that it loses to more often |
| `psro` | its snapshots, by an equilibrium of the matches between them |
| `mixture` | itself, its snapshots, bots, models and endpoints, by weights |

`Matchmaker` is the protocol. The entry-point group `arena.matchmakers` names matchmakers of
other distributions, and `arena_trainers.matchmaking.testing` checks them. A matchmaker that
knows only names, numbers and results decides for every process alike: it imports no torch.
"""

from arena_trainers.matchmaking.protocol import (
    SELF,
    BaseMatchmaker,
    History,
    Match,
    Matchmaker,
    Result,
    Seats,
    Start,
    against,
    is_past,
    make_matchmaker,
    matchmakers,
    names,
    snapshot_name,
    snapshot_step,
)

__all__ = [
    "SELF",
    "BaseMatchmaker",
    "History",
    "Match",
    "Matchmaker",
    "Result",
    "Seats",
    "Start",
    "against",
    "is_past",
    "make_matchmaker",
    "matchmakers",
    "names",
    "snapshot_name",
    "snapshot_step",
]
