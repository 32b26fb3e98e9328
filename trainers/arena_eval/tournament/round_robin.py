"""Round robins: all policies against each other, in every seat of every game.

The file of episodes, from which a tournament resumes; payoffs by game and ratings; the result as
a picture and as tables.
"""

import json
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rich.table import Table

from arena_envs import GameEnv
from arena_envs.extras import import_extra
from arena_envs.game import AnyGame, bounds_of
from arena_eval.baselines import prepared
from arena_eval.confidence_sequences import PLANNED
from arena_eval.exploit import given_prompts, nash_convs
from arena_eval.intervals import (
    TAIL,
    adjusted_interval,
    mean_interval,
    paired_interval,
)
from arena_eval.luck import (
    Adjusted,
    adjusted_mean,
    adjusted_returns,
    helps,
    worth_text,
)
from arena_eval.matches import Progress, env_of, seeds_of
from arena_eval.recorded_luck import LuckByPair
from arena_eval.result_rows import ReplyCount
from arena_eval.tables import LUCK, NAME, STYLE, nash_conv_table
from arena_wrappers import (
    EpisodePlan,
    NoReplyError,
    Policy,
    PromptWrapper,
    as_policy,
    stream_plans,
)
from arena_wrappers.locks import lock_of
from arena_wrappers.play import checked_timeout, tell_people
from arena_wrappers.policies import without_noise
from arena_wrappers.records import (
    Episode,
    append_bytes,
    is_unreadable,
    params_of,
    whole_lines,
)

HEADER, LINE, EPISODE = b'{"tournament": ', b'{"match": ', b', "episode": '


class ScheduledEpisode(NamedTuple):
    """An episode that is to be played.

    Attributes:
        game: label of the game.
        lineup: name of the policy in each seat.
        seed: seed of the episode.
    """

    game: str
    lineup: tuple[str, ...]
    seed: int


class EpisodeResult(NamedTuple):
    """The result of a scheduled episode.

    Attributes:
        returns: return of each seat.
        forfeited_by: the seat that forfeited, or None.
        reason: reason of the forfeit; the `detail` of that seat's last turn.
        record: the episode without the texts of its turns.
    """

    returns: tuple[float, ...]
    forfeited_by: int | None
    reason: str | None
    record: Episode | None = None


def episode_result(episode: Episode) -> EpisodeResult:
    """The result of an episode."""
    seat, reason = episode.forfeited_by, None
    if seat is not None:
        bad = [turn for turn in episode.turns if turn.seat == seat and turn.invalid]
        reason = f"{bad[-1].invalid}: {bad[-1].detail}" if bad else None
    turns = [
        replace(
            turn,
            messages=(),
            legal=(),
            reply="",
            prompt_ids=None,
            token_ids=None,
            logprobs=None,
            entropies=None,
            generations=(),
            state=None,
        )
        for turn in episode.turns
    ]
    record = replace(episode, turns=turns, final_state=None)
    return EpisodeResult(tuple(episode.returns), seat, reason, record)


class TournamentLog:
    """Appends episodes to a file of JSON lines; the first line has the settings.

    A process that is killed while it writes leaves at most one unfinished line. Opening the
    log again removes this line. One process at a time has the log open.

    Args:
        path: the file; created if missing.
        settings: settings of the tournament, as values that JSON can hold.
        on_episode: called with each episode, also with those already in the file.

    Attributes:
        done: results of the episodes in the file.

    Raises:
        ValueError: the file is no log of a tournament, or that of another one, or another
            process has it open.
    """

    def __init__(
        self,
        path: str | Path,
        settings: Mapping[str, Any],
        on_episode: Callable[[Episode], None],
    ) -> None:
        self.path, self._seen = Path(path), on_episode
        self.done: dict[ScheduledEpisode, EpisodeResult] = {}
        lines: list[bytes] = []
        if self.path.exists() and not self.path.is_file():
            raise ValueError(f"want a regular file for results, got {self.path}")
        self._lock = lock_of(self.path)
        if self.path.exists():
            lines = whole_lines(self.path, LINE, HEADER)
        if not lines:
            append_bytes(self.path, HEADER + json.dumps(settings).encode() + b"}\n")
        for number, line in enumerate(lines, 1):
            if number == 1:
                self._check_header(line, settings)
            else:
                self._take(number, line)

    def append(self, match: ScheduledEpisode, episode: Episode) -> None:
        """Adds an episode and syncs it to the disk.

        Raises:
            OSError: such as a full disk; no unfinished line stays behind.
        """
        match_fields = {"game": match.game, "seats": match.lineup}
        record = json.dumps(match_fields).encode(), episode.to_json().encode()
        append_bytes(self.path, LINE + record[0] + EPISODE + record[1] + b"}\n")
        self.done[match] = episode_result(episode)
        self._seen(episode)

    def _check_header(self, line: bytes, settings: Mapping[str, Any]) -> None:
        try:
            before = json.loads(line)["tournament"]
            names = sorted({*before, *settings})
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"want the log of a tournament, got {self.path}; give a new file"
            ) from error
        for name in names:
            old, new = before.get(name), json.loads(json.dumps(settings.get(name)))
            if old != new:
                raise ValueError(
                    f"{self.path} is of another tournament: its {name} is {old!r}, "
                    f"now it is {new!r}; give the same settings or a new file"
                )

    def _take(self, number: int, line: bytes) -> None:
        try:
            head, separator, tail = line.partition(EPISODE)
            if not separator:
                raise ValueError("want a match and an episode")
            match = json.loads(head + b"}")["match"]
            episode = Episode.from_json(tail[:-2].decode())  # without "}\n"
            key = ScheduledEpisode(match["game"], tuple(match["seats"]), episode.seed)
            self._seen(episode)
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{self.path}, line {number}: {error}") from error
        if key in self.done:
            raise ValueError(f"{self.path}, line {number} repeats {key}")
        self.done[key] = episode_result(episode)


Floats = NDArray[np.float64]

MEAN_ELO = 1500
POINTS = 400 / np.log(10)  # of Elo per natural log of the odds
WIDTH = 1.96  # standard errors on each side of a 95 % interval
EPSILON = 1e-7  # a smaller probability counts as 0


