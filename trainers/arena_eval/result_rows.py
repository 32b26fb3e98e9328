"""Rows of an evaluation, their scores, the file of results, and warnings about replies."""

import json
import math
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, get_args

from arena_envs import GameEnv
from arena_envs.game import AnyGame, bounds_of
from arena_envs.solvers import (
    best_response_value,
    expected_returns,
    uniform_table,
)
from arena_eval.baselines import MAX_SOLVED_STATES, is_small
from arena_eval.confidence_sequences import PLANNED, IntervalMethods
from arena_eval.exploit import SHORT, is_tabular, tabular
from arena_eval.intervals import Estimate
from arena_eval.luck import Adjusted
from arena_wrappers import NoReplyError, Policy, PromptOptions
from arena_wrappers.prompts import PROMPT_OPTIONS, seat_options
from arena_wrappers.records import LOST, Episode, Turn, append_bytes, is_unreadable

Role = Literal["policy", "base", "uniform", "constant", "solver"]
SeatResult = Literal["win", "draw", "loss"]
SEAT_RESULTS: tuple[SeatResult, ...] = get_args(SeatResult)


@dataclass(frozen=True)
class ResultRow:
    """Results of one policy in one seat, or in all evaluated seats.

    Attributes:
        policy: name.
        role: `"policy"` for the evaluated policy, `"base"` for the one that it is compared
            with, else the kind of baseline.
        opponent: name of the policy in the other seats; "self": the policy itself; empty
            in games of one seat.
        seat: the seat, or "all".
        num_episodes: number of episodes.
        num_lost: lost episodes, which all other figures leave out; see `Episode.lost`.
        mean_return: mean return.
        low: lower end of its 95 % interval; the mean over the seats of one seed is one
            observation.
        high: upper end.
        wins: share of episodes with a higher return than every seat of another team; 1/N
            with N equal players. None in cooperative games and games of one seat.
        draws: share in which another team has the same, highest return.
        losses: share with a lower return; a forfeit counts as a loss.
        invalid: invalid replies per reply of the policy, by reason.
        num_turns: mean turns of this seat in an episode.
        num_tokens: mean reply tokens of this seat in an episode; None if not reported.
        num_distinct: number of distinct games, told apart by all actions and chance
            outcomes. If it is far below `num_episodes`, the interval is too narrow: it
            assumes independent episodes.
        measures: by name, the game's own measures (`Game.measures`), as means over episodes,
            and in the policy's rows of a seat those that were asked for. An end is None if all
            values are equal and the game declares no bounds (`Game.measure_bounds`).
        score: 100 (mean - uniform) / (best - uniform) of `estimate`, with the exact expected returns
            of uniform random play and of a best response in the same seats against the same
            opponent. None if there is none; see `scales_of`.
        score_interval: the ends of the 95 % interval on the scale of the score.
        scale: the returns at score 0 and 100.
        no_score: why there is no score; empty if there is one.
        is_exact: whether returns, interval, score and shares of wins, draws and losses are
            exact sums over the game, and not means of episodes. Then both ends of the interval
            are the mean.
        invalid_mass: of an exact row, the probability that an episode has an invalid reply.
        adjusted: the mean with the luck taken out, see `arena_eval.luck`; None where that is
            unknown or does not help.
    """

    policy: str
    role: Role
    opponent: str
    seat: int | Literal["all"]
    num_episodes: int
    mean_return: float
    low: float
    high: float
    wins: float | None
    draws: float | None
    losses: float | None
    invalid: Mapping[str, float]
    num_turns: float
    num_tokens: float | None
    score: float | None = None
    score_interval: tuple[float, float] | None = None
    scale: tuple[float, float] | None = None
    no_score: str = ""
    num_distinct: int = 0
    measures: Mapping[str, Estimate] = field(default_factory=dict)
    num_lost: int = 0
    is_exact: bool = False
    invalid_mass: float = 0.0
    adjusted: Adjusted | None = None

    @property
    def estimate(self) -> tuple[float, float, float]:
        """The mean with the luck taken out where that helps, else the raw one; its interval."""
        if self.adjusted is not None:
            return self.adjusted.mean, self.adjusted.low, self.adjusted.high
        return self.mean_return, self.low, self.high


# by the seat of a policy, in order of seeds
EpisodesBySeat = Mapping[int, Sequence[Episode]]


def against(opponent: str) -> str:
    """`" against NAME"`; empty in games of one seat, whose rows name no opponent."""
    return f" against {opponent}" if opponent else ""


