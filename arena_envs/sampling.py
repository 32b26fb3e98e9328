"""Random play: outcomes of chance nodes, and states of random episodes."""

import random
from bisect import bisect
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

from arena_envs.game import CHANCE, TERMINAL, AnyGame


def draw(cumulative: Sequence[float], u: float) -> int:
    """Index of the outcome that a number from 0 to 1 selects.

    The least i with u < F(i); the last one if rounding leaves all of F at or below u.

    Args:
        cumulative: F, the probabilities summed up to and including each outcome; at least
            one.
        u: uniform in [0, 1).

    >>> [draw([0.25, 1.0], u) for u in (0.0, 0.25, 0.999)]
    [0, 1, 1]
    """
    return bisect(cumulative, u, 0, len(cumulative) - 1)


def sample_chance(game: AnyGame, state: Any, rng: random.Random) -> Any:
    """An outcome of a chance node, drawn by its probability with one number of `rng`."""
    outcomes, chances = zip(*game.chance_outcomes(state), strict=True)
    return outcomes[draw(list(accumulate(chances)), rng.random())]


def possible_outcomes(game: AnyGame, state: Any) -> list[tuple[Any, float]]:
    """The outcomes of a chance node with a probability above 0, and their probabilities."""
    return [pair for pair in game.chance_outcomes(state) if pair[1] > 0]


def possible_actions(game: AnyGame, state: Any) -> Sequence[Any]:
    """Legal actions; at a chance node, the outcomes with a probability above 0."""
    if game.current_player(state) == CHANCE:
        return [outcome for outcome, _ in possible_outcomes(game, state)]
    return game.legal_actions(state)


def random_states(game: AnyGame, rng: random.Random) -> Iterator[tuple[Any, int]]:
    """States of an episode of uniform random play, each with the seat to move or `CHANCE`.

    The terminal state is left out. `rng` is drawn from between two states.
    """
    state = game.initial_state()
    while (player := game.current_player(state)) != TERMINAL:
        yield state, player
        if player == CHANCE:
            action = sample_chance(game, state, rng)
        else:
            action = rng.choice(game.legal_actions(state))
        state = game.apply(state, action)
