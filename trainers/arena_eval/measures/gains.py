"""Parts of the reward that enumerate a game: what a seat learns, and what the others gain."""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from arena_envs.game import (
    CHANCE,
    TERMINAL,
    AnyGame,
    AnyState,
    possible_outcomes,
)
from arena_eval.measures.belief import LEAST
from arena_eval.measures.posteriors import beliefs_of, recalled, table_of
from arena_wrappers import Episode, Turn
from arena_wrappers.play import final_state, next_state


def belief_gain(
    episode: Episode,
    turn: Turn,
    state: AnyState,
    game: AnyGame,
    *,
    others: str = "random",
    discount: float = 1.0,
) -> float:
    """What a seat learns until its next turn: discount Φ' - Φ.

    Φ is log p(true card), at least log 0.01, p the posterior of `Belief`. Of CURIO
    (https://arxiv.org/abs/2504.03206), whose beliefs are a model's. After the last turn Φ' is 0 in a
    terminated episode, else Φ. `discount` has to be that of the estimator.
    """
    posterior = recalled(beliefs_of, game, others).posterior

    def potential(at: AnyState) -> float:
        hidden_fact = game.hidden(at, turn.seat)  # type: ignore[attr-defined] # an optional fact
        p = posterior(at, turn.seat) if hidden_fact else {}
        return math.log(max(p.get(hidden_fact[1], 0.0), LEAST)) if hidden_fact else 0.0

    later, now = next_state(episode, turn, game), potential(state)
    end = 0.0 if episode.terminated else now
    return discount * (end if later is None else potential(later)) - now


def partner_gain(
    episode: Episode,
    turn: Turn,
    state: AnyState,
    game: AnyGame,
    *,
    others: str = "random",
) -> float:
    """What the other seats can expect at the seat's next turn, less what they could: V' - V.

    V is their mean expected return if all seats go on as `others`, exactly; after the last turn V' is
    their return. So the turns sum to their return less V at the first one: the gain over a baseline
    of RLHG (https://arxiv.org/abs/2401.16444), where a network estimates V.
    """
    if game.num_players == 1 or game.zero_sum:
        raise ValueError(
            f"want a game whose seats can gain together, got {game!r}; leave partner_gain out"
        )
    expected, later = (
        recalled(expected_of, game, others),
        next_state(episode, turn, game),
    )
    if later is None and episode.terminated:
        after = np.array(episode.returns, float)
    else:
        after = expected(final_state(episode, game) if later is None else later)
    gain = np.delete(after - expected(state), turn.seat)
    return float(gain.mean())


def expected_of(game: AnyGame, others: str) -> Callable[[Any], Any]:
    """The function of a state that gives all expected returns if all go on as `others`."""
    table = table_of(game, others)

    @cache
    def expected(state: AnyState) -> Any:
        player = game.current_player(state)
        if player == TERMINAL:
            return np.array(game.returns(state), float)
        if player == CHANCE:
            follow = possible_outcomes(game, state)
        else:
            row = table[player, game.information_state(state, player)]
            follow = list(zip(game.legal_actions(state), row, strict=True))
        return sum(p * expected(game.apply(state, x)) for x, p in follow)

    return expected