class PairOutcome(NamedTuple):
    """The result of an episode between two policies.

    Attributes:
        first: index of a policy.
        second: index of the other.
        score: 1 if the first won, 0.5 for a draw, 0 if it lost.
    """

    first: int
    second: int
    score: float


@dataclass(frozen=True)
class Rating:
    """The ratings of a policy in a tournament.

    Attributes:
        policy: name of the policy.
        elo: maximum-likelihood Elo; the mean over policies is 1500.
        elo_low: lower end of its 95 % interval.
        elo_high: upper end.
        mu: mean of OpenSkill's belief; the prior has 25.
        sigma: standard deviation of this belief; the prior has 25/3.
    """

    policy: str
    elo: float
    elo_low: float
    elo_high: float
    mu: float
    sigma: float


def rate(
    policies: Sequence[str], outcomes: Sequence[PairOutcome]
) -> tuple[Rating, ...]:
    """Elo and OpenSkill ratings of all policies.

    Args:
        policies: names of the policies.
        outcomes: results; OpenSkill updates its beliefs in this order.

    Raises:
        ModuleNotFoundError: scipy or openskill is missing.
    """
    elos, errors = fit_elo(len(policies), outcomes)
    model = import_extra("openskill.models", "eval").PlackettLuce()
    beliefs = [model.rating() for _ in policies]
    for first, second, score in outcomes:
        ranks = [1.0, 1.0] if score == 0.5 else [2.0 - score, 1.0 + score]
        teams = [[beliefs[first]], [beliefs[second]]]
        (beliefs[first],), (beliefs[second],) = model.rate(teams, ranks=ranks)
    return tuple(
        Rating(
            name, elo, elo - WIDTH * error, elo + WIDTH * error, belief.mu, belief.sigma
        )
        for name, elo, error, belief in zip(
            policies, elos.tolist(), errors.tolist(), beliefs, strict=True
        )
    )


def fit_elo(
    num_policies: int,
    outcomes: Sequence[PairOutcome],
    weights: Sequence[float] | None = None,
) -> tuple[Floats, Floats]:
    """Elo ratings and their standard errors.

    Maximises Σ w_ij log σ(θ_i - θ_j) over θ (Bradley and Terry 1952). w_ij is the number of
    wins of i over j; a draw is half a win for both. Each pair that met gets one draw more,
    which keeps the rating of a policy that always wins finite. The errors follow from the
    curvature at the maximum; they assume independent episodes.

    Args:
        num_policies: n.
        outcomes: results of episodes.
        weights: of the outcomes; by default 1.

    Returns:
        float64[n] ratings with mean 1500, float64[n] standard errors of their distances
        from the mean.

    Raises:
        ModuleNotFoundError: scipy is missing.

    >>> elos, _ = fit_elo(2, [PairOutcome(0, 1, 1.0)] * 9 + [PairOutcome(0, 1, 0.0)] * 0)
    >>> round(float(elos[0] - elos[1]), 3), round(400 * float(np.log10(9.5 / 0.5)), 3)
    (511.501, 511.501)
    """
    wins = np.zeros((num_policies, num_policies))
    outcome_weights = [1.0] * len(outcomes) if weights is None else weights
    for (first, second, score), weight in zip(outcomes, outcome_weights, strict=True):
        wins[first, second] += weight * score
        wins[second, first] += weight * (1 - score)
    wins += 0.5 * (wins + wins.T > 0)
    games = wins + wins.T

    def loss(theta: Floats) -> tuple[float, Floats]:
        gaps = theta[:, None] - theta[None, :]
        chances = 1 / (1 + np.exp(-gaps))
        gradient = (games * chances - wins).sum(1)
        return float((wins * np.logaddexp(0, -gaps)).sum()), gradient

    optimize = import_extra("scipy.optimize", "eval")
    start = np.zeros(num_policies)
    options = {"gtol": 1e-9, "ftol": 1e-15, "maxiter": 10_000}
    fit = optimize.minimize(loss, start, jac=True, method="L-BFGS-B", options=options)
    theta = fit.x - fit.x.mean()
    chances = 1 / (1 + np.exp(theta[None, :] - theta[:, None]))
    curvature = games * chances * (1 - chances)
    information = np.diag(curvature.sum(1)) - curvature
    errors = np.sqrt(np.diag(np.linalg.pinv(information)))
    return MEAN_ELO + POINTS * theta, POINTS * errors


@dataclass(frozen=True)
class NashAverage:
    """Nash averaging: ratings that adding a copy of a policy does not change.

    Attributes:
        weights: probability of each policy in the maximum-entropy equilibrium.
        ratings: mean payoff of each policy against this equilibrium; 0 for the policies in
            its support, at most 0 for the others.
        lows: lower end of the 95 % interval of each rating, by a bootstrap over seeds; empty
            where payoffs are given without seeds.
        highs: upper ends.
    """

    weights: tuple[float, ...]
    ratings: tuple[float, ...]
    lows: tuple[float, ...] = ()
    highs: tuple[float, ...] = ()


