"""Round robins between policies: payoff matrices and ratings.

`play_tournament` plays and sums up. `TournamentPlan` checks its arguments, and runs later.
Both need the extra `eval` (scipy, openskill).
"""

from arena_trainers.tournament.log import Match, Result, TournamentLog
from arena_trainers.tournament.round_robin import TournamentPlan, play_tournament
from arena_trainers.tournament.summary import (
    CrossPlay,
    GameSummary,
    NashAverage,
    PairOutcome,
    Payoff,
    Rating,
    Tournament,
    fit_elo,
    lineups_of,
    nash_average,
    rate,
)

__all__ = [
    "CrossPlay",
    "GameSummary",
    "Match",
    "NashAverage",
    "PairOutcome",
    "Payoff",
    "Rating",
    "Result",
    "Tournament",
    "TournamentLog",
    "TournamentPlan",
    "fit_elo",
    "lineups_of",
    "nash_average",
    "play_tournament",
    "rate",
]
