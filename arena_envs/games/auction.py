r"""Auction: bidders with private priorities buy houses, and may talk before each sale.

| Property    | Value                                                                  |
|-------------|------------------------------------------------------------------------|
| Create      | `arena_envs.make("auction-v1", pricing="ascending")`, see `Auction`    |
| Agents      | 2 to 5, `player_0` to `player_4`; 3 by default                         |
| Kind        | mixed, imperfect information                                           |
| Actions     | texts: "pass" with or without a message; "bid 3"; in ascending auctions also "drop" |
| Rewards     | after a sale, (value - price) / `budget` to the buyer                  |
| Length      | per item a turn of talk and a bid of each player; at most `max_turns`  |
| Known value | second price, one item: to bid the value is dominant; default, if all bid their values: 19/216, 61/648, 115/1296 |
| Source      | *HARBOR: Exploring Persona Dynamics in Multi-Agent Competition* (2025); W. Vickrey, *Counterspeculation, Auctions, and Competitive Sealed Tenders* (1961) |

Houses are sold one after another. Each has points for size, garden and location, which all know.
Each player has a persona: priorities. Chance draws the personas of all players from those that the
split has, all with the same probability.
Nobody else is told. A house is worth to a player the sum of points times priorities. All have the
same budget for all houses, and everybody knows what is left of it.

With `messages`, each player answers "pass" once before each sale, with or without a message. Talk is
free, and nothing makes it true.

*Sealed bids* (`pricing` "first" or "second"): each player bids a whole number from 0 to what is left
of its budget; 0 is no bid. The highest bid wins, and chance chooses among equal ones. The price is
this bid or the second highest one. Then all bids are shown.

*Ascending*: players bid in turn more than the highest bid, or drop and are out for this item. When
only the player with the highest bid is left, it pays its bid.

An item without a bid is not sold.

At second price a bid decides whether its bidder wins, and the others decide the price. So with one
item and a budget of at least the value, no bid does better than the value, whatever the others
bid (Vickrey, 1961). With several items, it can be better to save. Words change what bidders earn:
if all tell their values and all but the highest bid 0, the price is 0.

Cheapest trick known: none. At second price `bidder:honest` bids its value whatever others say, so a claim
changes nothing (0.091, as honest play), and the best constant bid, 5 of 12, pays 0.045.

History: version 1 draws from 216 personas of three players, a half for each split; version 0 had 27,
and its `bidder:honest` bid nothing if another claimed more.

Texts are read as in `bargaining-v1`. The legal actions are "pass" without a message, all bids, and "drop". The
prompt shows all bids that are opened, and as many of the latest messages in full as fit
(1,000 / `max_message`, at least 3).

Measures of an episode: `efficiency` (sum of the values of the buyers, as a share of the sum of the
highest values; 1 if that is 0), `revenue` (share of all budgets that is spent) and `overbids` (share of
the bids above 0 that are above the bidder's value, 0 without bids).
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, ClassVar, Literal, NamedTuple, get_args

from arena_envs import talk
from arena_envs.game import (
    CHANCE,
    TERMINAL,
    HoldsOut,
    Kind,
    Pays,
    Vector,
    by_player,
    filled,
    hidden_again,
    next_entries,
    np,
    param,
    share_of,
)
from arena_envs.scenes.shapes import Shapes, Table, cells, seat_cell, talk_of
from arena_envs.talk import Utterance

TALK, BID, TIE, OVER = PHASES = ("talk", "bid", "tie", "over")
Pricing = Literal["first", "second", "ascending"]
SEALED_FIRST, SEALED_SECOND, ASCENDING = get_args(Pricing)
NOBODY = -1


class Event(NamedTuple):
    """A move of a player in the sale of an item, counted from 0."""

    item: int
    phase: str
    seat: int
    said: Utterance


class Sale(NamedTuple):
    """The buyer of an item, or `NOBODY`, and the price."""

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


def money_left(state: State, seat: int, budget: int) -> int:
    """The rest of the budget of a seat."""
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


def after_open(state: State, utterance: Utterance, num_players: int) -> State:
    """The state after a bid or a drop in an ascending auction."""
    if utterance.move == "drop":
        state = state._replace(dropped=(*state.dropped, state.mover))
    else:
        state = state._replace(leader=state.mover, price=utterance.values[0])
    for step in range(1, num_players + 1):
        seat = (state.mover + step) % num_players
        if seat != state.leader and seat not in state.dropped:
            return state._replace(mover=seat)
    return state._replace(sales=(*state.sales, Sale(state.leader, state.price)))


ATTRIBUTES = ("size", "garden", "location")
MAX_POINTS = 9


def checked_points(name: str, rows: object, most: int) -> tuple[tuple[int, ...], ...]:
    """Items or personas as tuples.

    Raises:
        ValueError: names the parameter and its value.
    """
    requirement = (
        f"want {name} as a list of 1 to {most} lists of {len(ATTRIBUTES)} integers from 0 "
        f"to {MAX_POINTS}, for {', '.join(ATTRIBUTES)}"
    )
    if not isinstance(rows, Sequence) or isinstance(rows, str):
        raise ValueError(f"{requirement}; got {rows!r:.80}")
    if not 1 <= len(rows) <= most:
        raise ValueError(f"{requirement}; got {len(rows)} lists")
    for row in rows:
        if (
            not isinstance(row, Sequence)
            or len(row) != len(ATTRIBUTES)
            or not all(type(x) is int and 0 <= x <= MAX_POINTS for x in row)
        ):
            raise ValueError(f"{requirement}; got {row!r:.80}")
    return tuple(map(tuple, rows))


def points(row: Sequence[int], word: str = "") -> str:
    """An item or a persona.

    >>> points((3, 1, 0)), points((2, 1, 0), "weight ")
    ('size 3, garden 1, location 0', 'size weight 2, garden weight 1, location weight 0')
    """
    pairs = zip(ATTRIBUTES, row, strict=True)
    return ", ".join(f"{name} {word}{value}" for name, value in pairs)


Action = Utterance | int  # chance draws a persona, or a buyer among equal bids

SPEECH = (talk.Move("pass"),)
PASS, DROP = Utterance("pass"), Utterance("drop")
LEAVING = talk.Move("drop", message="no")


PERSONAS = (
    (2, 1, 0),
    (0, 1, 2),
    (1, 1, 1),
    (2, 0, 1),
    (1, 0, 2),
    (0, 2, 1),
)


@dataclass(frozen=True)
class Auction(HoldsOut[tuple[int, ...]], talk.TalkGame[State, Action]):
    """Sales of several items to players with private values and budgets.

    Args:
        num_players: from 2 to 5.
        items: for each item, points from 0 to 9 for size, garden and location; 1 to 6 items.
        personas: for each persona, priorities from 0 to 9 for the same; 1 to 6 personas.
        budget: of each player, for all items, 1 to 100.
        pricing: "first" or "second" for sealed bids, or "ascending".
        messages: whether players speak before each sale.
        max_message: longest message in characters, 1 to 300.
        split: of the personas of all seats, "train" or "test", if they can be drawn in 100
            ways or more.

    Raises:
        ValueError: a parameter is out of range.
    """

    num_players: int = param(3, 2, 5)
    items: Sequence[Sequence[int]] = ((3, 1, 0), (1, 0, 3), (2, 2, 2))
    personas: Sequence[Sequence[int]] = PERSONAS
    budget: int = param(12, 1, 100)
    pricing: Pricing = "second"
    messages: bool = True
    max_message: int = param(200, 1, 300)
    split: str = "train"

    kind: ClassVar[Kind] = "mixed"
    shares_measured = ("efficiency", "revenue", "overbids")
    min_return = -1.0
    default_value = "all bid their values: 19/216, 61/648, 115/1296"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("items", "personas"):
            rows = checked_points(name, getattr(self, name), 6)
            object.__setattr__(self, name, rows)
        self.drawn  # noqa: B018 # refuses a split that these personas do not have

    @cached_property
    def all_instances(self) -> Sequence[tuple[int, ...]]:
        return list(product(range(len(self.personas)), repeat=self.num_players))

    @cached_property
    def values(self) -> tuple[tuple[int, ...], ...]:
        """The worth of each item to each persona."""
        return tuple(
            tuple(sum(a * b for a, b in zip(p, i, strict=True)) for i in self.items)
            for p in self.personas
        )

    def value(self, state: State, seat: int, item: int) -> int:
        """The worth of an item to a seat."""
        return self.values[state.personas[seat]][item]

    @property
    def max_return(self) -> float:
        return max(map(sum, self.values)) / self.budget

    @property
    def max_turns(self) -> int:
        n = self.num_players
        raises = self.budget if self.pricing == ASCENDING else 0
        return len(self.items) * (n * (1 + self.messages) + raises)

    @property
    def max_chance_nodes(self) -> int:
        return self.num_players + len(self.items)

    @property
    def pays(self) -> Pays:
        return "on_the_way" if len(self.items) > 1 else "end"

    @property
    def known_value(self) -> str | None:
        is_vickrey = self.pricing == "second" and len(self.items) == 1
        if is_vickrey and self.budget >= max(map(max, self.values)):
            return "to bid the value is dominant"
        return super().known_value

    def initial_state(self) -> State:
        return State(self._opening)

    @property
    def _opening(self) -> str:
        return TALK if self.messages else BID

    def current_player(self, state: State) -> int:
        if len(state.personas) < self.num_players or state.phase == TIE:
            return CHANCE
        return TERMINAL if state.phase == OVER else state.mover

    def chance_outcomes(self, state: State) -> list[tuple[Action, float]]:
        if state.phase != TIE:
            return next_entries(self.drawn, state.personas)
        bids = sealed_bids(state)
        seats = [seat for seat, bid in enumerate(bids) if bid == max(bids)]
        return [(seat, 1 / len(seats)) for seat in seats]

    def default_action(self, state: State) -> Utterance:
        """No words, no bid."""
        return self.legal_actions(state)[-1 if self.pricing == ASCENDING else 0]

    def _bids(self, state: State) -> tuple[int, int]:
        """The lowest and the highest possible bid of the seat to move."""
        low = state.price + 1 if self.pricing == ASCENDING else 0
        return low, money_left(state, state.mover, self.budget)

    def legal_actions(self, state: State) -> Sequence[Utterance]:
        if self.current_player(state) < 0:
            return ()
        if state.phase == TALK:
            return (PASS,)
        low, high = self._bids(state)
        bids = [Utterance("bid", (bid,)) for bid in range(low, high + 1)]
        return [*bids, DROP] if self.pricing == ASCENDING else bids

    def core_state(self, state: State) -> State:
        """The state without messages."""
        past = [
            each._replace(said=PASS) if each.phase == TALK else each
            for each in state.past
        ]
        return state._replace(past=tuple(past))

    def apply(self, state: State, action: Action) -> State:
        if isinstance(action, Utterance):
            event = Event(state.item, state.phase, state.mover, action)
            state = state._replace(past=(*state.past, event))
            if state.phase == TALK:
                is_last = state.mover + 1 == self.num_players
                mover = 0 if is_last else state.mover + 1
                return state._replace(phase=BID if is_last else TALK, mover=mover)
            if self.pricing == ASCENDING:
                after = after_open(state, action, self.num_players)
            else:
                after = after_sealed(state, self.num_players, self.pricing)
        elif state.phase == TIE:
            after = sold(state, action, self.pricing)
        else:
            return state._replace(personas=(*state.personas, action))
        if after.item == state.item:
            return after
        phase = OVER if after.item == len(self.items) else self._opening
        return State(phase, after.personas, sales=after.sales, past=after.past)

    def returns(self, state: State) -> Sequence[float]:
        gains = [0] * self.num_players
        for item, (seat, price) in enumerate(state.sales):
            if seat != NOBODY:
                gains[seat] += self.value(state, seat, item) - price
        return tuple(gain / self.budget for gain in gains)

    def measures(self, state: State) -> dict[str, float]:
        """Efficiency, revenue and overbids, as the page defines them."""
        seats = range(self.num_players)
        best = realised = revenue = 0
        for item, (seat, price) in enumerate(state.sales):
            best += max(self.value(state, bidder, item) for bidder in seats)
            realised += self.value(state, seat, item) if seat != NOBODY else 0
            revenue += price
        over = [
            each.said.values[0] > self.value(state, each.seat, each.item)
            for each in state.past
            if each.said.move == "bid" and each.said.values[0]
        ]
        return {
            "efficiency": realised / best if best else 1.0,
            "revenue": revenue / (self.budget * self.num_players),
            "overbids": share_of(over, 0.0),
        }

    def observe(self, state: State, seat: int) -> str:
        return "\n".join(self._lines(state, seat, self.current_player(state)))

    def _lines(self, state: State, seat: int, player: int) -> Iterator[str]:
        yield f"You are player_{seat}. {self._stage(state, seat, player)}"
        if len(state.personas) > seat:
            values = enumerate(self.values[state.personas[seat]], 1)
            worth = ", ".join(f"item {number}: {value}" for number, value in values)
            priorities = points(self.personas[state.personas[seat]])
            yield f"Your priorities: {priorities}. Worth to you: {worth}."
        seats = range(self.num_players)
        left = by_player((s, money_left(state, s, self.budget)) for s in seats)
        yield f"Budgets left: {left}."
        for number, sale in enumerate(state.sales):
            sold = f"sold to player_{sale.seat} for {sale.price}"
            to = "not sold" if sale.seat == NOBODY else sold
            yield f"Item {number + 1}: {to}. Bids: {self._bids_text(state, seat, number)}."
        if player != TERMINAL and state.phase != TALK:
            yield from self._running(state, seat)
        messages = [each for each in state.past if each.said.message]

        def full_line(turn: int) -> str:
            speaker = talk.named(messages[turn].seat, seat)
            return f"Before item {messages[turn].item + 1}, {speaker} said"

        utterances, latest = (
            [each.said for each in messages],
            talk.num_in_full(self.max_message),
        )
        yield from talk.transcript(utterances, seat, full_line, latest=latest)

    def _stage(self, state: State, seat: int, player: int) -> str:
        if player == TERMINAL:
            return "The auction is over."
        if player == CHANCE:
            is_tie = state.phase == TIE
            return "The bids are tied." if is_tie else "Priorities are being drawn."
        item = f"Item {state.item + 1} of {len(self.items)}"
        is_talk = state.phase == TALK
        if player != seat:
            return f"{item}. player_{player} is to {'speak' if is_talk else 'bid'}."
        left = money_left(state, seat, self.budget)
        task = f"bid from 0 to {left}; 0 is no bid"
        if is_talk:
            task = "pass, with or without a message"
        elif self.pricing == ASCENDING:
            task = f"bid from {state.price + 1} to {left}, or drop"
            task = task if left > state.price else "drop"
        return f"{item}. You are to move: {task}."

    def _bids_text(self, state: State, seat: int, item: int) -> str:
        """The highest bid of each seat for an item as far as a seat knows it."""
        best: list[object] = ["none"] * self.num_players
        for each in known_events(state, seat):
            if each.item == item and each.said.move == "bid":
                best[each.seat] = each.said.values[0]
        return by_player(enumerate(best))

    def _running(self, state: State, seat: int) -> Iterator[str]:
        bids = self._bids_text(state, seat, state.item)
        if self.pricing == ASCENDING:
            leader = "nobody" if state.leader == NOBODY else f"player_{state.leader}"
            out = ", ".join(
                f"player_{dropped_seat}" for dropped_seat in sorted(state.dropped)
            )
            yield f"Highest bid: {state.price} by {leader}. Dropped: {out or 'nobody'}."
        if self.pricing == ASCENDING or state.phase != BID:
            yield f"Bids: {bids}."
        elif len(own_bids := sealed_bids(state)) > seat:
            yield f"Your bid: {own_bids[seat]}."

    def information_state(self, state: State, seat: int) -> Any:
        persona = state.personas[seat : seat + 1]
        public = state._replace(personas=(), past=())
        past = known_events(state, seat)
        return (seat, persona, len(state.personas), *public, past)

    def features(self, state: State, seat: int) -> Vector:
        """Seat, persona, stage, players and the sales of all items.

        One-hot seat (N), persona (P), phase (4); items sold and price (2); for each player: whether
        it is to move, leads, has dropped, and what is left of its budget (4N); for each item: its
        value to the seat, its price, and for each player whether it bought it, whether it spoke
        in words, whether the seat knows a bid of it, and the highest one (2 + 4N). Money is divided
        by `budget`.
        """
        n, whole = self.num_players, self.budget
        head = np.zeros(n + len(self.personas) + 6, np.float32)
        head[seat] = 1
        for persona in state.personas[seat : seat + 1]:
            head[n + persona] = 1
        head[n + len(self.personas) + PHASES.index(state.phase)] = 1
        head[-2:] = state.item, state.price / whole
        players = np.zeros((4, n), np.float32)
        players[0, state.mover] = 1
        if state.leader != NOBODY:
            players[1, state.leader] = 1
        players[2, list(state.dropped)] = 1
        players[3] = [money_left(state, bidder, whole) / whole for bidder in range(n)]
        items = np.zeros((len(self.items), 2 + 4 * n), np.float32)
        if len(state.personas) > seat:
            items[:, 0] = np.divide(self.values[state.personas[seat]], whole)
        for item, sale in enumerate(state.sales):
            items[item, 1] = sale.price / whole
            if sale.seat != NOBODY:
                items[item, 2 + sale.seat] = 1
        for item, _, bidder, utterance in known_events(state, seat):
            if utterance.message:
                items[item, 2 + n + bidder] = 1
            elif utterance.move == "bid":
                items[item, 2 + 2 * n + bidder] = 1
                items[item, 2 + 3 * n + bidder] = utterance.values[0] / whole
        return np.concatenate([head, players.ravel(), items.ravel()])

    def action_text(self, state: State, action: Action) -> str:
        if isinstance(action, int):
            return (
                f"buyer player_{action}" if state.phase == TIE else f"persona {action}"
            )
        bid = talk.Move("bid", (talk.Integer(0, self.budget),), "no")
        return talk.written(action, (*SPEECH, bid, LEAVING))

    def moves_at(self, state: State) -> tuple[talk.Move, ...]:
        if state.phase == TALK:
            return SPEECH
        low, high = self._bids(state)
        bid = talk.Move("bid", (talk.Integer(low, high),), "no")
        if self.pricing != ASCENDING:
            return (bid,)
        return (bid, LEAVING) if low <= high else (LEAVING,)

    def rules(self, seat: int) -> str:
        items = (f"item {n}: {points(item)}" for n, item in enumerate(self.items, 1))
        moves = (talk.Move("pass"), talk.Move("bid", message="no"))
        return filled(
            "auction",
            self,
            num_items=len(self.items),
            items="; ".join(items),
            personas="; ".join(map(points, self.personas)),
            sale=filled(f"auction_{self.pricing}", self),
            how=talk.how_to_write(moves, self.longest, "the other players"),
        )

    def resample(self, state: State, seat: int, rng: random.Random) -> State:
        """Draws personas of other seats, and their sealed bids that are not opened."""
        personas = hidden_again(self.drawn, state.personas, seat, rng)
        visible_events = set(known_events(state, seat))
        past = []
        for each in state.past:
            if each not in visible_events:
                high = money_left(state, each.seat, self.budget)
                bid = Utterance("bid", (rng.randint(0, high),))
                each = each._replace(said=bid)
            past.append(each)
        return state._replace(personas=personas, past=tuple(past))

    hidden_answers: ClassVar[Sequence[str]] = (*ATTRIBUTES, "several")

    def hidden(self, state: State, seat: int) -> tuple[str, str] | None:
        """The next player's highest priority; None before all are drawn."""
        profile = self.hidden_profile(state, seat)
        if profile is None:
            return None
        _, priorities = profile
        most = max(priorities.values())
        best = [name for name, value in priorities.items() if value == most]
        question = (
            f"What is the highest priority of player_{(seat + 1) % self.num_players}, or do several "
            "share it?"
        )
        return question, best[0] if len(best) == 1 else "several"

    def hidden_profile(
        self, state: State, seat: int
    ) -> tuple[str, Mapping[str, float]] | None:
        """A question about the next player's priorities, and these; None before all are drawn."""
        if len(state.personas) < self.num_players:
            return None
        player = (seat + 1) % self.num_players
        row = self.personas[state.personas[player]]
        question = f"How high are the priorities of player_{player} for {', '.join(ATTRIBUTES)}?"
        return question, dict(zip(ATTRIBUTES, map(float, row), strict=True))


