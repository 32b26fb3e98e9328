"""Bots that look at most one action ahead."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from arena_envs.game import (
    CHANCE,
    TERMINAL,
    AnyAction,
    AnyGame,
    AnyState,
    IllegalAction,
    random_states,
)

NUM_EPISODES = 20  # random ones, in which a constant text is tried


@dataclass(frozen=True)
class Uniform:
    """Plays each legal action with the same probability."""

    def __call__(self, game: AnyGame, state: AnyState, rng: random.Random) -> Any:
        return rng.choice(game.legal_actions(state))


class _Deterministic:
    """A bot without randomness, whose action follows from what its seat knows."""

    def action_probs(self, game: AnyGame, state: AnyState) -> Sequence[float]:
        """Probabilities of the legal actions."""
        bot: Any = self
        choice = bot(game, state, random.Random(0))
        return [float(action == choice) for action in game.legal_actions(state)]


@dataclass(frozen=True)
class First(_Deterministic):
    """Plays the first legal action."""

    def __call__(self, game: AnyGame, state: AnyState, rng: random.Random) -> Any:
        return game.legal_actions(state)[0]


@dataclass(frozen=True)
class Constant:
    """Plays the same action wherever it is legal, else the first legal one.

    Args:
        action: number of the action; in a language game, a text that the game reads.

    Raises:
        ValueError: the number is negative; when it plays, the game has no such action. A text
            is no action if the game reads it in no turn of some random episodes.
    """

    action: int | str

    def __post_init__(self) -> None:
        if isinstance(self.action, str) and not self.action.strip():
            raise ValueError("want an action after 'constant:', got 'constant:'")
        if isinstance(self.action, int) and self.action < 0:
            raise ValueError(f"want an action of 0 or more, got {self.action}")

    def __call__(self, game: AnyGame, state: AnyState, rng: random.Random) -> Any:
        legal = game.legal_actions(state)
        if isinstance(self.action, str):
            action = _read(game, state, self.action)
            if action is not None:
                return action
            if not _is_ever_read(game, self.action):  # type: ignore[arg-type] # games hash
                raise ValueError(
                    f"want a text that {game!r} reads in some turn, got {self.action!r:.80}"
                )
            return legal[0]
        num = game.num_actions
        if num is None or self.action >= num:
            actions = f"actions 0 to {num - 1}" if num else "no numbered actions"
            raise ValueError(f"{game!r} has {actions}, got {self.action}")
        return self.action if self.action in legal else legal[0]


class ConstantNumber(Constant, _Deterministic):
    """A `Constant` whose action is a number, with known action probabilities."""


def constant(action: int | str) -> Constant:
    """Plays the same action; only that of a number is always among the legal actions."""
    return ConstantNumber(action) if isinstance(action, int) else Constant(action)


def _read(game: AnyGame, state: AnyState, text: str) -> Any:
    try:
        return game.parse(state, text)
    except IllegalAction:
        return None


@lru_cache(64)
def _is_ever_read(game: Any, text: str) -> bool:
    return any(
        _read(game, state, text) is not None
        for seed in range(NUM_EPISODES)
        for state, player in random_states(game, random.Random(seed))
        if player >= 0
    )


@dataclass(frozen=True)
class WinOrBlock:
    """Plays a winning action, else one after which no other seat can win at once.

    An action wins if it ends the game with the highest return of the game. Ties are broken
    at random; if every action lets another seat win, it plays any.

    Raises:
        ValueError: when it plays, the game hides information.
    """

    def __call__(self, game: AnyGame, state: AnyState, rng: random.Random) -> Any:
        if game.information != "perfect" or game.simultaneous:
            raise ValueError(f"want a game of perfect information, got {game!r}")
        legal = game.legal_actions(state)
        wins = winning_actions(game, state)
        if wins:
            return rng.choice(wins)
        safe = [action for action in legal if not _loses(game, state, action)]
        return rng.choice(safe or legal)


def winning_actions(game: AnyGame, state: AnyState) -> Sequence[Any]:
    """Actions with which the seat to move wins at once."""
    player = game.current_player(state)
    return [
        action
        for action in game.legal_actions(state)
        if game.current_player(after := game.apply(state, action)) == TERMINAL
        and game.returns(after)[player] == game.max_return
    ]


def _loses(game: AnyGame, state: AnyState, action: AnyAction) -> bool:
    """Whether another seat can win right after this action."""
    after = game.apply(state, action)
    player = game.current_player(after)
    if player in (CHANCE, TERMINAL, game.current_player(state)):
        return False
    return bool(winning_actions(game, after))
