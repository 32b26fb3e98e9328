"""States of the auction: whose turn it is, who leads, and what is sold."""

from typing import NamedTuple

from arena_envs.games._talk import Utterance

TALK, BID, TIE, OVER = PHASES = ("talk", "bid", "tie", "over")
SEALED_FIRST, SEALED_SECOND, ASCENDING = FORMATS = ("first", "second", "ascending")
NOBODY = -1


class Event(NamedTuple):
    """A move of a player in the sale of an item, counted from 0."""

    item: int
    phase: str
    seat: int
    said: Utterance


class Sale(NamedTuple):
    """Who has bought an item, or `NOBODY`, and the price."""

    seat: int
    price: int


class State(NamedTuple):
    """All of an auction.

    Attributes:
        personas: by seat, as far as they are drawn.
        phase: talk, bid, tie (chance chooses among the highest bids) or over.
        mover: the seat to move.
        leader: who has the highest open bid, or `NOBODY`.
        price: the highest open bid.
        dropped: seats that have left the sale of this item, in order.
        sales: of the items so far.
        past: all moves.
    """

    phase: str
    personas: tuple[int, ...] = ()
    mover: int = 0
    leader: int = NOBODY
    price: int = 0
    dropped: tuple[int, ...] = ()
    sales: tuple[Sale, ...] = ()
    past: tuple[Event, ...] = ()

    @property
    def item(self) -> int:
        """The item that is for sale, or the number of items at the end."""
        return len(self.sales)


def left(state: State, seat: int, budget: int) -> int:
    """What is left of the budget of a seat."""
    return budget - sum(sale.price for sale in state.sales if sale.seat == seat)


def known_events(state: State, seat: int) -> tuple[Event, ...]:
    """The moves that a seat knows of: all but sealed bids of others that are not opened."""
    if state.phase != BID or state.dropped or state.leader != NOBODY:
        return state.past
    return tuple(
        each
        for each in state.past
        if each.seat == seat or each.phase == TALK or each.item < state.item
    )


def sealed_bids(state: State) -> list[int]:
    """The bids for the current item, by seat."""
    return [
        each.said.values[0]
        for each in state.past
        if each.item == state.item and each.phase == BID
    ]


def after_sealed(state: State, num_players: int, pricing: str) -> State:
    """The state after a sealed bid."""
    if state.mover + 1 < num_players:
        return state._replace(mover=state.mover + 1)
    bids = sealed_bids(state)
    best = max(bids)
    if not best:
        return state._replace(sales=(*state.sales, Sale(NOBODY, 0)))
    if bids.count(best) > 1:
        return state._replace(phase=TIE)
    return sold(state, bids.index(best), pricing)


def sold(state: State, winner: int, pricing: str) -> State:
    """The state after the opening of sealed bids."""
    bids = sorted(sealed_bids(state))
    price = bids[-1] if pricing == SEALED_FIRST else bids[-2]
    return state._replace(sales=(*state.sales, Sale(winner, price)))


def after_open(state: State, said: Utterance, num_players: int) -> State:
    """The state after a bid or a drop in an ascending auction."""
    if said.move == "drop":
        state = state._replace(dropped=(*state.dropped, state.mover))
    else:
        state = state._replace(leader=state.mover, price=said.values[0])
    for step in range(1, num_players + 1):
        seat = (state.mover + step) % num_players
        if seat != state.leader and seat not in state.dropped:
            return state._replace(mover=seat)
    return state._replace(sales=(*state.sales, Sale(state.leader, state.price)))
