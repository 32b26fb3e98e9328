"""One row of an evaluation: what a policy reached in one seat, or over several."""

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from arena_envs.game import AnyGame
from arena_trainers.evaluate.intervals import mean_interval
from arena_wrappers.episodes import Episode

Role = Literal["policy", "uniform", "constant", "solver"]
Result = Literal["win", "draw", "loss"]
RESULTS: tuple[Result, ...] = get_args(Result)

Measured = tuple[float, float | None, float | None]  # mean, ends of its interval


@dataclass(frozen=True)
class Row:
    """What one policy reached in one seat, or over all evaluated seats.

    Attributes:
        policy: name.
        role: `"policy"` for who is evaluated, else which baseline it is.
        opponent: name of who played the other seats; "self": the policy itself.
        seat: the seat, or "all".
        num_episodes: episodes.
        mean_return: mean true score.
        low: lower end of its 95 % interval; what the seats reached in episodes of one
            seed counts as one observation.
        high: upper end.
        wins: share of episodes with a higher return than every seat of another team; with
            N equal players 1/N is to be expected. None in cooperative games and games of
            one seat.
        draws: share with the highest return together with another team.
        losses: share with less; an own forfeit is a loss.
        invalid: invalid replies per reply of the policy, by reason.
        num_turns: mean turns of this seat in an episode.
        num_tokens: mean reply tokens of this seat in an episode; None if not reported.
        num_distinct: distinct games, by all actions, those of chance included. Far fewer
            than episodes say less than the interval, which takes episodes for independent.
        measures: by name, what the game measures (`Game.measures`): the mean over episodes
            and the ends of its 95 % interval. An end is None where all values are equal
            and the game does not declare their bounds (`Game.measure_bounds`).
        normalised: the score, 100 (mean - uniform) / (solver - uniform) with the mean returns of
            uniform random play and of the game's solver in the same seats against the
            same opponent; above 100 where a policy exploits the opponent better than the
            solver does. None without them, where they are within 1e-9, in mixed games,
            and in self-play of competitive games.
        score_interval: 95 % interval of the score, where uniform play and the solver have
            exact values; None where these are means of episodes, which add noise.
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
    normalised: float | None = None
    score_interval: tuple[float, float] | None = None
    num_distinct: int = 0
    measures: Mapping[str, Measured] = field(default_factory=dict)


Episodes = Mapping[int, Sequence[Episode]]  # by the seat of a policy, in order of seeds


def rows_of(
    game: AnyGame, policy: str, role: Role, opponent: str, episodes: Episodes
) -> list[Row]:
    """A row for each seat, and one of all seats where there are several."""
    rows = [_row(game, policy, role, opponent, {s: e}) for s, e in episodes.items()]
    if len(episodes) > 1:
        rows.append(_row(game, policy, role, opponent, episodes))
    return rows


def _row(
    game: AnyGame, policy: str, role: Role, opponent: str, episodes: Episodes
) -> Row:
    seats = tuple(episodes)
    played = [(seat, episode) for seat in seats for episode in episodes[seat]]
    scores = [
        sum(e.returns[seat] for seat, e in zip(seats, one_seed, strict=True))
        / len(seats)
        for one_seed in zip(*episodes.values(), strict=True)
    ]
    unique = list({id(episode): episode for _, episode in played}.values())
    low, high = mean_interval(scores, game.min_return, game.max_return)
    results = Counter(win_draw_loss(game, seat, episode) for seat, episode in played)
    has_rivals = game.kind != "cooperative" and len(set(game.teams)) > 1
    wins, draws, losses = (
        results[result] / len(played) if has_rivals else None for result in RESULTS
    )
    turns = [turn for seat, e in played for turn in e.turns if turn.seat == seat]
    reasons = Counter(turn.invalid for turn in turns if turn.invalid)
    tokens = [turn.token_ids for turn in turns if turn.token_ids is not None]
    return Row(
        policy=policy,
        role=role,
        opponent=opponent,
        seat=seats[0] if len(seats) == 1 else "all",
        num_episodes=len(unique),
        num_distinct=len({json.dumps(list(episode.actions)) for episode in unique}),
        measures=measured(game, unique),
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


def measured(game: AnyGame, episodes: Sequence[Episode]) -> dict[str, Measured]:
    """Means over episodes, with intervals, of what a game measures, by name."""
    values: dict[str, list[float]] = {}
    for episode in episodes:
        for name, value in episode.measures.items():
            values.setdefault(name, []).append(value)
    found: dict[str, Measured] = {}
    for name, numbers in values.items():
        bounds = game.measure_bounds.get(name, (-math.inf, math.inf))
        low, high = (
            end if math.isfinite(end) else None
            for end in mean_interval(numbers, *bounds)
        )
        found[name] = sum(numbers) / len(numbers), low, high
    return found


def win_draw_loss(game: AnyGame, seat: int, episode: Episode) -> Result:
    """How a seat fared against the other teams; an own forfeit is a loss."""
    if episode.forfeited_by == seat:
        return "loss"
    teams, own = game.teams, episode.returns[seat]
    others = zip(teams, episode.returns, strict=True)
    best = max((r for team, r in others if team != teams[seat]), default=own)
    return "win" if own > best else "draw" if own == best else "loss"