def nash_average(payoffs: ArrayLike) -> NashAverage:
    """The maximum-entropy equilibrium of the game of choosing a policy.

    Balduzzi et al., *Re-evaluating Evaluation* (2018), https://arxiv.org/abs/1806.02643.
    It is discontinuous where payoffs tie, so also read the intervals of the payoffs.

    Args:
        payoffs: float64[n, n], mean return of the row against the column in a zero-sum
            game. Measured payoffs are not exactly antisymmetric: the function uses
            (payoffs - payoffs') / 2. It does not read the diagonal.

    Raises:
        ValueError: `payoffs` is no square matrix, or not finite off the diagonal.
        ModuleNotFoundError: scipy is missing.

    >>> average = nash_average([[0, -1, 1], [1, 0, -1], [-1, 1, 0]])
    >>> [round(weight, 4) for weight in average.weights]
    [0.3333, 0.3333, 0.3333]
    """
    matrix = np.array(payoffs, np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
        raise ValueError(f"want a square matrix of payoffs, got shape {matrix.shape}")
    np.fill_diagonal(matrix, 0)
    if not np.isfinite(matrix).all():
        raise ValueError("want finite payoffs of all pairs")
    skew = (matrix - matrix.T) / 2
    scale = float(np.abs(skew).max()) or 1.0
    is_best = (skew + np.eye(len(skew)) > 0).all(axis=1)
    if is_best.any():  # beats all others, and so is the only equilibrium
        weights = is_best.astype(float)
        return NashAverage(tuple(weights.tolist()), tuple((skew @ weights).tolist()))
    inside = _inner_equilibrium(skew / scale)
    support = inside > EPSILON
    weights = np.zeros(len(skew))
    weights[support] = _most_even(skew[:, support] / scale, inside[support])
    return NashAverage(tuple(weights.tolist()), tuple((skew @ weights).tolist()))


NUM_RESAMPLES = 200  # of the seeds


def resampled_ratings(scores: Floats) -> Floats:
    """Nash averages of payoffs over seeds that are drawn with replacement.

    Args:
        scores: float64[n, n, seeds], return of the row against the column.

    Returns:
        float64[resamples, n].
    """
    num_seeds = scores.shape[2]
    shares = np.full(num_seeds, 1 / num_seeds)
    counts = np.random.default_rng(0).multinomial(num_seeds, shares, NUM_RESAMPLES)
    payoffs = np.einsum("ijs,bs->bij", scores, counts / num_seeds).round(12)
    # policies without randomness give few different ones
    distinct, places = np.unique(payoffs, axis=0, return_inverse=True)
    ratings = np.array([nash_average(matrix).ratings for matrix in distinct])
    return ratings[places.ravel()]


def shared_ranks(is_better: NDArray[np.bool_]) -> tuple[int, ...]:
    """The rank of each policy: 1 + the number of policies that are better beyond doubt.

    Args:
        is_better: bool[n, n], whether the row is better than the column beyond doubt.

    >>> shared_ranks(np.array([[False, False, True], [False, False, True], [False] * 3]))
    (1, 1, 3)
    """
    return tuple((1 + is_better.sum(axis=0)).tolist())


def _inner_equilibrium(skew: Floats) -> Floats:
    """An equilibrium of full support: it plays each policy that some equilibrium plays."""
    optimize = import_extra("scipy.optimize", "eval")
    size = len(skew)
    corners = []
    for policy in range(size):
        solution = optimize.linprog(
            c=-np.eye(size)[policy],
            A_ub=skew,
            b_ub=np.zeros(size),
            A_eq=np.ones((1, size)),
            b_eq=[1.0],
            method="highs",
        )
        if not solution.success:
            raise RuntimeError(f"the linear program was not solved: {solution.message}")
        corners.append(np.maximum(solution.x, 0))
    mean = np.mean(corners, axis=0)
    return np.asarray(mean / mean.sum())


def _most_even(skew: Floats, start: Floats) -> Floats:
    """The equilibrium of maximum entropy, found from one of full support."""
    optimize = import_extra("scipy.optimize", "eval")
    start = start / start.sum()
    limits = np.maximum(skew @ start, 0)  # allows for rounding in the constraints
    solution = optimize.minimize(
        lambda p: float(p @ np.log(p)),
        start,
        jac=lambda p: np.log(p) + 1,
        bounds=[(EPSILON**2, 1)] * len(start),
        constraints=[
            {"type": "eq", "fun": lambda p: p.sum() - 1, "jac": np.ones_like},
            {
                "type": "ineq",
                "fun": lambda p: limits - skew @ p,
                "jac": lambda p: -skew,
            },
        ],
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 1000},
    )
    best = np.asarray(solution.x if solution.success else start, np.float64)
    return np.asarray(best / best.sum())


Lineup = tuple[int, ...]  # the policy in each seat, by its index


@dataclass(frozen=True)
class Payoff:
    """Mean return of one policy in one seat, with another policy in all other seats.

    Attributes:
        mean: mean return, each seat with the same weight.
        low: lower end of its 95 % interval; the episodes of one seed are one observation.
        high: upper end.
        num_episodes: number of episodes.
        adjusted: the mean with the luck taken out; None where that does not help.
    """

    mean: float
    low: float
    high: float
    num_episodes: int
    adjusted: Adjusted | None = None


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
    lineups = (
        _lineup(row, column, seat, num_players)
        for row, column in product(range(num_policies), repeat=2)
        for seat in range(num_players)
        if row != column or self_pairs
    )
    return [*dict.fromkeys(lineups)]


def _lineup(row: int, column: int, seat: int, num_players: int) -> Lineup:
    return tuple(row if s == seat else column for s in range(num_players))