def rows_of(
    game: AnyGame,
    policy: str,
    role: Role,
    opponent: str,
    episodes: EpisodesBySeat,
    methods: IntervalMethods = PLANNED,
) -> list[ResultRow]:
    """A row for each seat, then a row of all seats if there are several."""
    opponent = opponent if game.num_players > 1 else ""
    parts: list[EpisodesBySeat] = [{seat: played} for seat, played in episodes.items()]
    if len(episodes) > 1:
        parts.append(episodes)
    return [_row(game, policy, role, opponent, part, methods) for part in parts]


def token_ids(turn: Turn) -> list[Sequence[int]]:
    """Token ids of a turn's calls of models, where they are known."""
    if turn.generations:
        return [
            generation.token_ids
            for generation in turn.generations
            if generation.token_ids
        ]
    return [] if turn.token_ids is None else [turn.token_ids]


def _row(
    game: AnyGame,
    policy: str,
    role: Role,
    opponent: str,
    episodes: EpisodesBySeat,
    methods: IntervalMethods,
) -> ResultRow:
    seats = tuple(episodes)
    episodes, num_lost = _without_lost(policy, opponent, episodes)
    played = [(seat, episode) for seat in seats for episode in episodes[seat]]
    scores = [
        sum(e.returns[seat] for seat, e in zip(seats, one_seed, strict=True))
        / len(seats)
        for one_seed in zip(*episodes.values(), strict=True)
    ]
    unique = list({id(episode): episode for _, episode in played}.values())
    low, high = methods.mean(scores, *bounds_of(game))
    results = Counter(win_draw_loss(game, seat, episode) for seat, episode in played)
    has_rivals = game.kind != "cooperative" and len(set(game.teams)) > 1
    wins, draws, losses = (
        results[result] / len(played) if has_rivals else None for result in SEAT_RESULTS
    )
    turns = [turn for seat, e in played for turn in e.turns if turn.seat == seat]
    reasons = Counter(turn.invalid for turn in turns if turn.invalid)
    tokens = [ids for turn in turns for ids in token_ids(turn)]
    return ResultRow(
        policy=policy,
        role=role,
        opponent=opponent,
        seat=seats[0] if len(seats) == 1 else "all",
        num_episodes=len(unique),
        num_lost=num_lost,
        num_distinct=len({json.dumps(list(episode.actions)) for episode in unique}),
        measures=measured(game, unique, methods),
        mean_return=sum(scores) / len(scores),
        low=low,
        high=high,
        wins=wins,
        draws=draws,
        losses=losses,
        invalid={reason: n / len(turns) for reason, n in sorted(reasons.items())},
        num_turns=len(turns) / len(played),
        num_tokens=sum(map(len, tokens)) / len(played) if tokens else None,
    )


def _without_lost(
    policy: str, opponent: str, episodes: EpisodesBySeat
) -> tuple[EpisodesBySeat, int]:
    """The episodes of the seeds that are complete in all seats, and the number of lost ones.

    Raises:
        NoReplyError: none is left.
    """
    rounds = list(zip(*episodes.values(), strict=True))
    if not rounds:
        raise NoReplyError(
            f"no episode of {policy}{against(opponent)} was played: the next ones may exceed the "
            "budget; give a larger --max-cost or --max-tokens"
        )
    lost = {id(e): e for one_seed in rounds for e in one_seed if e.lost is not None}
    complete = [
        one_seed for one_seed in rounds if all(e.lost is None for e in one_seed)
    ]
    if not complete:
        first = next(iter(lost.values()))
        raise NoReplyError(
            f"all {len(rounds)} episodes of {policy} in seat {', '.join(map(str, episodes))}"
            f"{against(opponent)} are lost: {first.lost}"
        )
    left = zip(*complete, strict=True)
    return dict(zip(episodes, map(list, left), strict=True)), len(lost)


def measured(
    game: AnyGame, episodes: Sequence[Episode], methods: IntervalMethods = PLANNED
) -> dict[str, Estimate]:
    """Mean over episodes and interval of each of the game's measures, by name.

    Episodes of one seed share their chance, so intervals are of the means by seed.
    """
    values: dict[str, dict[int, list[float]]] = {}
    for episode in episodes:
        for name, value in episode.measures.items():
            values.setdefault(name, {}).setdefault(episode.seed, []).append(value)
    estimates: dict[str, Estimate] = {}
    for name, by_seed in values.items():
        bounds = game.measure_bounds.get(name, (-math.inf, math.inf))
        low, high = (
            end if math.isfinite(end) else None
            for end in methods.mean([*map(fmean, by_seed.values())], *bounds)
        )
        numbers = [*chain.from_iterable(by_seed.values())]
        estimates[name] = Estimate(fmean(numbers), low, high, len(numbers))
    return estimates


