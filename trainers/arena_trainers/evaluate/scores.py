"""Scores: mean returns, scaled so that uniform random play is 0 and the solver 100."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from arena_envs.env import GameEnv
from arena_envs.game import AnyGame
from arena_envs.solvers import Table, expected_returns, uniform_table
from arena_trainers.evaluate.baselines import is_small
from arena_trainers.evaluate.exploit import tabular
from arena_trainers.evaluate.result_rows import Row
from arena_wrappers import Policy, PromptOptions, RandomPolicy
from arena_wrappers.noisy import without_noise
from arena_wrappers.policies import ScoringBotPolicy

LEAST_SPREAD = 0.01  # between solver and uniform play, of the range of returns
SHORT = PromptOptions("bare", rules=False, show_legal_actions=False)


class Scale(NamedTuple):
    """Returns of uniform random play and of the solver against the same opponent.

    Attributes:
        uniform: return of uniform random play, score 0.
        solver: return of the solver, score 100.
        is_exact: whether both are expected returns; if not, they are means of episodes.
    """

    uniform: float
    solver: float
    is_exact: bool


Scales = Mapping[int | Literal["all"], Scale]


def exact_scales(
    env: GameEnv, solver: Policy, opponent: Policy, seats: Sequence[int]
) -> Scales | None:
    """Expected returns by seat, and averaged over these seats; None if they are unknown.

    They are unknown if the game is too large, if a limit truncates it, or if the action
    probabilities of the solver or of the opponent are unknown. Uniform random play and
    tabular bots have known probabilities; a language model has none, since it may forfeit.
    """
    game = env.game
    known = RandomPolicy, ScoringBotPolicy
    players = solver, opponent
    if not all(isinstance(without_noise(player), known) for player in players):
        return None
    if env.max_turns is not None and env.max_turns < game.max_turns:
        return None
    if not is_small(game):
        return None
    perfect, others = (tabular(player, game, SHORT)[0] for player in players)  # type: ignore[arg-type] # `known` score
    uniform = uniform_table(game)
    found: dict[int | Literal["all"], Scale] = {
        seat: Scale(
            _value(game, uniform, others, seat),
            _value(game, perfect, others, seat),
            is_exact=True,
        )
        for seat in seats
    }
    ends = list(found.values())
    found["all"] = Scale(
        sum(scale.uniform for scale in ends) / len(seats),
        sum(scale.solver for scale in ends) / len(seats),
        is_exact=True,
    )
    return found


def sampled_scales(uniform: Sequence[Row], solver: Sequence[Row]) -> Scales:
    """Mean returns of the rows of both baselines, which have the same seats."""
    return {
        zero.seat: Scale(zero.mean_return, full.mean_return, False)
        for zero, full in zip(uniform, solver, strict=True)
    }


def scored(game: AnyGame, rows: Sequence[Row], scales: Scales) -> list[Row]:
    """The rows of one opponent, with a score where it is defined."""
    return [_scored(game, row, scales[row.seat]) for row in rows]


def _scored(game: AnyGame, row: Row, scale: Scale) -> Row:
    against_itself = row.opponent == "self" and game.kind == "competitive"
    spread = scale.solver - scale.uniform
    if (
        abs(spread) <= LEAST_SPREAD * (game.max_return - game.min_return)
        or game.kind == "mixed"
        or against_itself
    ):
        return row
    by_definition = {"uniform": 0.0, "solver": 100.0}.get(row.role)
    if scale.is_exact and by_definition is not None:
        interval = by_definition, by_definition
        return replace(row, normalised=by_definition, score_interval=interval)
    mean, *ends = (
        100 * (x - scale.uniform) / spread for x in (row.mean_return, row.low, row.high)
    )
    found = (min(ends), max(ends)) if scale.is_exact else None
    return replace(row, normalised=mean, score_interval=found)


def _value(game: AnyGame, own: Table, others: Table, seat: int) -> float:
    """Expected return of a seat that plays by `own`; the others play by `others`."""
    mixed = {key: (own if key[0] == seat else others)[key] for key in others}
    return float(expected_returns(game, mixed)[seat])
