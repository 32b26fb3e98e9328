"""Bots that play the policy of a solver."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from arena_envs.game import (
    AnyGame,
    AnyState,
)
from arena_envs.solvers import CFRPlus, InfosetKey, InfosetTable
from arena_envs.solvers.enumeration import Memory
from arena_envs.solvers.perfect_information import PerfectInformation

# Limit of the states that a bot enumerates before its first action. It is lower than
# `solvers.MAX_STATES`: a player waits for the action, and CFR+ sweeps them 1,000 times.
MAX_BOT_STATES = 200_000

_policies = Memory[dict[InfosetKey, list[float]]](8)
_searches = Memory[PerfectInformation](2)


@dataclass(frozen=True)
class Tabular:
    """Plays a table: the probabilities of legal actions by (seat, information state).

    Args:
        table: of `arena_envs.solvers`.

    Raises:
        ValueError: when it plays, the table lacks a row or the row does not fit.
    """

    table: InfosetTable

    def action_probs(self, game: AnyGame, state: AnyState) -> Sequence[float]:
        """Probabilities of the legal actions."""
        seat, legal = game.current_player(state), game.legal_actions(state)
        key = (seat, game.information_state(state, seat))
        row = self.table.get(key)
        if row is None or len(row) != len(legal):
            raise ValueError(
                f"want {len(legal)} probabilities for information state {key}, got {row}"
            )
        return row

    def __call__(self, game: AnyGame, state: AnyState, rng: random.Random) -> Any:
        probabilities = self.action_probs(game, state)
        return rng.choices(game.legal_actions(state), probabilities)[0]


@dataclass(frozen=True)
class CFRBot:
    """Plays the average policy of CFR+, which it computes at its first action in a game.

    Args:
        num_iterations: of CFR+.
        max_states: limit of the enumeration.

    Raises:
        ValueError: `num_iterations` is no positive number; when it plays, the game is too
            large to enumerate.
    """

    num_iterations: int = 1000
    max_states: int = MAX_BOT_STATES
    is_exact = True

    def __post_init__(self) -> None:
        if self.num_iterations < 1:
            raise ValueError(
                f"want num_iterations of 1 or more, got {self.num_iterations}"
            )

    def action_probs(self, game: AnyGame, state: AnyState) -> Sequence[float]:
        """Probabilities of the legal actions."""
        return self._tabular(game).action_probs(game, state)

    def __call__(self, game: AnyGame, state: AnyState, rng: random.Random) -> Any:
        return self._tabular(game)(game, state, rng)

    def _tabular(self, game: AnyGame) -> Tabular:
        def solve() -> dict[InfosetKey, list[float]]:
            solver = CFRPlus(game, self.max_states)
            solver.run(self.num_iterations)
            return solver.average_policy()

        return Tabular(_policies.recall(game, solve, self.num_iterations))


@dataclass(frozen=True)
class CoreCFR(CFRBot):
    """Plays as `CFRBot` in a language game, on the finite core of its utterances.

    It replaces each past utterance by the nearest one of the core, and drops messages.

    Raises:
        ValueError: as for `CFRBot`; when it plays, the game has no method `core_state`.
    """

    def action_probs(self, game: AnyGame, state: AnyState) -> Sequence[float]:
        """Probabilities of the legal actions."""
        return super().action_probs(game, _core_state(game, state))

    def __call__(self, game: AnyGame, state: AnyState, rng: random.Random) -> Any:
        return super().__call__(game, _core_state(game, state), rng)


def _core_state(game: AnyGame, state: AnyState) -> Any:
    find = getattr(game, "core_state", None)
    if find is None:
        raise ValueError(f"want a language game with a method core_state, got {game!r}")
    return find(state)


@dataclass(frozen=True)
class Minimax:
    """Draws among the best actions of a game of perfect information.

    In a two-player zero-sum game it weights best actions by (the opponent's mean loss under
    two random replies)², see `PerfectInformation.policy`. With a depth, and in other games,
    all best actions have the same probability, also those of the other seats.

    Args:
        depth: number of actions that it looks ahead; None for all.

    Raises:
        ValueError: `depth` is no positive number; when it plays, the game hides
            information or is too large.
    """

    depth: int | None = None
    is_exact = True

    def __post_init__(self) -> None:
        if self.depth is not None and self.depth < 1:
            raise ValueError(f"want depth of 1 or more, got {self.depth}")

    def action_probs(self, game: AnyGame, state: AnyState) -> Sequence[float]:
        """Probabilities of the legal actions."""
        policy = self._policy(game, state)
        return [policy.get(action, 0.0) for action in game.legal_actions(state)]

    def __call__(self, game: AnyGame, state: AnyState, rng: random.Random) -> Any:
        policy = self._policy(game, state)
        return rng.choices(list(policy), list(policy.values()))[0]

    def _policy(self, game: AnyGame, state: AnyState) -> dict[Any, float]:
        if self.depth is not None:
            return PerfectInformation(game, draws=True).policy(state, self.depth)
        search = _searches.recall(
            game, lambda: PerfectInformation(game, MAX_BOT_STATES, draws=True)
        )
        return search.policy(state)