def win_draw_loss(game: AnyGame, seat: int, episode: Episode) -> SeatResult:
    """The result of a seat against the other teams; its forfeit is a loss."""
    return seat_result(game, seat, episode.returns, episode.forfeited_by)


def seat_result(
    game: AnyGame, seat: int, returns: Sequence[float], forfeited_by: int | None
) -> SeatResult:
    """The result of a seat by the returns of all seats; its forfeit is a loss."""
    if forfeited_by == seat:
        return "loss"
    team, mine = game.teams[seat], returns[seat]
    rivals = [r for t, r in zip(game.teams, returns, strict=True) if t != team]
    best = max(rivals, default=mine)
    return "win" if mine > best else "draw" if mine == best else "loss"


LEAST_SPREAD = 1e-9  # between a best response and uniform play

Scales = Mapping[
    int | Literal["all"], tuple[float, float]
]  # returns at score 0 and 100


def scales_of(
    env: GameEnv, opponent: Policy | Literal["self"], seats: Sequence[int]
) -> Scales | str:
    """Exact expected returns of uniform random play and of a best response.

    By seat, and averaged over these seats. Both ends are exact, so neither has an interval. A
    text says why there are none: only games of at
    most `MAX_SOLVED_STATES` states are enumerated, without a limit of turns, and against
    opponents with known action probabilities. These are uniform random play and tabular
    bots, also with noise. A language model is none, since its replies may be illegal.
    """
    game = env.game
    if env.max_turns is not None and env.max_turns < game.max_turns:
        return f"max_turns={env.max_turns} truncates the game"
    if game.num_players > 1:
        if isinstance(opponent, str):
            return "in self-play the opponent is the policy itself"
        if not is_tabular(opponent):
            return f"the action probabilities of {opponent.name} are unknown"
    if game.num_actions is None:
        return "a language game cannot be enumerated"
    if not is_small(game):
        return f"the game has more than {MAX_SOLVED_STATES:,} states"
    uniform = uniform_table(game)
    table = uniform if game.num_players == 1 else tabular(opponent, game, SHORT)[0]  # type: ignore[arg-type] # checked above
    ends: dict[int | Literal["all"], tuple[float, float]] = {}
    for seat in seats:  # by uniform random play, and by a best response
        mixed = {key: (uniform if key[0] == seat else table)[key] for key in table}
        low = float(expected_returns(game, mixed)[seat])
        ends[seat] = low, best_response_value(game, table, seat)
    low, high = (
        sum(values) / len(seats) for values in zip(*ends.values(), strict=True)
    )
    return ends | {"all": (low, high)}


def scored(rows: Sequence[ResultRow], scales: Scales | str) -> list[ResultRow]:
    """The rows of one opponent, each with a score or the reason why it has none."""
    if isinstance(scales, str):
        return [replace(row, no_score=scales) for row in rows]
    return [scored_on(row, scales[row.seat]) for row in rows]


def scored_on(row: ResultRow, scale: tuple[float, float]) -> ResultRow:
    """The row with its score between the returns of uniform play and of a best response."""
    uniform, best = scale
    if best - uniform < LEAST_SPREAD:
        return replace(row, no_score="uniform random play is a best response")
    score, low, high = (
        100 * (value - uniform) / (best - uniform) for value in row.estimate
    )
    return replace(row, score=score, score_interval=(low, high), scale=scale)


def results_path(episodes: Path) -> Path:
    """The file of results of a file of episodes.

    >>> results_path(Path("runs/mars.jsonl")).name
    'mars.results.jsonl'
    """
    return episodes.with_name(f"{episodes.name.removesuffix('.jsonl')}.results.jsonl")


def append_results(episodes: Path, evaluations: Sequence[Mapping[str, Any]]) -> None:
    """Appends `Evaluation.to_dict()` of evaluations that ended together to the file of results.

    Raises:
        OSError: such as a full disk; the file is unchanged.
    """
    with open(episodes, "rb") as file:
        mark = {"num_lines": sum(1 for _ in file)}
    text = "".join(
        f"{json.dumps({**evaluation, **mark})}\n" for evaluation in evaluations
    )
    append_bytes(results_path(episodes), text.encode())


MANY = 0.5  # share of invalid replies; more lead to a warning
FEW_LOST = 0.01  # share of lost episodes; more may bias means
MAX_QUOTED = 80  # characters of a reply
# what to do about invalid replies, by their most frequent kind
ADVICE: dict[str, str] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text("utf-8")
)


