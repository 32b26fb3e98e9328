"""Players of social dilemmas with talk."""

import random
from dataclasses import dataclass
from typing import Any

from arena_envs.game import AnyGame
from arena_envs.games._dilemma_state import CHOICES, COOPERATE, DEFECT, TALK, State
from arena_envs.games.social_dilemma import SocialDilemma

PROMISES, PASS = TALK[:2], TALK[2]


@dataclass(frozen=True)
class _Dilemma:
    def __call__(self, game: AnyGame, state: Any, rng: random.Random) -> Any:
        if not isinstance(game, SocialDilemma):
            raise ValueError(f"want social_dilemma, got {game!r}")
        seat = game.current_player(state)
        if not game.is_talking(state):
            return CHOICES[self.choose(game, state, seat)]
        promise = self.promise(game, state, seat)
        return PASS if promise is None else PROMISES[promise]

    def promise(self, game: SocialDilemma, state: State, seat: int) -> int | None:
        """The choice that the seat promises."""
        return None

    def choose(self, game: SocialDilemma, state: State, seat: int) -> int:
        """The choice of the seat."""
        return DEFECT


@dataclass(frozen=True)
class DilemmaSilent(_Dilemma):
    """Passes and defects, which is the equilibrium of the prisoner's dilemma."""


@dataclass(frozen=True)
class DilemmaGreedy(_Dilemma):
    """Promises to cooperate, and defects."""

    def promise(self, game: SocialDilemma, state: State, seat: int) -> int | None:
        return COOPERATE


@dataclass(frozen=True)
class DilemmaHonest(_Dilemma):
    """Does what it promises; without talk it defects.

    It promises to cooperate if no other player has defected in an earlier round, and every
    other player that has spoken in this round has promised to cooperate; else to defect.
    """

    def promise(self, game: SocialDilemma, state: State, seat: int) -> int | None:
        past = len(state.rounds)
        betrayed = any(
            choice == DEFECT
            for choices in state.rounds
            for other, choice in enumerate(choices)
            if other != seat
        )
        promised = game.latest_promises(state, past)
        first = past * game.num_players * game.talk_turns
        spoke = {game.speaker_of(turn) for turn in range(first, len(state.said))}
        trusts = all(promised[other] == COOPERATE for other in spoke - {seat})
        return COOPERATE if trusts and not betrayed else DEFECT

    def choose(self, game: SocialDilemma, state: State, seat: int) -> int:
        promised = game.latest_promises(state, len(state.rounds))[seat]
        return DEFECT if promised is None else promised
