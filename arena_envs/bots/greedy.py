"""Bots that look one action ahead."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from arena_envs.game import CHANCE, TERMINAL, AnyGame


@dataclass(frozen=True)
class WinOrBlock:
    """Plays a winning action, else one after which no other seat can win at once.

    An action wins if it ends the game with the highest return of the game. Ties are broken
    at random; if every action lets another seat win, it plays any.

    Raises:
        ValueError: when it plays, the game hides information.
    """

    def __call__(self, game: AnyGame, state: Any, rng: random.Random) -> Any:
        if game.information != "perfect" or game.simultaneous:
            raise ValueError(f"want a game of perfect information, got {game!r}")
        legal = game.legal_actions(state)
        wins = _wins(game, state)
        if wins:
            return rng.choice(wins)
        safe = [action for action in legal if not _loses(game, state, action)]
        return rng.choice(safe or legal)


def _wins(game: AnyGame, state: Any) -> Sequence[Any]:
    """Actions with which the seat to move wins at once."""
    player = game.current_player(state)
    return [
        action
        for action in game.legal_actions(state)
        if game.current_player(after := game.apply(state, action)) == TERMINAL
        and game.returns(after)[player] == game.max_return
    ]


def _loses(game: AnyGame, state: Any, action: Any) -> bool:
    """Whether another seat can win right after this action."""
    after = game.apply(state, action)
    player = game.current_player(after)
    if player in (CHANCE, TERMINAL, game.current_player(state)):
        return False
    return bool(_wins(game, after))
