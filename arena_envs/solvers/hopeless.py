"""Refuses, within a second, games that are far too large to enumerate."""

import math
from typing import Any

from arena_envs.game import AnyGame
from arena_envs.sampling import possible_actions
from arena_envs.solvers.enumeration import too_large

PROBE = 5_000  # states that are counted before the estimate
MARGIN = 1000  # refuse above this multiple of the limit: alpha-beta meets fewer states


def refuse_hopeless(game: AnyGame, max_states: int) -> None:
    """Refuses a game that is far too large, by an estimate from its first states.

    Layers of states are counted until there are `PROBE` states. The estimate is
    n · g^(t / 4): n states in the last layer, g its growth, t turns left.

    Args:
        game: the rules.
        max_states: limit of the number of states.

    Raises:
        TooLarge: the estimate is more than `MARGIN` times `max_states`.

    >>> from arena_envs import make_game
    >>> refuse_hopeless(make_game("tic_tac_toe"), 1_000_000)
    """
    layer: dict[Any, None] = {game.initial_state(): None}
    met, num_turns, growth = 1, 0, 0.0
    while layer and met < PROBE:
        following, complete = _following(game, layer, PROBE - met)
        # the expanded part of a layer stands for the whole layer
        growth = len(following) / (complete * len(layer))
        num_turns += any(game.current_player(state) >= 0 for state in layer)
        met += len(following)
        layer = following
    if not layer or growth <= 1 or met < PROBE:
        return
    left = max(0, game.max_turns - num_turns)
    estimate = int(min(1e300, len(layer) * growth ** min(left / 4, 300)))
    if estimate > MARGIN * max_states:
        size = _rounded(estimate)
        known = f"{size} states or more, estimated from its first {PROBE:,} states"
        raise too_large(game, known, f"max_states={max_states}")


def _following(
    game: AnyGame, layer: dict[Any, None], limit: int
) -> tuple[dict[Any, None], float]:
    """The states after a layer, and the share of the layer that was expanded."""
    following: dict[Any, None] = {}
    for number, state in enumerate(layer, 1):
        for action in possible_actions(game, state):
            following[game.apply(state, action)] = None
        if len(following) >= limit:
            return following, number / len(layer)
    return following, 1.0


def _rounded(estimate: int) -> str:
    """Two digits, or the power of ten of an astronomic number.

    >>> _rounded(1_659_355_348), _rounded(2**100)
    ('about 1,700,000,000', 'about 10^30')
    """
    if estimate >= 10**12:
        return f"about 10^{int(math.log10(estimate))}"
    return f"about {round(estimate, 1 - int(math.log10(estimate))):,}"
