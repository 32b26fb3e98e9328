"""Players of deal or no deal. They read what their seat reads, and the talk."""

import random
from dataclasses import dataclass
from typing import Any

from arena_envs.game import AnyGame
from arena_envs.games import _deals as deals
from arena_envs.games._deal_state import State
from arena_envs.games._deals import Numbers
from arena_envs.games._talk import Utterance
from arena_envs.games.deal_or_no_deal import END, DealOrNoDeal


@dataclass(frozen=True)
class _Deal:
    def __call__(self, game: AnyGame, state: Any, rng: random.Random) -> Any:
        if not isinstance(game, DealOrNoDeal):
            raise ValueError(f"want deal_or_no_deal, got {game!r}")
        seat = game.current_player(state)
        if game.is_talking(state):
            return self.say(state, seat)
        return Utterance("claim", self.claim(state, seat))

    def say(self, state: State, seat: int) -> Utterance:
        """What the seat says."""
        return END

    def claim(self, state: State, seat: int) -> Numbers:
        """What the seat claims: a share by convention."""
        return deals.convention(state.pool, seat)


@dataclass(frozen=True)
class DealSilent(_Deal):
    """Ends the talk, and claims by convention: `player_0` gets the first half of the items."""


@dataclass(frozen=True)
class DealGreedy(_Deal):
    """Demands and claims every item that is worth something to it."""

    def say(self, state: State, seat: int) -> Utterance:
        return Utterance("demand", self.claim(state, seat))

    def claim(self, state: State, seat: int) -> Numbers:
        pairs = zip(state.pool, state.values[seat], strict=True)
        return tuple(number if value else 0 for number, value in pairs)


@dataclass(frozen=True)
class DealHonest(_Deal):
    """Reports its values and divides so that the product of points is largest (Nash 1950).

    Once both have reported, it demands its share of this division, ends the talk when the
    share has been demanded or left to it, and claims it. If the other player reports nothing, it
    ends the talk, and claims what the latest demand leaves to it. Without any demand it claims
    by convention, as `DealSilent` does.
    """

    def say(self, state: State, seat: int) -> Utterance:
        reports = _latest(state, "report")
        if reports[seat] is None:
            return Utterance("report", state.values[seat])
        if reports[1 - seat] is None:
            return END
        share = self.claim(state, seat)
        return (
            END if _on_the_table(state, seat) == share else Utterance("demand", share)
        )

    def claim(self, state: State, seat: int) -> Numbers:
        one, other = _latest(state, "report")
        if one is not None and other is not None:
            share = deals.best(state.pool, (one, other)).fair
            return deals.rest(state.pool, share) if seat else share
        left = _on_the_table(state, seat)
        return deals.convention(state.pool, seat) if left is None else left


def _latest(state: State, move: str) -> list[Numbers | None]:
    """The numbers of each seat's latest utterance of this move."""
    found: list[Numbers | None] = [None, None]
    for turn, said in enumerate(state.said):
        if said.move == move:
            found[turn % 2] = said.values
    return found


def _on_the_table(state: State, seat: int) -> Numbers | None:
    """What the latest demand gives to a seat."""
    for turn, said in reversed(list(enumerate(state.said))):
        if said.move == "demand":
            own = turn % 2 == seat
            return said.values if own else deals.rest(state.pool, said.values)
    return None