@dataclass(frozen=True)
class GameResults:
    """The results of one game of a tournament.

    Args:
        game: the rules.
        label: label of the game in `ScheduledEpisode`.
        policies: names of the policies.
        seeds: seeds of each lineup.
        done: results; at least all those of this game.
        luck: of its pairs; None to take none out.
    """

    game: AnyGame
    label: str
    policies: Sequence[str]
    seeds: Sequence[int]
    done: Mapping[ScheduledEpisode, EpisodeResult]
    luck: LuckByPair | None = None

    def result(self, lineup: Lineup, seed: int) -> EpisodeResult:
        """The result of an episode."""
        names = tuple(self.policies[index] for index in lineup)
        return self.done[ScheduledEpisode(self.label, names, seed)]

    def payoff(self, row: int, column: int) -> Payoff:
        """Return of the row policy in one seat, with copies of the column policy in the rest."""
        num_lineups = 1 if row == column else self.game.num_players
        columns = [] if row == column else [column]
        return self._payoff(self._scores(row, column), num_lineups, row, columns)

    def mean_return(self, row: int) -> Payoff:
        """Return of a policy, averaged over the other policies."""
        others = [c for c in range(len(self.policies)) if c != row]
        scores = _means([self._scores(row, column) for column in others])
        num_lineups = len(others) * self.game.num_players
        return self._payoff(scores, num_lineups, row, others)

    def _payoff(
        self,
        scores: Sequence[float],
        num_lineups: int,
        row: int,
        columns: Sequence[int],
    ) -> Payoff:
        low, high = mean_interval(scores, *bounds_of(self.game))
        mean = sum(scores) / len(scores)
        adjusted = self._adjusted(scores, row, columns)
        return Payoff(mean, low, high, len(scores) * num_lineups, adjusted)

    def _adjusted(
        self, scores: Sequence[float], row: int, columns: Sequence[int]
    ) -> Adjusted | None:
        """The mean over these opponents with the luck taken out, where that helps."""
        if self.luck is None or not columns:
            return None
        corrections = [self._corrections(row, column) for column in columns]
        if any(part is None for part in corrections):
            return None
        pairs = [
            self.luck.of(self.policies[row], self.policies[column])
            for column in columns
        ]
        return adjusted_mean(
            np.array(scores),
            np.mean([part for part in corrections if part is not None], axis=0),
            bounds_of(self.game),
            str(pairs[0].name),
            sum(pair.seconds for pair in pairs),
        )

    def _corrections(self, row: int, column: int) -> Floats | None:
        """float[seeds, kinds] of the row's policy; None without values."""
        num_players = self.game.num_players
        episodes = {
            seat: [
                record
                for seed in self.seeds
                for record in [
                    self.result(_lineup(row, column, seat, num_players), seed).record
                ]
                if record is not None
            ]
            for seat in range(num_players)
        }
        if self.luck is None or len(episodes[0]) < len(self.seeds):
            return None
        names = self.policies[row], self.policies[column]
        return self.luck.corrections(*names, episodes)

    def cross_play(self) -> CrossPlay:
        """Self-play against cross-play, over all policies."""
        size = range(len(self.policies))
        self_play = _means([self._scores(row, row) for row in size])
        mixed = _means([self._scores(r, c) for r in size for c in size if r != c])
        gaps = [a - b for a, b in zip(self_play, mixed, strict=True)]
        lowest, highest = bounds_of(self.game)
        low, high = paired_interval(gaps, highest - lowest)
        first, second, gap = (sum(v) / len(v) for v in (self_play, mixed, gaps))
        return CrossPlay(first, second, gap, low, high)

    def outcomes(self) -> list[PairOutcome]:
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

    def _outcome(self, row: int, column: int, seat: int, seed: int) -> PairOutcome:
        num_players = self.game.num_players
        result = self.result(_lineup(row, column, seat, num_players), seed)
        own_return = result.returns[seat]
        others = (sum(result.returns) - own_return) / (num_players - 1)
        if result.forfeited_by is not None:
            return PairOutcome(row, column, float(result.forfeited_by != seat))
        if abs(own_return - others) < 1e-9:
            return PairOutcome(row, column, 0.5)
        return PairOutcome(row, column, float(own_return > others))

    def all_scores(self) -> tuple[Floats, bool]:
        """float64[n, n, seeds], mean return over seats of the row against the column; 0 for itself.

        With the luck taken out where that helps; the second part says whether it was, of any pair.
        """
        size = len(self.policies)
        scores, is_adjusted = np.zeros((size, size, len(self.seeds))), False
        for row, column in product(range(size), repeat=2):
            if row == column:
                continue
            scores[row, column] = self._scores(row, column)
            if (adjusted := self._adjusted_scores(row, column)) is not None:
                scores[row, column], is_adjusted = adjusted, True
        return scores, is_adjusted

    def _adjusted_scores(self, row: int, column: int) -> Floats | None:
        """`_scores` with the luck taken out; None where that does not help."""
        if self.luck is None or len(self.seeds) < PLANNED.min_adjusted:
            return None
        if (corrections := self._corrections(row, column)) is None:
            return None
        returns = np.array(self._scores(row, column))
        adjusted = adjusted_returns(returns, corrections)
        return adjusted if helps(returns, adjusted) else None

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


@dataclass(frozen=True)
class GameSummary:
    """Results of the policies in one game.

    Attributes:
        game: label of the game.
        params: parameters of the game.
        kind: kind of the game.
        payoffs: return of the row's policy in one seat, with the column's in all other
            seats; None if they did not meet.
        means: mean return of each policy, averaged over the other policies.
        ranking: names of the policies, the best first: by Nash average, and equal ones and
            games without it by mean return. Both are of measured payoffs, see `ranks`, with the luck
            taken out where that helps.
        ranks: rank of each policy: 1 + the number of policies that are better beyond doubt, as the
            95 % interval of the difference over seeds is above 0. Others share a rank.
        ratings: ratings in competitive games, else None.
        nash: Nash average in competitive zero-sum games of two seats, else None.
        cross_play: self-play against cross-play in cooperative games, else None.
        nash_conv: exact NashConv of policies by name; see `nash_convs`.
        is_adjusted: whether the luck is taken out of payoffs that `nash`, `ranking` and `ranks` read.
    """

    game: str
    params: Mapping[str, Any]
    kind: str
    payoffs: tuple[tuple[Payoff | None, ...], ...]
    means: tuple[Payoff, ...]
    ranking: tuple[str, ...]
    ranks: tuple[int, ...]
    ratings: tuple[Rating, ...] | None
    nash: NashAverage | None
    cross_play: CrossPlay | None
    nash_conv: Mapping[str, float] = field(default_factory=dict)
    is_adjusted: bool = False