class Bidder(talk.Scripted):
    """Bids in an auction in one of three styles.

    | Style    | Before the sale                      | Bids                                  |
    |----------|--------------------------------------|---------------------------------------|
    | `honest` | says what the item is worth to it    | its value                             |
    | `greedy` | says that it is worth all its budget | its value                             |
    | `silent` | passes                               | its value                             |

    No bidder believes a word: who holds back for a higher claim is robbed by claims, and at second
    price a bid of the value needs no belief. A bidder never bids more than is left of its budget. In ascending auctions it raises by 1 up to that bid. At
    first price it bids (N - 1) / N of the value among N players, rounded down, at least 1 of a value
    above 0. At second price with one item, `silent` plays the dominant strategy.
    """

    game, styles = Auction, ("greedy", "honest", "silent")

    def reply(self, game: Auction, state: State, rng: random.Random) -> Utterance:
        seat = game.current_player(state)
        value = game.value(state, seat, state.item)
        left = money_left(state, seat, game.budget)
        if state.phase == TALK:
            claimed_value = {"honest": value, "greedy": left}.get(self.style)
            words = f"This is worth {claimed_value} to me."
            speaks = claimed_value is not None and len(words) <= game.max_message
            return PASS._replace(message=words) if speaks else PASS
        bid = min(value, left)
        if game.pricing == ASCENDING:
            more = state.price + 1
            return Utterance("bid", (more,)) if more <= bid else DROP
        if game.pricing == SEALED_FIRST:
            share = value * (game.num_players - 1) // game.num_players
            bid = min(left, max(share, min(value, 1)))
        return Utterance("bid", (bid,))


