"""The results of a tournament, by game and in all."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from arena_envs.game import AnyGame
from arena_trainers.tournament.log import Match, Result
from arena_trainers.tournament.payoffs import CrossPlay, Payoff, Scores
from arena_trainers.tournament.ratings import NashAverage, Rating, nash_average, rate
from arena_wrappers.episodes import params_of


@dataclass(frozen=True)
class GameSummary:
    """Results of the policies in one game.

    Attributes:
        game: label of the game.
        params: parameters of the game.
        kind: kind of the game.
        payoffs: return of the row's policy in one seat, with the column's in all other
            seats; None if they did not meet.
        ratings: ratings in competitive games, else None.
        nash: Nash average in competitive zero-sum games of two seats, else None.
        cross_play: self-play against cross-play in cooperative games, else None.
        nash_conv: exact NashConv of policies by name; see `nash_convs`.
    """

    game: str
    params: Mapping[str, Any]
    kind: str
    payoffs: tuple[tuple[Payoff | None, ...], ...]
    ratings: tuple[Rating, ...] | None
    nash: NashAverage | None
    cross_play: CrossPlay | None
    nash_conv: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Tournament:
    """Results of a tournament.

    Attributes:
        policies: names, in the order of all rows and columns.
        num_episodes: episodes per lineup.
        seed: seed of the first episode of each lineup.
        games: one summary per game.
        ratings: ratings over all competitive games together; None without such games.
        forfeits: per policy, its number of forfeits by reason.
        warnings: one line per policy and game with mostly invalid replies.
    """

    policies: tuple[str, ...]
    num_episodes: int
    seed: int
    games: tuple[GameSummary, ...]
    ratings: tuple[Rating, ...] | None
    forfeits: Mapping[str, Mapping[str, int]]
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The results as values that JSON can hold."""
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
    """Whether the game has self-play."""
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
    for match in sorted(done):  # independent of the order in which episodes ended
        result = done[match]
        if result.forfeited_by is not None:
            name = match.lineup[result.forfeited_by]
            found.setdefault(name, Counter())[result.reason or "unknown"] += 1
    return {name: dict(counts.most_common()) for name, counts in found.items()}
