"""Mean returns of policies against each other, by game."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from arena_envs.game import AnyGame
from arena_trainers.evaluate.intervals import mean_interval
from arena_trainers.tournament.log import Match, Result
from arena_trainers.tournament.ratings import Outcome

Lineup = tuple[int, ...]  # the policy in each seat, by its index


@dataclass(frozen=True)
class Payoff:
    """Mean return of one policy in one seat, with another policy in all other seats.

    Attributes:
        mean: mean return, each seat with the same weight.
        low: lower end of its 95 % interval; the episodes of one seed are one observation.
        high: upper end.
        num_episodes: number of episodes.
    """

    mean: float
    low: float
    high: float
    num_episodes: int


@dataclass(frozen=True)
class CrossPlay:
    """The gap between the returns of self-play and cross-play.

    Attributes:
        self_play: mean return of policies with copies of themselves.
        cross_play: mean return over ordered pairs of different policies.
        gap: `self_play - cross_play`.
        low: lower end of the gap's 95 % interval.
        high: upper end.
    """

    self_play: float
    cross_play: float
    gap: float
    low: float
    high: float


def lineups_of(num_policies: int, num_players: int, self_pairs: bool) -> list[Lineup]:
    """Each policy in one seat, every seat in turn, against each other policy in the rest.

    With two seats these are all pairs in both orders.

    >>> lineups_of(2, 2, self_pairs=False)
    [(0, 1), (1, 0)]
    >>> lineups_of(2, 3, self_pairs=True)[:4]
    [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0)]
    """
    found: dict[Lineup, None] = {}
    for row in range(num_policies):
        for column in range(num_policies):
            if row == column and not self_pairs:
                continue
            for seat in range(num_players):
                found[_lineup(row, column, seat, num_players)] = None
    return list(found)


def _lineup(row: int, column: int, seat: int, num_players: int) -> Lineup:
    return tuple(row if s == seat else column for s in range(num_players))


class Scores:
    """The results of one game of a tournament.

    Args:
        game: the rules.
        label: label of the game in `Match`.
        policies: names of the policies.
        seeds: seeds of each lineup.
        done: results; at least all those of this game.
    """

    def __init__(
        self,
        game: AnyGame,
        label: str,
        policies: Sequence[str],
        seeds: range,
        done: Mapping[Match, Result],
    ) -> None:
        self.game, self.label, self.policies = game, label, policies
        self.seeds, self.done = seeds, done

    def result(self, lineup: Lineup, seed: int) -> Result:
        """The result of an episode."""
        names = tuple(self.policies[index] for index in lineup)
        return self.done[Match(self.label, names, seed)]

    def payoff(self, row: int, column: int) -> Payoff:
        """Return of the row policy in one seat, with copies of the column policy in the rest."""
        scores = self._scores(row, column)
        low, high = mean_interval(scores, self.game.min_return, self.game.max_return)
        lineups = 1 if row == column else self.game.num_players
        return Payoff(sum(scores) / len(scores), low, high, len(scores) * lineups)

    def cross_play(self) -> CrossPlay:
        """Self-play against cross-play, over all policies."""
        size = range(len(self.policies))
        own = _means([self._scores(row, row) for row in size])
        mixed = _means([self._scores(r, c) for r in size for c in size if r != c])
        gaps = [a - b for a, b in zip(own, mixed, strict=True)]
        spread = self.game.max_return - self.game.min_return
        low, high = mean_interval(gaps, -spread, spread)
        first, second, gap = (sum(v) / len(v) for v in (own, mixed, gaps))
        return CrossPlay(first, second, gap, low, high)

    def outcomes(self) -> list[Outcome]:
        """Win, draw or loss of each episode between two policies, in order of the seeds.

        The return of the policy with one seat is compared with the mean return of the
        other seats. The policy that forfeits loses.
        """
        size, num_players = len(self.policies), self.game.num_players
        return [
            self._outcome(row, column, seat, seed)
            for seed in self.seeds
            for row in range(size)
            for column in range(size)
            for seat in range(num_players if num_players > 2 else 1)
            if row != column
        ]

    def _outcome(self, row: int, column: int, seat: int, seed: int) -> Outcome:
        num_players = self.game.num_players
        result = self.result(_lineup(row, column, seat, num_players), seed)
        own = result.returns[seat]
        others = (sum(result.returns) - own) / (num_players - 1)
        if result.forfeited_by is not None:
            return Outcome(row, column, float(result.forfeited_by != seat))
        if abs(own - others) < 1e-9:
            return Outcome(row, column, 0.5)
        return Outcome(row, column, float(own > others))

    def _scores(self, row: int, column: int) -> list[float]:
        """Mean return of the row policy over all seats, by seed."""
        num_players = self.game.num_players
        lineups = [_lineup(row, column, s, num_players) for s in range(num_players)]
        return [
            sum(
                self.result(lineup, seed).returns[seat]
                for seat, lineup in enumerate(lineups)
            )
            / num_players
            for seed in self.seeds
        ]


def _means(lists: Sequence[Sequence[float]]) -> list[float]:
    return [sum(values) / len(values) for values in zip(*lists, strict=True)]
