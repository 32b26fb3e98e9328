"""What a tournament found, by game and in all."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from arena_envs.game import AnyGame
from arena_trainers.tournament.log import Match, Result
from arena_trainers.tournament.payoffs import CrossPlay, Payoff, Scores
from arena_trainers.tournament.ratings import NashAverage, Rating, nash_average, rate
from arena_wrappers.episodes import params_of


@dataclass(frozen=True)
class GameSummary:
    """How the policies fared in one game.

    Attributes:
        game: label of the game.
        params: parameters of the game.
        kind: of the game.
        payoffs: by row and column: what the row's policy earned in one seat with the
            column's in all others; None where they did not meet.
        ratings: in competitive games; else None.
        nash: Nash average in competitive zero-sum games of two; else None.
        cross_play: self-play against cross-play in cooperative games; else None.
    """

    game: str
    params: Mapping[str, Any]
    kind: str
    payoffs: tuple[tuple[Payoff | None, ...], ...]
    ratings: tuple[Rating, ...] | None
    nash: NashAverage | None
    cross_play: CrossPlay | None


@dataclass(frozen=True)
class Tournament:
    """All that a tournament found.

    Attributes:
        policies: names, in the order of all rows and columns.
        num_episodes: of each lineup.
        seed: of the first episode of each lineup.
        games: a summary of each game.
        ratings: over all competitive games together; None without any.
        forfeits: by policy: how often it forfeited, by reason.
        warnings: a line for each policy most of whose replies in a game were invalid.
    """

    policies: tuple[str, ...]
    num_episodes: int
    seed: int
    games: tuple[GameSummary, ...]
    ratings: tuple[Rating, ...] | None
    forfeits: Mapping[str, Mapping[str, int]]
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The tournament as JSON can hold it."""
        values = asdict(self)
        for game in values["games"]:
            game["nash"] = game["nash"] and game["nash"]._asdict()
        return values


def summarise(
    policies: Sequence[str],
    seeds: range,
    games: Mapping[str, AnyGame],
    done: Mapping[Match, Result],
    self_pairs: bool,
) -> Tournament:
    """Sums up the results of all matches of a tournament."""
    scores = [Scores(game, name, policies, seeds, done) for name, game in games.items()]
    competitive = [one for one in scores if one.game.kind == "competitive"]
    outcomes = [outcome for one in competitive for outcome in one.outcomes()]
    return Tournament(
        policies=tuple(policies),
        num_episodes=len(seeds),
        seed=seeds.start,
        games=tuple(_summary(one, self_pairs) for one in scores),
        ratings=rate(policies, outcomes) if competitive else None,
        forfeits=_forfeits(done),
    )


def meets_itself(game: AnyGame, self_pairs: bool) -> bool:
    """Whether policies play with themselves in this game."""
    return self_pairs or game.kind == "cooperative"


def _summary(scores: Scores, self_pairs: bool) -> GameSummary:
    game, policies = scores.game, scores.policies
    size, has_diagonal = range(len(policies)), meets_itself(game, self_pairs)
    payoffs = tuple(
        tuple(
            scores.payoff(row, column) if row != column or has_diagonal else None
            for column in size
        )
        for row in size
    )
    is_competitive = game.kind == "competitive"
    nash = None
    if is_competitive and game.num_players == 2 and game.zero_sum:
        nash = nash_average([[c.mean if c else 0.0 for c in row] for row in payoffs])
    return GameSummary(
        game=scores.label,
        params=params_of(game),
        kind=game.kind,
        payoffs=payoffs,
        ratings=rate(policies, scores.outcomes()) if is_competitive else None,
        nash=nash,
        cross_play=scores.cross_play() if game.kind == "cooperative" else None,
    )


def _forfeits(done: Mapping[Match, Result]) -> dict[str, dict[str, int]]:
    found: dict[str, Counter[str]] = {}
    for match in sorted(done):  # whatever the order in which episodes were over
        result = done[match]
        if result.forfeited_by is not None:
            name = match.lineup[result.forfeited_by]
            found.setdefault(name, Counter())[result.reason or "unknown"] += 1
    return {name: dict(counts.most_common()) for name, counts in found.items()}