@dataclass
class _Count:
    num_replies: int = 0
    num_episodes: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)  # episodes, by kind
    first: tuple[Any, Turn, PromptOptions] | None = None  # rank, invalid reply
    first_lost: tuple[Any, str] | None = None  # rank, reason


class ReplyCount:
    """Counts the invalid replies of each policy in each game, and the episodes that it lost."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], _Count] = {}
        self._num_episodes: Counter[str] = Counter()  # by game
        self._unreadable: dict[str, list[tuple[tuple[int, int], str]]] = {}

    def add(self, episode: Episode) -> None:
        """Counts the replies of an episode."""
        self._num_episodes[episode.game] += 1
        if is_unreadable(episode):
            self.add_unreadable(episode)
        for name in {turn.policy for turn in episode.turns}:
            self._of(name, episode).num_episodes += 1
        for turn in episode.turns:
            count = self._of(turn.policy, episode)
            # independent of the order in which episodes end
            place = episode.seed, episode.sample, turn.seat, turn.index
            rank = place, turn.detail or "", turn.reply
            if turn.invalid in LOST:
                count.lost[turn.invalid] += 1
                ranked_detail = rank, turn.detail or ""
                count.first_lost = min(count.first_lost or ranked_detail, ranked_detail)
                continue
            count.num_replies += 1
            if turn.invalid is None:
                continue
            count.reasons[turn.invalid] += 1
            if count.first is None or rank < count.first[0]:
                options = seat_options(episode.prompt, turn.seat)
                count.first = rank, turn, options

    def add_unreadable(self, episode: Episode) -> None:
        """Counts a counted episode as lost, because its record cannot be read."""
        place = (episode.seed, episode.sample), str(episode.lost)
        self._unreadable.setdefault(episode.game, []).append(place)

    def _of(self, policy: str, episode: Episode) -> _Count:
        return self._counts.setdefault((policy, episode.game), _Count())

    def _sorted(self) -> list[tuple[tuple[str, str], _Count]]:
        return sorted(self._counts.items(), key=lambda item: item[0])

    def lost(self) -> tuple[str, ...]:
        """A clause for each policy and game with lost episodes, and for each with unread records."""
        unreadable = tuple(
            f"{len(places)} of {self._num_episodes[game]} episodes of {game} are lost: "
            f"seed {min(places)[0][0]}: {min(places)[1]}"
            for game, places in sorted(self._unreadable.items())
        )
        return unreadable + tuple(
            f"{_lost(policy, game, count)}: {count.first_lost[1]}"
            for (policy, game), count in self._sorted()
            if count.first_lost
        )

    def warnings(self) -> tuple[str, ...]:
        """One line for each policy and game with many invalid replies or lost episodes."""
        lost = tuple(
            f"{_lost(policy, game, count)}, which is more than {FEW_LOST:.0%}: losses may "
            "not be random (long games meet more faults), and then means are biased; play "
            "these episodes again"
            for (policy, game), count in self._sorted()
            if count.lost.total() > FEW_LOST * count.num_episodes
        )
        return lost + tuple(
            _warning(policy, game, count, *count.first[1:])
            for (policy, game), count in self._sorted()
            if count.first and count.reasons.total() > MANY * count.num_replies
        )


def _lost(policy: str, game: str, count: _Count) -> str:
    kinds = ", ".join(
        f"{kind}s {n}" for kind, n in sorted(count.lost.items(), reverse=True)
    )
    return (
        f"policy {policy!r} gave no reply in {count.lost.total()} of "
        f"{count.num_episodes} episodes of {game}, which are lost ({kinds})"
    )


def _warning(
    policy: str, game: str, count: _Count, turn: Turn, options: PromptOptions
) -> str:
    share = count.reasons.total() / count.num_replies
    ranked = sorted(count.reasons.items(), key=lambda item: (-item[1], item[0]))
    reasons = ", ".join(f"{reason} {n}" for reason, n in ranked)
    text = repr(turn.reply[:MAX_QUOTED])
    if len(turn.reply) > MAX_QUOTED:
        text += f"... of {len(turn.reply)} characters"
    prompt_text = ", ".join(
        f"{name}={getattr(options, name)!r}" for name in PROMPT_OPTIONS
    )
    return (
        f"{policy}: {share:.0%} of {count.num_replies} replies in {game} are invalid "
        f"({reasons}). The first is {text} ({turn.detail!r:.200}), prompted with {prompt_text}. "
        f"{ADVICE.get(ranked[0][0], ADVICE['prompts'])}"
    )
