r"""Negotiation: a seller and a buyer haggle over the price of a product, in free words if they like.

| Property    | Value                                                                  |
|-------------|------------------------------------------------------------------------|
| Create      | `arena_envs.make("negotiation-v1", complete_information=True)`, see `Negotiation` |
| Agents      | `player_0`, the seller, who offers in rounds 1, 3, ..., and `player_1`, the buyer |
| Kind        | mixed, imperfect information; perfect if `complete_information`        |
| Actions     | texts: "offer 40", "accept", "reject", "leave", with or without a message |
| Rewards     | at the end: the gain over keeping the product or the money, divided by `scale` |
| Length      | 2 to 20 turns, `2 * num_rounds` at most                                |
| Known value | random play: .096189, .079046; both told both values, subgame-perfect: 0, .350476 |
| Source      | E. Shapira et al., *GLEE* (2024), section 2.2                          |

The seller has a product. It is worth `scale` times a factor to each player, and chance draws each
factor from `factors[seat]`: all pairs of a split with a gain from trade of at least `min_gain`, with
the same probability. Without `complete_information` a seat
knows only its own value. In odd rounds the seller offers a price and the buyer answers, in even
rounds the other way round. "accept" ends the game with a sale at this price. "reject" ends the
round, and who rejected offers next. "leave" ends the game, and so does the rejection of the last
offer: then there is no sale, and each player takes its outside option, `outside[seat]`. Prices go
from 0 to twice `scale`. A sale at price p pays p less its value to the seller, and its value less
p to the buyer. Nothing is discounted. So a sale may be a loss to either.

This is the second family of GLEE. There factors are fixed, and may leave no gain from trade; prices
have no limit; outside options are worth 0, which is the default; GLEE also plays without a horizon
that the players know, and with products of 100, 10,000 and 1,000,000 (`scale`). A forfeit is no sale,
and costs a tenth of the range of returns.

Cheapest trick known: none beats honest play with `negotiator:honest`, 0.149 as a seller and 0.122 as a
buyer. It sells or buys at the mean price of all values that may be drawn, whatever it is told: of all
mechanisms only a posted price makes lies worthless (K. Hagerty and W. Rogerson, *Robust Trading
Mechanisms*, 1987). False claims pay the same, harder bargains the same or less, leaving at once 0.

History: version 1 draws from 210 pairs of factors with a gain from trade, a half for each split; in
version 0 half of the 16 pairs had no gain, an honest pair got 0.065 each, and a forfeit cost 0.75.

With complete information, the player who offers in the last round gets all gains from trade: the
other player accepts what its outside option is worth, and waiting costs nothing. With hidden values
and one round, the best price of the seller maximizes (p - value) times the chance that the buyer's
value is at least p.

A reply gives one move in a sentence of its own, and all other words are the message, of at most
`max_message` characters (`docs/replies.md` shows how replies are read). With `parsing="strict"` the move
stands alone in the last line or sentence, as in `bargaining-v1`. The legal actions are a finite
set without messages: the answers, or `num_offers` evenly spaced prices. The prompt shows the latest
three utterances in full and, of the earlier ones, the prices of the latest six offers.

Measures of an episode: `agreement` (1 with a sale, else 0) and GLEE's `efficiency` (1 for a sale at
a price between a lower value of the seller and a higher one of the buyer, and for no sale if the
buyer's value is not higher; else 0) and `fairness` (1 - 4((p - m) / scale)² for a sale, with m
the mean of both values, and 1 without a sale). GLEE's self-gain is the return.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from arena_envs import talk
from arena_envs.game import TERMINAL, filled, param
from arena_envs.games.kits.haggling import (
    Haggling,
    State,
    checked_factors,
    drawn_text,
    speaker_of,
)
from arena_envs.scenes.shapes import Shapes, Table, cells, seat_cell, talk_of
from arena_envs.talk import CENT, Utterance, money

ROLES = ("seller", "buyer")
PAST = {"accept": "accepted", "reject": "rejected", "leave": "left"}
FACTORS = tuple(n / 100 for n in range(50, 155, 5))


def _is_factor(value: float) -> bool:
    return 0 < value <= 2 and abs(100 * value - round(100 * value)) < 1e-9


def checked_outside(outside: Sequence[float]) -> tuple[float, float]:
    """The outside options as floats.

    Raises:
        ValueError: they are not two numbers from 0 to 1.
    """
    try:
        first, second = outside
        valid = 0 <= first <= 1 and 0 <= second <= 1
    except (TypeError, ValueError):
        valid = False
    if not valid:
        raise ValueError(
            "want outside as a number from 0 to 1 for each of two seats, got "
            f"{outside!r:.80}"
        )
    return float(first), float(second)


@dataclass(frozen=True)
class Negotiation(Haggling):
    """Sale of a product by alternating offers of a price.

    Args:
        scale: what a factor of 1 is worth, 1 to 1,000,000.
        num_rounds: rounds of an offer and an answer, 1 to 50.
        num_offers: prices among the legal actions, 2 to 1001; they are whole hundredths.
        factors: for each seat, its possible values as shares of `scale`, above 0 and at most 2,
            with at most two decimals.
        min_gain: least gain from trade, the buyer's factor less the seller's, -2 to 1; -2 draws
            all pairs of factors.
        outside: for each seat, what it gets without a sale, as a share of `scale`, 0 to 1.
        complete_information: whether both seats are told both values.
        messages: whether an action may carry a message.
        max_message: longest message in characters, 1 to 400.
        split: of the pairs of factors, "train" or "test", if there are 100 pairs or more.

    Raises:
        ValueError: a parameter is out of range.
    """

    seat_roles = ("seller", "buyer")
    scale: int = param(100, 1, 1_000_000)
    num_rounds: int = param(10, 1, 50)
    num_offers: int = param(21, 2, 1001)
    factors: Sequence[Sequence[float]] = (FACTORS, FACTORS)
    min_gain: float = param(0.05, -2, 1)
    outside: Sequence[float] = (0.0, 0.0)
    complete_information: bool = False
    messages: bool = True
    max_message: int = param(300, 1, 400)
    split: str = "train"

    answers = (talk.Move("accept"), talk.Move("reject"), talk.Move("leave"))
    answers_told = ("accept", "reject", "leave")
    amount = "PRICE"
    default_value = "random play .096189, .079046; both told both values, subgame-perfect 0, .350476"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.highest % (self.num_offers - 1):
            raise ValueError(
                "want 2 * scale / (num_offers - 1) with at most two decimals, got "
                f"scale={self.scale} and num_offers={self.num_offers}"
            )
        limits = "above 0 and at most 2, with at most two decimals,"
        factors = checked_factors("factors", self.factors, limits, _is_factor)
        object.__setattr__(self, "factors", factors)
        object.__setattr__(self, "outside", checked_outside(self.outside))
        if not self.drawn:
            raise ValueError(
                "want factors of the buyer that are at least min_gain above one of the "
                f"seller's, got factors={self.factors!r:.80} and "
                f"min_gain={self.min_gain}"
            )

    @cached_property
    def all_instances(self) -> Sequence[tuple[float, float]]:
        sold, bought = self.factors
        least = self.min_gain - 1e-9
        return [(s, b) for s in sold for b in bought if b - s >= least]

    @property
    def unit(self) -> int:
        return self.scale * CENT

    @property
    def highest(self) -> int:
        return 2 * self.unit

    @property
    def min_return(self) -> float:
        return float(min(-max(self.factors[0]), min(self.factors[1]) - 2))

    @property
    def max_return(self) -> float:
        gains = 2 - min(self.factors[0]), max(self.factors[1])
        return float(max(*gains, *self.outside))

    def price(self, state: State) -> int | None:
        """The price of the sale, in hundredths; None without a sale."""
        is_sold = state.said and state.said[-1].move == "accept"
        return state.said[-2].values[0] if is_sold else None

    def value(self, state: State, seat: int) -> int:
        """The worth of the product to a seat, in hundredths."""
        return round(self.unit * state.factors[seat])

    def returns(self, state: State) -> tuple[float, float]:
        if self.current_player(state) != TERMINAL:
            return (0.0, 0.0)
        price = self.price(state)
        if price is None:
            return (float(self.outside[0]), float(self.outside[1]))
        seller, buyer = (self.value(state, trader) for trader in (0, 1))
        return ((price - seller) / self.unit, (buyer - price) / self.unit)

    def forfeit(self, state: State, seat: int) -> Sequence[float]:
        """No sale; a tenth of the range of returns is taken from the seat."""
        payments = [float(outside) for outside in self.outside]
        payments[seat] = -(self.max_return - self.min_return) / 10
        return payments

    def measures(self, state: State) -> dict[str, float]:
        """Agreement, efficiency and fairness, as the page defines them."""
        price = self.price(state)
        seller, buyer = (self.value(state, seat) for seat in (0, 1))
        efficient, fairness = seller >= buyer, 1.0
        if price is not None:
            efficient = seller <= price <= buyer
            fairness = 1 - 4 * ((price - (seller + buyer) / 2) / self.unit) ** 2
        return {
            "agreement": float(price is not None),
            "efficiency": float(efficient),
            "fairness": fairness,
        }

    @property
    def measure_bounds(self) -> dict[str, tuple[float, float]]:
        low, high = (sum(map(most, self.factors)) / 2 for most in (min, max))
        fairness = (1 - 4 * max(high, 2 - low) ** 2, 1.0)
        return {"agreement": (0.0, 1.0), "efficiency": (0.0, 1.0), "fairness": fairness}

    def observe(self, state: State, seat: int) -> str:
        factors, utterances = state
        player, price, turn = (
            self.current_player(state),
            self.price(state),
            len(utterances),
        )
        now = "The values are being drawn."
        if price is not None:
            now = f"The game is over: the product is sold for {money(price)} in round {turn // 2}."
        elif player == TERMINAL:
            now = "The game is over without a sale."
        elif player >= 0:
            now = self.turn_text(turn, player, seat, "offer a price")
        lines = [f"You are player_{seat}, the {ROLES[seat]}. {now}"]
        if len(factors) == 2:
            own_value, other_value = (
                money(self.value(state, trader)) for trader in (seat, 1 - seat)
            )
            more = f"; what it is worth to player_{1 - seat} is hidden."
            if self.complete_information:
                more = f" and {other_value} to player_{1 - seat}."
            lines.append(f"The product is worth {own_value} to you{more}")
        return "\n".join([*lines, *self._history(utterances, seat)])

    def _history(self, utterances: Sequence[Utterance], seat: int) -> Iterator[str]:
        """The latest utterances in full, of earlier ones the prices."""

        def full_line(turn: int) -> str:
            does = [
                f"offered a price of {money(price)}"
                for price in utterances[turn].values
            ]
            does = does or [PAST[utterances[turn].move]]
            return (
                f"Round {turn // 2 + 1}: {talk.named(speaker_of(turn), seat)} {does[0]}"
            )

        def brief(turn: int) -> str:
            if turn % 2:
                return ""
            speaker, price = (
                talk.named(speaker_of(turn), seat),
                money(utterances[turn].values[0]),
            )
            return f"{speaker} offered {price} (round {turn // 2 + 1})"

        return talk.transcript(utterances, seat, full_line, brief=brief)

    def rules(self, seat: int) -> str:
        seller, buyer = (
            drawn_text(money(round(self.unit * factor)) for factor in factors)
            for factors in self.factors
        )
        first, second = (money(round(self.unit * share)) for share in self.outside)
        return filled(
            "negotiation",
            self,
            seller=seller,
            buyer=buyer,
            gains=self.min_gain > 0,
            gain=money(round(self.unit * self.min_gain)),
            order=self.order_text("offers a price", "making offers"),
            most=2 * self.scale,
            is_nothing=first == second == "0",
            first=first,
            second=second,
            how=talk.how_to_write(self.moves, self.longest),
        )


SELLER = 0


class Negotiator(talk.Scripted):
    """Plays negotiation in one of four styles.

    - `honest` says what the product is worth to it, and wants the mean price of all values that may
      be drawn, or a better one; with complete information, half of the gains from trade. It leaves
      if that is no gain. What it is told changes nothing, so no claim pays.
    - `greedy` says nothing and asks for the value that is best for itself among those that the other
      player may have. It accepts gains in the last round only.
    - `silent` says nothing. It asks for as much as `greedy` in round 1 and for no gain in the last
      round, with equal steps in between, and accepts what it would ask for.
    - `optimal` says nothing and plays the subgame-perfect equilibrium of complete information.

    Raises:
        ValueError: when it plays: `optimal` without complete
            information.
    """

    game, styles = Negotiation, ("greedy", "honest", "optimal", "silent")

    def reply(self, game: Negotiation, state: State, rng: random.Random) -> Utterance:
        utterance = self._move(game, state, game.current_player(state))
        if self.style != "honest":
            return utterance
        worth = money(game.value(state, game.current_player(state)))
        return talk.with_words(game, utterance, f"The product is worth {worth} to me.")

    def _move(self, game: Negotiation, state: State, seat: int) -> Utterance:
        target = self._wanted(game, state, seat)
        if len(state.said) % 2 == 0:
            price = 0 if target is None else min(max(target, 0), game.highest)
            if target is None and seat == SELLER:
                price = game.highest  # nobody buys at this price
            return Utterance("offer", (price,))
        price = state.said[-1].values[0]
        sign = 1 if seat == SELLER else -1
        if target is not None and sign * (price - target) >= 0:
            return Utterance("accept")
        return Utterance("leave" if target is None else "reject")

    def _wanted(self, game: Negotiation, state: State, seat: int) -> int | None:
        """The price to ask for; None if no sale can pay."""
        better, last = max if seat == SELLER else min, _worst(game, state, seat)
        # the best price among the values that the other seat may have, but none at a loss
        first = better(round(game.unit * better(game.factors[1 - seat])), last)
        is_last = len(state.said) == game.max_turns - 1
        if self.style == "greedy":
            return last if is_last else first
        if self.style == "silent":
            past, most = len(state.said) // 2, max(1, game.num_rounds - 1)
            return first + (last - first) * past // most
        if self.style == "honest":
            # the mean of both limits if they are known, else of all that chance may draw
            mean = sum(map(sum, game.drawn)) / len(game.drawn) / 2
            gap = _outside(game, 0) - _outside(game, 1)
            price = round(game.scale * CENT * mean) + gap // 2
            if game.complete_information:
                price = (_worst(game, state, 0) + _worst(game, state, 1)) // 2
            is_gain = price > last if seat == SELLER else price < last
            return price if is_gain else None
        if not game.complete_information:
            raise ValueError(
                f"want complete_information=True for the style 'optimal', got {game!r}"
            )
        limits = _worst(game, state, 0), _worst(game, state, 1)
        if limits[0] > limits[1]:
            return None
        return last if is_last else limits[1 - (game.num_rounds - 1) % 2]


def _worst(game: Negotiation, state: State, seat: int) -> int:
    """The price at which a sale is worth as much to a seat as its outside option."""
    sign = 1 if seat == SELLER else -1
    return game.value(state, seat) + sign * _outside(game, seat)


def _outside(game: Negotiation, seat: int) -> int:
    return round(game.outside[seat] * game.unit)


def scene(game: Negotiation, state: State, viewer: int | None) -> Shapes:
    """The worth of the product to each seat, and the talk."""
    rows = []
    for seat in range(len(state.factors)):
        is_shown = viewer in (None, seat) or game.complete_information
        worth = money(game.value(state, seat)) if is_shown else "hidden"
        rows.append(cells(seat_cell(seat, f"player_{seat}, the {ROLES[seat]}"), worth))

    def full_line(turn: int, utterance: Utterance) -> str:
        offers = [f"offers a price of {money(price)}" for price in utterance.values]
        return (
            f"{offers[0] if offers else f'{utterance.move}s'} (round {turn // 2 + 1})"
        )

    table = Table("a product", ("seat", "its worth"), rows)
    return [table, *talk_of(state.said, viewer, full_line, speaker_of)]
