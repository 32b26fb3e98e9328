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

    - `honest` reports its values. It wants half of all points for itself, whatever the other player
      says, and of all shares that give it so much the one that is best for the other player: by
      its report, or by the mean of the values that it may have. It demands this share, ends the
      talk when that or another share of half its points is on the table, and claims it. So a
      player that reports its true values gets the most that it can get, and no lie gets more. From a
      player that has spoken twice and demanded nothing, it takes the best share for itself.
    - `greedy` demands and claims every item that is worth something to it.
    - `silent` ends the talk, and claims by convention: `player_0` gets the first half of the items.
    """

    game, styles = DealOrNoDeal, STYLES

    def reply(self, game: DealOrNoDeal, state: State, rng: random.Random) -> Utterance:
        seat = game.current_player(state)
        share = self._share(game, state, seat)
        if not game.is_talking(state):
            return Utterance("claim", share)
        if self.style == "silent":
            return END
        if self.style == "honest":
            if _latest(state, "report")[seat] is None:
                return Utterance("report", state.values[seat])
            if _on_the_table(state, seat) == share:
                return END
        return Utterance("demand", share)

    def _share(self, game: DealOrNoDeal, state: State, seat: int) -> Numbers:
        """The share that the seat wants."""
        if self.style == "greedy":
            pairs = zip(state.pool, state.values[seat], strict=True)
            return tuple(number if value else 0 for number, value in pairs)
        if self.style == "honest":
            return _half(game, state, seat)
        return deals.convention(state.pool, seat)


def _half(game: DealOrNoDeal, state: State, seat: int) -> Numbers:
    """A share of at least half of the points: what is on the table, or the best for the other."""
    pool, own = state.pool, state.values[seat]
    offered = _on_the_table(state, seat)
    if offered is not None and 2 * deals.worth(own, offered) >= game.points:
        return offered
    other = _latest(state, "report")[1 - seat]
    possible = deals.partners(pool, game.points, own)
    if other not in possible:  # no report, or one that cannot be true
        other = tuple(map(sum, zip(*possible, strict=True)))
    enough = [
        share
        for share in deals.shares_of(pool)
        if 2 * deals.worth(own, share) >= game.points
    ]
    waits = offered is None and len(state.said[1 - seat :: 2]) > 1

    def worths(share: Numbers) -> tuple[int, int]:
        found = (deals.worth(other, deals.rest(pool, share)), deals.worth(own, share))
        return found[::-1] if waits else found

    return max(enough, key=worths)


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
