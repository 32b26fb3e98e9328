r"""Auction: bidders with private priorities buy houses, and may talk before each sale.

| Property    | Value                                                                  |
|-------------|------------------------------------------------------------------------|
| Create      | `arena_envs.make("auction-v0", pricing="ascending")`, see `Auction`    |
| Agents      | 2 to 5, `player_0` to `player_4`; 3 by default                         |
| Kind        | mixed, imperfect information                                           |
| Actions     | texts: "pass" with or without a message; "bid 3"; in ascending auctions also "drop" |
| Rewards     | after a sale, (value - price) / `budget` to the buyer                  |
| Length      | per item a turn of talk and a bid of each player; at most `max_turns`  |
| Known value | second price, one item: to bid the value is dominant; default, if all bid their values: 5/54 each |
| Source      | *HARBOR: Exploring Persona Dynamics in Multi-Agent Competition* (2025); W. Vickrey, *Counterspeculation, Auctions, and Competitive Sealed Tenders* (1961) |

Houses are sold one after another. Each has points for size, garden and location, which all know.
Each player has a persona: priorities, which chance draws from `personas`, all with the same probability.
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

Texts are read as in `bargaining-v0`. The legal actions are "pass" without a message, all bids, and "drop". The
prompt shows all bids that are opened, and as many of the latest messages in full as fit
(1,000 / `max_message`, at least 3).

Measures of an episode: `efficiency` (sum of the values of the buyers, as a share of the sum of the
highest values; 1 if that is 0), `revenue` (share of all budgets that is spent) and `overbids` (share of
the bids above 0 that are above the bidder's value, 0 without bids).
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from arena_envs.game import (
    CHANCE,
    TERMINAL,
    BaseGame,
    IllegalAction,
    Information,
    Kind,
    check_bool,
    check_int,
)
from arena_envs.games import _auction_numbers as numbers
from arena_envs.games import _auction_state as states
from arena_envs.games import _auction_texts as texts
from arena_envs.games import _talk as talk
from arena_envs.games._auction_state import (
    ASCENDING,
    BID,
    FORMATS,
    NOBODY,
    OVER,
    TALK,
    TIE,
    Event,
    State,
)
from arena_envs.games._talk import Utterance

Action = Utterance | int  # chance draws a persona, or a buyer among equal bids

SPEECH = (talk.Move("pass"),)
PASS, DROP = Utterance("pass"), Utterance("drop")
LEAVING = talk.Move("drop", message="no")


@dataclass(frozen=True)
class Auction(BaseGame[State, Action]):
    """Sales of several items to players with private values and budgets.

    Args:
        num_players: from 2 to 5.
        items: for each item, points from 0 to 9 for size, garden and location; 1 to 6 items.
        personas: for each persona, priorities from 0 to 9 for the same; 1 to 6 personas.
        budget: of each player, for all items, 1 to 100.
        pricing: "first" or "second" for sealed bids, or "ascending".
        messages: whether players speak before each sale.
        max_message: longest message in characters, 1 to 300.

    Raises:
        ValueError: a parameter is out of range.
    """

    num_players: int = 3
    items: Sequence[Sequence[int]] = ((3, 1, 0), (1, 0, 3), (2, 2, 2))
    personas: Sequence[Sequence[int]] = ((2, 1, 0), (0, 1, 2), (1, 1, 1))
    budget: int = 12
    pricing: str = "second"
    messages: bool = True
    max_message: int = 200

    num_actions = None
    kind: ClassVar[Kind] = "mixed"
    information: ClassVar[Information] = "imperfect"
    min_return = -1.0

    def __post_init__(self) -> None:
        check_int("num_players", self.num_players, 2, 5)
        check_int("budget", self.budget, 1, 100)
        check_int("max_message", self.max_message, 1, 300)
        check_bool("messages", self.messages)
        if self.pricing not in FORMATS:
            raise ValueError(
                f"want a pricing among {', '.join(FORMATS)}, got {self.pricing!r:.80}"
            )
        # YAML and JSON give lists in place of tuples
        for name in ("items", "personas"):
            rows = texts.checked_points(name, getattr(self, name), 6)
            object.__setattr__(self, name, rows)

    @cached_property
    def values(self) -> tuple[tuple[int, ...], ...]:
        """What each item is worth to each persona."""
        return tuple(
            tuple(sum(a * b for a, b in zip(p, i, strict=True)) for i in self.items)
            for p in self.personas
        )

    def value(self, state: State, seat: int, item: int) -> int:
        """What an item is worth to a seat."""
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
    def known_value(self) -> str | None:
        is_vickrey = self.pricing == "second" and len(self.items) == 1
        if is_vickrey and self.budget >= max(map(max, self.values)):
            return "to bid the value is dominant"
        return None if self != type(self)() else "all bid their values: 5/54 each"

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
        outcomes: Sequence[int] = range(len(self.personas))
        if state.phase == TIE:
            bids = states.sealed_bids(state)
            outcomes = [seat for seat, bid in enumerate(bids) if bid == max(bids)]
        return [(outcome, 1 / len(outcomes)) for outcome in outcomes]

    def _bids(self, state: State) -> tuple[int, int]:
        """The lowest and the highest possible bid of the seat to move."""
        low = state.price + 1 if self.pricing == ASCENDING else 0
        return low, states.left(state, state.mover, self.budget)

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
                after = states.after_open(state, action, self.num_players)
            else:
                after = states.after_sealed(state, self.num_players, self.pricing)
        elif state.phase == TIE:
            after = states.sold(state, action, self.pricing)
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
        return numbers.measured(self, state)

    @property
    def measure_bounds(self) -> dict[str, tuple[float, float]]:
        return dict.fromkeys(("efficiency", "revenue", "overbids"), (0.0, 1.0))

    def observe(self, state: State, seat: int) -> str:
        player = self.current_player(state)
        return "\n".join(texts.observed(self, state, seat, player))

    def information_state(self, state: State, seat: int) -> Any:
        own = state.personas[seat : seat + 1]
        public = state._replace(personas=(), past=())
        past = states.known_events(state, seat)
        return (seat, own, len(state.personas), *public, past)

    def features(self, state: State, seat: int) -> NDArray[np.float32]:
        """Seat, persona, stage, players and the sales of all items.

        One-hot seat (N), persona (P), phase (4); items sold and price (2); for each player: whether
        it is to move, leads, has dropped, and what is left of its budget (4N); for each item: its
        value to the seat, its price, and for each player whether it bought it, whether it spoke
        in words, whether the seat knows a bid of it, and the highest one (2 + 4N). Money is divided
        by `budget`.
        """
        return numbers.features_of(self, state, seat)

    def action_text(self, state: State, action: Action) -> str:
        if isinstance(action, int):
            return (
                f"buyer player_{action}" if state.phase == TIE else f"persona {action}"
            )
        bid = talk.Move("bid", (talk.Integer(0, self.budget),), "no")
        return talk.written(action, (*SPEECH, bid, LEAVING))

    def parse(self, state: State, text: str) -> Utterance:
        if self.current_player(state) < 0:
            raise IllegalAction("nobody is to move")
        if state.phase == TALK:
            return talk.read(text, SPEECH, self.max_message)
        low, high = self._bids(state)
        bid = talk.Move("bid", (talk.Integer(low, high),), "no")
        if self.pricing != ASCENDING:
            return talk.read(text, (bid,), 0)
        return talk.read(text, (bid, LEAVING) if low <= high else (LEAVING,), 0)

    def rules(self, seat: int) -> str:
        longest = self.max_message if self.messages else 0
        return f"{texts.rules_text(self)} {texts.how_to_write(longest)}"

    def resample(self, state: State, seat: int, rng: random.Random) -> State:
        """Draws personas of other seats, and their sealed bids that are not opened."""
        personas = tuple(
            own if other == seat else rng.randrange(len(self.personas))
            for other, own in enumerate(state.personas)
        )
        kept = set(states.known_events(state, seat))
        past = []
        for each in state.past:
            if each not in kept:
                high = states.left(state, each.seat, self.budget)
                bid = Utterance("bid", (rng.randint(0, high),))
                each = each._replace(said=bid)
            past.append(each)
        return state._replace(personas=personas, past=tuple(past))
