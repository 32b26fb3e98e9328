"""Bots without search."""

import random
from dataclasses import dataclass
from typing import Any

from arena_envs.game import AnyGame


@dataclass(frozen=True)
class Uniform:
    """Plays each legal action with the same probability."""

    def __call__(self, game: AnyGame, state: Any, rng: random.Random) -> Any:
        return rng.choice(game.legal_actions(state))


@dataclass(frozen=True)
class First:
    """Plays the first legal action."""

    def __call__(self, game: AnyGame, state: Any, rng: random.Random) -> Any:
        return game.legal_actions(state)[0]


@dataclass(frozen=True)
class Constant:
    """Plays the same action wherever it is legal, else the first legal one.

    Args:
        action: number of the action.

    Raises:
        ValueError: the action is negative; when it plays, the game has no such action.
    """

    action: int

    def __post_init__(self) -> None:
        if self.action < 0:
            raise ValueError(f"want an action of 0 or more, got {self.action}")

    def __call__(self, game: AnyGame, state: Any, rng: random.Random) -> Any:
        if game.num_actions is None or self.action >= game.num_actions:
            actions = (
                "no numbered actions"
                if game.num_actions is None
                else f"actions 0 to {game.num_actions - 1}"
            )
            raise ValueError(f"{game!r} has {actions}, got {self.action}")
        legal = game.legal_actions(state)
        return self.action if self.action in legal else legal[0]
