"""Measures against an exact reference: regret, and the share of best actions."""

from statistics import fmean

from arena_envs.game import (
    AnyGame,
    AnyState,
)
from arena_envs.solvers.enumeration import Memory
from arena_eval.measures.estimates import estimated, named_estimates, turn_observations
from arena_eval.measures.protocol import Episodes, Estimates
from arena_eval.move_values import (
    MoveSolver,
    MoveValues,
    Source,
    source_of,
)
from arena_wrappers import Turn

_sources: Memory[Source] = Memory(4)


def _valued(episodes: Episodes, game: AnyGame, seat: int) -> list[list[MoveValues]]:
    """Values of the seat's turns that have some, by episode; ValueError if the game has none."""
    source = _sources.recall(game, lambda: source_of(game))
    if isinstance(source, str):
        raise ValueError(
            f"want a game with exact values for regret and profile_accuracy: {source}; leave "
            "the measure out"
        )
    solver = MoveSolver({(type(game), repr(game)): source})

    def values(turn: Turn, state: AnyState) -> MoveValues | None:
        return solver.solve(game, [turn], [state]).turns[0]

    return turn_observations(episodes, game, seat, values)


def regret(episodes: Episodes, game: AnyGame, seat: int) -> Estimates:
    """Mean over turns of the largest value of an action, less that of the action played.

    Values are those of `arena_eval.move_values`: everybody goes on by minimax, a best
    joint policy, or an equilibrium that CFR+ finds. Turns with an invalid reply, and those that this
    reference never reaches, do not count.
    """
    every = _valued(episodes, game, seat)
    lost = [
        [value.regret for value in turns if value.regret is not None] for turns in every
    ]
    most = game.max_return - game.min_return
    return named_estimates(regret=estimated(lost, fmean, 0.0, most))


def profile_accuracy(episodes: Episodes, game: AnyGame, seat: int) -> Estimates:
    """Share of turns whose action is a best response to the reference profile of `regret`.

    At an equilibrium these are all actions that it mixes, and dominant ones. An invalid reply
    counts as none; turns that the reference never reaches do not count.
    """
    every = _valued(episodes, game, seat)
    best = [[float(value.regret == 0) for value in turns] for turns in every]
    return named_estimates(profile_accuracy=estimated(best, fmean, 0.0, 1.0))
