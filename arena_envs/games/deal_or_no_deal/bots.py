"""Players of deal or no deal. They read what their seat reads, and the talk."""

import random

from arena_envs import talk
from arena_envs.games.deal_or_no_deal import END, DealOrNoDeal
from arena_envs.games.deal_or_no_deal import state as deals
from arena_envs.games.deal_or_no_deal.state import Numbers, State
from arena_envs.talk import Utterance

STYLES = ("honest", "greedy", "silent")


class Dealer(talk.Scripted):
    """Plays deal or no deal in one of three styles.

    - `honest` reports its values. Once both have reported, it demands its share of the division
      with the largest product of points (Nash 1950), ends the talk when this is on the table,
      and claims it. If the other player reports nothing, it ends the talk, and claims what the latest
      demand leaves to it. Without any demand it claims as `silent` does.
    - `greedy` demands and claims every item that is worth something to it.
    - `silent` ends the talk, and claims by convention: `player_0` gets the first half of the items.
    """

    game, styles = DealOrNoDeal, STYLES

    def reply(self, game: DealOrNoDeal, state: State, rng: random.Random) -> Utterance:
        seat = game.current_player(state)
        share = self._share(state, seat)
        if not game.is_talking(state):
            return Utterance("claim", share)
        if self.style == "silent":
            return END
        reports = _latest(state, "report")
        if self.style == "honest" and reports[seat] is None:
            return Utterance("report", state.values[seat])
        is_done = reports[1 - seat] is None or _on_the_table(state, seat) == share
        if self.style == "honest" and is_done:
            return END
        return Utterance("demand", share)

    def _share(self, state: State, seat: int) -> Numbers:
        """The share that the seat wants."""
        if self.style == "greedy":
            pairs = zip(state.pool, state.values[seat], strict=True)
            return tuple(number if value else 0 for number, value in pairs)
        left = None
        if self.style == "honest":
            one, other = _latest(state, "report")
            if one is not None and other is not None:
                fair = deals.best_of(state.pool, (one, other)).fair
                return deals.rest(state.pool, fair) if seat else fair
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
    """The share that the latest demand gives to a seat."""
    for turn, said in reversed(list(enumerate(state.said))):
        if said.move == "demand":
            own = turn % 2 == seat
            return said.values if own else deals.rest(state.pool, said.values)
    return None
