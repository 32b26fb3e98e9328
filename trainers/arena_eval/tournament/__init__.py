"""Round robins between policies: payoff matrices and ratings.

`play_tournament` plays and sums up. `TournamentPlan` checks its arguments, and runs later.
Both need the extra `eval` (scipy, openskill).

`play_suite` writes a submission to a suite of games, which `verify_submission` plays again.
"""

from arena_eval.tournament.board import Suite as Suite
from arena_eval.tournament.board import load_suite as load_suite
from arena_eval.tournament.board import play_suite as play_suite
from arena_eval.tournament.board import rate_submissions as rate_submissions
from arena_eval.tournament.board import submissions_page as submissions_page
from arena_eval.tournament.board import verify_submission as verify_submission
from arena_eval.tournament.round_robin import CrossPlay as CrossPlay
from arena_eval.tournament.round_robin import EpisodeResult as EpisodeResult
from arena_eval.tournament.round_robin import GameSummary as GameSummary
from arena_eval.tournament.round_robin import NashAverage as NashAverage
from arena_eval.tournament.round_robin import PairOutcome as PairOutcome
from arena_eval.tournament.round_robin import Payoff as Payoff
from arena_eval.tournament.round_robin import Rating as Rating
from arena_eval.tournament.round_robin import ScheduledEpisode as ScheduledEpisode
from arena_eval.tournament.round_robin import Tournament as Tournament
from arena_eval.tournament.round_robin import TournamentLog as TournamentLog
from arena_eval.tournament.round_robin import TournamentPlan as TournamentPlan
from arena_eval.tournament.round_robin import fit_elo as fit_elo
from arena_eval.tournament.round_robin import lineups_of as lineups_of
from arena_eval.tournament.round_robin import nash_average as nash_average
from arena_eval.tournament.round_robin import play_tournament as play_tournament
from arena_eval.tournament.round_robin import rate as rate
