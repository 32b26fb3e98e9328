"""Round robins between policies: payoff matrices and ratings.

`play_tournament` plays and sums up. `TournamentPlan` checks its arguments, and runs later.
Both need the extra `eval` (scipy, openskill).

`play_suite` writes a submission to a suite of games, which `verify_submission` plays again.
"""

from arena_trainers.tournament.board import (
    Suite,
    load_suite,
    play_suite,
    rate_submissions,
    submissions_page,
    verify_submission,
)
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
    "Suite",
    "Tournament",
    "TournamentLog",
    "TournamentPlan",
    "fit_elo",
    "lineups_of",
    "load_suite",
    "nash_average",
    "play_suite",
    "play_tournament",
    "rate",
    "rate_submissions",
    "submissions_page",
    "verify_submission",
]