@dataclass(frozen=True)
class Tournament:
    """Results of a tournament.

    Attributes:
        policies: names, in the order of all rows and columns.
        num_episodes: episodes per lineup.
        seed: seed of the first episode of each lineup.
        games: one summary per game.
        mean_ranks: mean of each policy's `ranks` over the games.
        ratings: ratings over all competitive games together; None without such games.
        forfeits: per policy, its number of forfeits by reason.
        warnings: one line per policy and game with mostly invalid replies.
    """

    policies: tuple[str, ...]
    num_episodes: int
    seed: int
    games: tuple[GameSummary, ...]
    mean_ranks: tuple[float, ...]
    ratings: tuple[Rating, ...] | None
    forfeits: Mapping[str, Mapping[str, int]]
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The results as values that JSON can hold."""
        return asdict(self)


def summarise(
    policies: Sequence[str],
    seeds: Sequence[int],
    games: Mapping[str, AnyGame],
    done: Mapping[ScheduledEpisode, EpisodeResult],
    self_pairs: bool,
    luck: Mapping[str, LuckByPair] | None = None,
) -> Tournament:
    """Sums up the results of all matches of a tournament; `luck` is by game."""
    scores = [
        GameResults(game, name, policies, seeds, done, (luck or {}).get(name))
        for name, game in games.items()
    ]
    competitive = [results for results in scores if results.game.kind == "competitive"]
    outcomes = [outcome for results in competitive for outcome in results.outcomes()]
    summaries = tuple(_summary(results, self_pairs) for results in scores)
    return Tournament(
        policies=tuple(policies),
        num_episodes=len(seeds),
        seed=seeds[0],
        games=summaries,
        mean_ranks=tuple(
            sum(game.ranks[index] for game in summaries) / len(summaries)
            for index in range(len(policies))
        ),
        ratings=rate(policies, outcomes) if competitive else None,
        forfeits=_forfeits(done),
    )


def meets_itself(game: AnyGame, self_pairs: bool) -> bool:
    """Whether the game has self-play."""
    return self_pairs or game.kind == "cooperative"


def _summary(scores: GameResults, self_pairs: bool) -> GameSummary:
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
    (all_scores, is_adjusted), nash = scores.all_scores(), None
    if is_competitive and game.num_players == 2 and game.zero_sum:
        nash = nash_average(all_scores.mean(axis=2))
        resampled = resampled_ratings(all_scores)
        lows, highs = np.quantile(resampled, [TAIL, 1 - TAIL], axis=0)
        nash = replace(nash, lows=tuple(lows.tolist()), highs=tuple(highs.tolist()))
        gaps = resampled[:, :, None] - resampled[:, None, :]
        is_better = np.quantile(gaps, TAIL, axis=0) > EPSILON
    else:
        is_better = _better_by_return(all_scores, bounds_of(game), is_adjusted)
    means = all_scores.sum(axis=(1, 2))
    best_first = sorted(
        size, key=lambda i: (-round(nash.ratings[i], 9) if nash else 0.0, -means[i])
    )
    return GameSummary(
        game=scores.label,
        params=params_of(game),
        kind=game.kind,
        payoffs=payoffs,
        means=tuple(map(scores.mean_return, size)),
        ranking=tuple(policies[index] for index in best_first),
        ranks=shared_ranks(is_better),
        ratings=rate(policies, scores.outcomes()) if is_competitive else None,
        nash=nash,
        cross_play=scores.cross_play() if game.kind == "cooperative" else None,
        is_adjusted=is_adjusted,
    )


def _better_by_return(
    scores: Floats, bounds: tuple[float, float], is_adjusted: bool
) -> NDArray[np.bool_]:
    """bool[n, n], whether the row's mean return is above the column's beyond doubt."""
    size = len(scores)
    means = scores.sum(axis=1) / (size - 1)  # [n, seeds]
    bound = bounds[1] - bounds[0]
    is_better = np.zeros((size, size), bool)
    for row, column in product(range(size), repeat=2):
        if row != column:
            gaps = means[row] - means[column]
            low, _ = (
                adjusted_interval(gaps, -bound, bound)
                if is_adjusted
                else paired_interval(gaps.tolist(), bound)
            )
            is_better[row, column] = low > 0
    return is_better


def _forfeits(
    done: Mapping[ScheduledEpisode, EpisodeResult],
) -> dict[str, dict[str, int]]:
    reasons_by_policy: dict[str, Counter[str]] = {}
    for match in sorted(done):  # independent of the order in which episodes ended
        result = done[match]
        if result.forfeited_by is not None:
            name = match.lineup[result.forfeited_by]
            # without the legal actions, which differ by state
            reason = (result.reason or "unknown").partition(": Write `")[0]
            reasons_by_policy.setdefault(name, Counter())[reason] += 1
    return {
        name: dict(counts.most_common()) for name, counts in reasons_by_policy.items()
    }


CHUNK = 256  # episodes in flight


def play_tournament(
    policies: Sequence[Policy | str],
    games: Sequence[AnyGame | GameEnv | str],
    num_episodes: int = 50,
    *,
    progress: Progress | None = None,
    **options: Any,
) -> Tournament:
    """Plays a round robin and sums it up; warns of policies with mostly invalid replies.

    Args:
        policies: at least two, with different names.
        games: ids, rules or environments, each of at least two players.
        num_episodes: episodes per lineup.
        progress: called after each episode with the numbers of episodes done and in all.
        **options: further arguments of `TournamentPlan`: seed, self_pairs, prompt, ...

    Raises:
        ValueError: as for `TournamentPlan`; before any episode is played.
        OSError: an episode could not be written; earlier ones stay readable.
        NoReplyError: a policy gave no reply in some episodes: an exception, a timeout, or a
            server that fails. They are not kept, so that the next call with the same `out` plays them again.

    >>> tournament = play_tournament(["first", "random"], ["tic_tac_toe"], 10)
    >>> tournament.games[0].payoffs[0][1].mean == -tournament.games[0].payoffs[1][0].mean
    True
    """
    plan = TournamentPlan(policies, games, num_episodes, **options)
    tournament = plan.run(progress)
    for text in tournament.warnings:
        warnings.warn(text, stacklevel=2)
    return tournament


class TournamentPlan:
    """A tournament with checked arguments, ready to run.

    With two seats, each pair of policies meets in both orders. With more, each policy plays
    each seat in turn, and another policy plays all other seats. All lineups of a game play
    the same seeds. An invalid reply forfeits the episode, and the tournament goes on. While
    an episode is lost because a policy gave no reply, nothing is rated (`NoReplyError`). Seeds with
    an episode whose record its game cannot read are left out, with a warning.
    A policy reads prompts by the options that it carries (`Policy`).

    Args:
        policies: at least two, with different names.
        games: ids, rules or environments, each of at least two players.
        num_episodes: episodes per lineup.
        seed: seeds are `seed .. seed + num_episodes - 1`.
        self_pairs: whether self-play is included; always on in cooperative games.
        prompt: arguments of the `PromptWrapper`; they override the options of policies.
        timeout: longest call of a policy, in seconds, see `play`.
        out: file to which each finished episode is appended. Episodes of this tournament
            that it already holds are not played again.
        values: of `arena_eval.values`, which take the luck out of means, see `EvaluationPlan`.

    Attributes:
        num_episodes: episodes of the whole tournament.

    Raises:
        ValueError: unknown policy or game, a number out of range, or a file of another
            tournament.
        ModuleNotFoundError: scipy or openskill is missing.
    """

    def __init__(
        self,
        policies: Sequence[Policy | str],
        games: Sequence[AnyGame | GameEnv | str],
        num_episodes: int = 50,
        *,
        seed: int = 0,
        self_pairs: bool = False,
        prompt: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        out: str | Path | None = None,
        values: str | None = "auto",
    ) -> None:
        for module in ("scipy.optimize", "openskill.models"):
            import_extra(module, "eval")  # fails before hours of play
        self._seeds = seeds_of(seed, num_episodes)
        players = [*map(as_policy, policies)]
        self.policies = {policy.name: policy for policy in players}
        _want_different("policies", [policy.name for policy in players], at_least=2)
        self._self_pairs, self._timeout = self_pairs, checked_timeout(timeout)
        self._given = dict(prompt or {})
        options = {"on_invalid": "forfeit", **self._given}
        wrappers = [PromptWrapper(env_of(game), **options) for game in games]
        labels = [wrapper.env.id or repr(wrapper.env.game) for wrapper in wrappers]
        _want_different("games", labels, at_least=1)
        self._wrappers = dict(zip(labels, wrappers, strict=True))
        self._luck = {
            label: LuckByPair(wrapper, self.policies, values)
            for label, wrapper in self._wrappers.items()
            if values is not None
        }
        for wrapper in wrappers:
            self._check(wrapper.env.game)
        self._done: dict[ScheduledEpisode, EpisodeResult] = {}
        self._replies = ReplyCount()
        self._lost: list[Episode] = []
        self._log: TournamentLog | None = None
        if out is not None:
            self._log = TournamentLog(out, self._settings(), self._replies.add)
            self._done = self._log.done
        self._matches = {label: self._matches_of(label) for label in labels}
        self.num_episodes = sum(map(len, self._matches.values()))
        planned = {match for matches in self._matches.values() for match in matches}
        for other in sorted(self._done.keys() - planned)[:1]:
            problem = f"{out} holds {other}, which is no match of this tournament"
            raise ValueError(f"{problem}; give a new file")

    def run(self, progress: Progress | None = None) -> Tournament:
        """Plays the missing episodes; raises as `play_tournament` does."""
        self._lost = []
        for label, matches in self._matches.items():
            self._play(label, [m for m in matches if m not in self._done], progress)
        # an episode that was lost leaves out its seed, so that all pairings have the same seeds
        lost_seeds = {episode.seed for episode in self._lost}
        seeds = [seed for seed in self._seeds if seed not in lost_seeds]
        missing = [episode for episode in self._lost if not is_unreadable(episode)]
        if missing or not seeds:
            raise NoReplyError(self._lost_text(missing or self._lost))
        results = {
            match: result
            for match, result in self._done.items()
            if match.seed in {*seeds}
        }
        games = {label: w.env.game for label, w in self._wrappers.items()}
        names, players = list(self.policies), list(self.policies.values())
        tournament = summarise(
            names, seeds, games, results, self._self_pairs, self._luck
        )
        summaries = tuple(
            replace(summary, nash_conv=nash_convs(players, wrapper.env, self._given))
            for wrapper, summary in zip(
                self._wrappers.values(), tournament.games, strict=True
            )
        )
        warnings = self._unreadable() + self._replies.warnings()
        return replace(tournament, games=summaries, warnings=warnings)

    def _lost_text(self, missing: Sequence[Episode]) -> str:
        """How many episodes were lost, by policy and kind, and why the first of those missing was."""
        counts = Counter(
            (e.turns[-1].policy, e.turns[-1].invalid or "unreadable record")
            for e in self._lost
        )
        counts_text = ", ".join(
            f"{policy} {kind} {count}"
            for (policy, kind), count in sorted(counts.items())
        )
        return (
            f"{len(self._lost)} of {self.num_episodes} episodes were lost ({counts_text}): "
            f"{missing[0].lost}"
        )

    def _unreadable(self) -> tuple[str, ...]:
        """A line about the lost episodes of the last run, if there are some."""
        if not self._lost:
            return ()
        first = min(self._lost, key=lambda one: (one.game, one.seed))
        seeds = ", ".join(map(str, sorted({one.seed for one in self._lost})))
        return (
            f"{len(self._lost)} of {self.num_episodes} episodes were lost, and no figure includes "
            f"the episodes of their seeds ({seeds:.80}): {first.game}, seed {first.seed}: "
            f"{first.lost}",
        )

    def _play(
        self, label: str, matches: Sequence[ScheduledEpisode], progress: Progress | None
    ) -> None:
        make = self._wrappers[label].clone
        lineups = [[self.policies[name] for name in m.lineup] for m in matches]
        plans = [
            EpisodePlan(
                make, lineup, m.seed, prompts=given_prompts(lineup, self._given)
            )
            for m, lineup in zip(matches, lineups, strict=True)
        ]
        for index, episode in stream_plans(
            plans, batch_size=CHUNK, timeout=self._timeout
        ):
            tell_people(episode, self._wrappers[label].env.game, lineups[index])
            if episode.lost is not None:
                self._lost.append(episode)
            elif self._log is not None:
                self._log.append(matches[index], episode)
            else:
                self._done[matches[index]] = episode_result(episode)
                self._replies.add(episode)
            if progress is not None:
                progress(len(self._done), self.num_episodes)

    def _matches_of(self, label: str) -> list[ScheduledEpisode]:
        game, names = self._wrappers[label].env.game, list(self.policies)
        self_pairs = meets_itself(game, self._self_pairs)
        lineups = lineups_of(len(names), game.num_players, self_pairs)
        return [
            ScheduledEpisode(label, tuple(names[index] for index in lineup), seed)
            for seed in self._seeds
            for lineup in lineups
        ]

    def _check(self, game: AnyGame) -> None:
        if game.num_players < 2:
            raise ValueError(f"want games of at least 2 players, got {game!r}")
        for policy in self.policies.values():
            prepared(policy, game)

    def _settings(self) -> dict[str, Any]:
        """All that episodes depend on; the file of another tournament has other settings."""
        return {
            "policies": list(self.policies),
            "games": [
                {
                    "game": label,
                    "params": params_of(wrapper.env.game),
                    "max_turns": wrapper.env.max_turns,
                }
                for label, wrapper in self._wrappers.items()
            ],
            "num_episodes": len(self._seeds),
            "seed": self._seeds.start,
            "self_pairs": self._self_pairs,
            "prompt": next(iter(self._wrappers.values())).prompt_options,
            "own_prompts": {
                name: asdict(options)
                for name, policy in self.policies.items()
                for options in given_prompts([policy], self._given)
                if options is not None
            },
            "models": {
                name: json.loads(inner.prompt_json())
                for name, policy in self.policies.items()
                for inner in [without_noise(policy)]
                if hasattr(inner, "prompt_json")
            },
        }


def _want_different(noun: str, names: Sequence[str], at_least: int) -> None:
    if len(names) < at_least:
        raise ValueError(f"want at least {at_least} {noun}, got {len(names)}")
    for name, count in Counter(names).items():
        if count > 1:
            raise ValueError(f"want different {noun}, got {name!r} {count} times")


GAP = 2  # spaces between columns


def draw_matrix(tournament: Tournament, path: str | Path) -> None:
    """Draws the payoff matrices of all games, side by side, into a PNG file.

    Beside the matrix of a game is the exact NashConv of its policies, if it was measured.

    Raises:
        ModuleNotFoundError: matplotlib is missing.
    """
    figure_module = import_extra("matplotlib.figure", "eval")
    import_extra("matplotlib.backends.backend_agg", "eval")
    size = len(tournament.policies)
    panels = [
        (draw, game)
        for game in tournament.games
        for draw in (_draw_payoffs, *([_draw_nash_conv] if game.nash_conv else []))
    ]
    side = max(3.0, 0.9 * size + 1.5)  # inches
    figure = figure_module.Figure((side * len(panels), side), layout="constrained")
    all_axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (draw, game) in zip(all_axes, panels, strict=True):
        draw(axes, tournament.policies, game)
    figure.savefig(path, format="png", dpi=120)


def _draw_payoffs(axes: Any, policies: Sequence[str], game: GameSummary) -> None:
    cells = [[cell.mean if cell else np.nan for cell in row] for row in game.payoffs]
    means = np.array(cells)
    limit = float(np.nanmax(np.abs(means))) or 1.0
    axes.imshow(means, cmap="RdBu", vmin=-limit, vmax=limit)
    axes.set_title(game.game)
    axes.set_xticks(range(len(policies)), policies, rotation=45, ha="right")
    axes.set_yticks(range(len(policies)), policies)
    axes.set_xlabel("against")
    for y, x in np.argwhere(~np.isnan(means)):  # NaN: the two policies did not meet
        color = "white" if abs(means[y, x]) > 0.6 * limit else "black"
        text = f"{means[y, x]:.2f}"
        axes.text(x, y, text, ha="center", va="center", color=color)


def _draw_nash_conv(axes: Any, policies: Sequence[str], game: GameSummary) -> None:
    """A point for each policy that has one, in the order of the matrix."""
    places = [i for i, name in enumerate(policies) if name in game.nash_conv]
    values = [game.nash_conv[policies[i]] for i in places]
    axes.plot(places, values, marker="o")
    axes.set_title(f"{game.game}: exact NashConv (0 = equilibrium)")
    axes.set_ylim(0, 1.08 * max(values) or 1.0)
    axes.set_xlim(-0.5, len(policies) - 0.5)
    axes.set_xticks(range(len(policies)), policies, rotation=45, ha="right")


def tournament_tables(tournament: Tournament, width: int | None = None) -> list[Table]:
    """Tables of payoffs, of exact NashConv, of ranks, and of forfeits if there were any.

    A matrix that is wider than `width` characters is split into several tables.
    """
    document, names = tournament.to_dict(), tournament.policies
    tables = [
        table for game in document["games"] for table in _payoffs(names, game, width)
    ]
    tables += [
        nash_conv_table(g.game, g.nash_conv) for g in tournament.games if g.nash_conv
    ]
    tables += [_drawn(*ranking) for ranking in rankings(document)]
    if tournament.forfeits:
        tables.append(_forfeit_table(tournament))
    return tables


def _payoffs(
    names: Sequence[str], game: Mapping[str, Any], width: int | None
) -> list[Table]:
    """A column for each opponent; each table has as many as fit into `width`."""
    cells = [
        [payoff and mean_cell(payoff) for payoff in row] for row in game["payoffs"]
    ]
    lines = (line for row in cells for cell in row if cell for line in cell.split("\n"))
    first = min(max(map(len, names)), NAME)
    wide = max(first, *map(len, lines))
    size = len(names)
    if width is not None:
        size = max(1, (width - first) // (wide + GAP))
    tables = []
    for start in range(0, len(names), size):
        title = game["game"] + (", continued" if start else "")
        table = Table(title=title, **STYLE)
        table.add_column("", overflow="fold", width=first)
        for name in names[start : start + size]:
            table.add_column(name, justify="right", overflow="fold", max_width=wide)
        for name, row in zip(names, cells, strict=True):
            table.add_row(name, *row[start : start + size])
        tables.append(table)
    tables[-1].caption = payoff_caption(game)
    return tables


def payoff_caption(game: Mapping[str, Any]) -> str:
    """What the payoffs of a game are; the gap between self-play and cross-play, if measured."""
    text = "mean return of the row, with the column in all other seats; 95 % interval"
    if cross := game["cross_play"]:
        text += (
            f"\nself-play {cross['self_play']:z.3f} - cross-play {cross['cross_play']:z.3f} "
            f"= {cross['gap']:z.3f} ({cross['low']:z.3f} to {cross['high']:z.3f})"
        )
    return text


def mean_cell(mean: Mapping[str, float]) -> str:
    """A mean, and in a second line its interval."""
    return f"{mean['mean']:z.3f}\n{mean['low']:z.3f} to {mean['high']:z.3f}"


def rankings(
    document: Mapping[str, Any],
) -> Iterator[tuple[str, dict[str, list[str]], list[str]]]:
    """Title, columns and notes of each game's ranking, and of that of several games.

    The policies are the first column, the best first. A cell may have a second line, such as
    an interval.

    Args:
        document: what `Tournament.to_dict` gave.
    """
    names, games = document["policies"], document["games"]
    for section in [*games, *([document] if len(games) > 1 else [])]:
        columns: dict[str, list[str]] = {"policy": list(names)}
        if "mean_ranks" in section:
            order = section["mean_ranks"]
            notes = ["ordered by the mean rank over all games"]
            columns["mean rank"] = [f"{rank:.2f}" for rank in order]
        else:
            order = [section["ranking"].index(name) for name in names]
            notes = ["return: mean over the other policies, with its 95 % interval"]
            columns["rank"] = [str(rank) for rank in section["ranks"]]
            notes.append(
                "rank: 1 + the number of policies that are better beyond doubt (95 %); "
                "equal ranks are ties"
            )
            if nash := section["nash"]:
                notes[0] = f"ordered by Nash average, then return; {notes[0]}"
                notes.append("interval of the Nash average: bootstrap over seeds")
                columns["Nash average"] = [
                    f"{rating:z.3f}\n{low:z.3f} to {high:z.3f}"
                    for rating, low, high in zip(
                        nash["ratings"], nash["lows"], nash["highs"], strict=True
                    )
                ]
                columns["Nash weight"] = [f"{x:z.3f}" for x in nash["weights"]]
            columns["return"] = [mean_cell(mean) for mean in section["means"]]
            if any(mean["adjusted"] for mean in section["means"]):
                columns["luck out"] = [
                    mean_cell(mean["adjusted"]) if mean["adjusted"] else "-"
                    for mean in section["means"]
                ]
                columns["as good as"] = [
                    worth_text(mean["adjusted"]["worth"]) if mean["adjusted"] else "-"
                    for mean in section["means"]
                ]
                notes.append(LUCK)
            if section.get("is_adjusted"):
                notes.append(
                    "order, ranks and Nash average are of payoffs with the luck taken out, of the "
                    "pairs where that helps"
                )
        if ratings := section["ratings"]:
            columns["Elo (95 %)"] = [
                f"{x['elo']:z.0f}\n{x['elo_low']:z.0f} to {x['elo_high']:z.0f}"
                for x in ratings
            ]
            columns["OpenSkill"] = [
                f"{x['mu']:z.2f}\n± {x['sigma']:.2f}" for x in ratings
            ]
            notes.append("Elo and OpenSkill count wins alone, not the size of returns")
        best = sorted(range(len(names)), key=order.__getitem__)
        ordered = {head: [cells[i] for i in best] for head, cells in columns.items()}
        yield f"Ranking: {section.get('game', 'all games')}", ordered, notes


def _drawn(title: str, columns: Mapping[str, list[str]], notes: Sequence[str]) -> Table:
    table = Table(title=title, caption="\n".join(notes), **STYLE)
    width = min(max(map(len, columns["policy"])), NAME)
    table.add_column("policy", overflow="fold", min_width=width)
    for name, cells in [*columns.items()][1:]:
        lines = [line for cell in cells for line in cell.split("\n")]
        widest = max(map(len, [*name.split(), *lines]))
        table.add_column(name, justify="right", min_width=widest, max_width=widest)
    for name, *others in zip(*columns.values(), strict=True):
        table.add_row(name, *others)
    return table


def _forfeit_table(tournament: Tournament) -> Table:
    table = Table(title="Forfeits", **STYLE)
    width = min(max(map(len, tournament.forfeits)), NAME)
    table.add_column("policy", overflow="fold", min_width=width)
    table.add_column("times", no_wrap=True)
    table.add_column("reason", overflow="fold")
    for policy, reasons in tournament.forfeits.items():
        for reason, count in reasons.items():
            table.add_row(policy, str(count), reason)
    return table


def records_of(tournament: Tournament) -> list[dict[str, Any]]:
    """The policies of each game, best first, as flat records for CSV."""
    return [
        _record(tournament, game, tournament.policies.index(name)) | {"rank": rank}
        for game in tournament.games
        for rank, name in enumerate(game.ranking, 1)
    ]


def _record(tournament: Tournament, game: GameSummary, index: int) -> dict[str, Any]:
    name, mean, nash = tournament.policies[index], game.means[index], game.nash
    return {
        **{"game": game.game, "rank": 0, "policy": name},
        **{"mean_return": mean.mean, "low": mean.low, "high": mean.high},
        "num_episodes": mean.num_episodes,
        "adjusted": mean.adjusted and mean.adjusted.mean,
        "adjusted_low": mean.adjusted and mean.adjusted.low,
        "adjusted_high": mean.adjusted and mean.adjusted.high,
        "adjusted_worth": mean.adjusted and mean.adjusted.worth,
        "shared_rank": game.ranks[index],
        "nash_average": nash and nash.ratings[index],
        "nash_average_low": nash and nash.lows[index],
        "nash_average_high": nash and nash.highs[index],
        "nash_weight": nash and nash.weights[index],
        "nash_conv": game.nash_conv.get(name),
        **(asdict(game.ratings[index]) if game.ratings else {}),
        **{
            f"against {opponent}": cell and cell.mean
            for opponent, cell in zip(
                tournament.policies, game.payoffs[index], strict=True
            )
        },
    }