def scene(game: Auction, state: State, viewer: int | None) -> Shapes:
    """The items and their sales, the players as far as the viewer knows them, and the talk."""
    items = []
    for number, item in enumerate(game.items):
        sale = "for sale" if number == state.item else ""
        if number < state.item:
            seat, price = state.sales[number]
            sale = f"player_{seat} for {price}" if seat != NOBODY else "not sold"
        items.append(cells(f"item {number + 1}", points(item), sale))
    players = []
    for seat, persona in enumerate(state.personas):
        worth = "hidden"
        if viewer in (None, seat):
            values = [game.value(state, seat, number) for number in range(len(items))]
            worth = ", ".join(map(str, values))
            worth = f"{worth} ({points(game.personas[persona])})"
        money = str(money_left(state, seat, game.budget))
        players.append(cells(seat_cell(seat), worth, money))
    events = state.past if viewer is None else known_events(state, viewer)
    visible_events = [
        each for each in events if each.phase != TALK or each.said.message
    ]

    def full_line(turn: int, utterance: Utterance) -> str:
        amount = f" {utterance.values[0]}" if utterance.values else ""
        does = "speaks" if utterance.message else f"{utterance.move}s{amount}"
        return f"{does} (item {visible_events[turn].item + 1})"

    utterances = [each.said for each in visible_events]
    return [
        Table("items", ("item", "points", "sale"), items),
        Table("players", ("seat", "worth of the items", "budget left"), players),
        *talk_of(utterances, viewer, full_line, lambda turn: visible_events[turn].seat),
    ]
