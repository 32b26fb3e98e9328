r"""Negotiation: a seller and a buyer haggle over the price of a product, in free words if they like.

| Property    | Value                                                                  |
|-------------|------------------------------------------------------------------------|
| Create      | `arena_envs.make("negotiation-v0", complete_information=True)`, see `Negotiation` |
| Agents      | `player_0`, the seller, who offers in rounds 1, 3, ..., and `player_1`, the buyer |
| Kind        | mixed, imperfect information; perfect if `complete_information`        |
| Actions     | texts: "offer 40", "accept", "reject", "leave", with or without a message |
| Rewards     | at the end: the gain over keeping the product or the money, divided by `scale` |
| Length      | 2 to 20 turns, `2 * num_rounds` at most                                |
| Known value | random play: -.062499, .062499; both told both values, subgame-perfect: 0, .143750 |
| Source      | E. Shapira et al., *GLEE* (2024), section 2.2                          |

The seller has a product. It is worth `scale` times a factor to each player, and chance draws each
factor from `factors[seat]`, all with the same probability. Without `complete_information` a seat
knows only its own value. In odd rounds the seller offers a price and the buyer answers, in even
rounds the other way round. "accept" ends the game with a sale at this price. "reject" ends the
round, and who rejected offers next. "leave" ends the game, and so does the rejection of the last
offer: then there is no sale, and each player takes its outside option, `outside[seat]`. Prices go
from 0 to twice `scale`. A sale at price p pays p less its value to the seller, and its value less
p to the buyer. Nothing is discounted. So a sale may be a loss to either.

This is the second family of GLEE. There factors are fixed, prices have no limit, and outside options
are worth 0, which is the default.

With complete information, the player who offers in the last round gets all gains from trade: the
other player accepts what its outside option is worth, and waiting costs nothing. With hidden values
and one round, the best price of the seller maximizes (p - value) times the chance that the buyer's
value is at least p.

Texts are read as in `bargaining-v0`: a move stands alone in the last line or sentence, and what
stands before it is the message, of at most `max_message` characters. The legal actions are a finite
set without messages: the answers, or `num_offers` evenly spaced prices. The prompt shows the latest
three utterances in full and, of the earlier ones, the prices of the latest six offers.

Measures of an episode: `agreement` (1 with a sale, else 0) and GLEE's `efficiency` (1 for a sale at
a price between a lower value of the seller and a higher one of the buyer, and for no sale if the
buyer's value is not higher; else 0) and `fairness` (1 - 4((p - m) / scale)² for a sale, with m
the mean of both values, and 1 without a sale). GLEE's self-gain is the return.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

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
from arena_envs.games import _negotiation_texts as texts
from arena_envs.games import _talk as talk
from arena_envs.games._talk import CENT, Utterance

Action = Utterance | float  # chance draws a factor

ANSWERS = (talk.Move("accept"), talk.Move("reject"), talk.Move("leave"))
CORE = tuple(Utterance(move.name) for move in ANSWERS)


class State(NamedTuple):
    """The factors drawn so far, by seat, and all utterances in order."""

    factors: tuple[float, ...] = ()
    said: tuple[Utterance, ...] = ()


@dataclass(frozen=True)
class Negotiation(BaseGame[State, Action]):
    """Sale of a product by alternating offers of a price.

    Args:
        scale: what a factor of 1 is worth, 1 to 1,000,000.
        num_rounds: rounds of an offer and an answer, 1 to 50.
        num_offers: prices among the legal actions, 2 to 1001; they are whole hundredths.
        factors: for each seat, its possible values as shares of `scale`, above 0 and at most 2,
            with at most two decimals.
        outside: for each seat, what it gets without a sale, as a share of `scale`, 0 to 1.
        complete_information: whether both seats are told both values.
        messages: whether an action may carry a message.
        max_message: longest message in characters, 1 to 400.

    Raises:
        ValueError: a parameter is out of range.
    """

    scale: int = 100
    num_rounds: int = 10
    num_offers: int = 21
    factors: Sequence[Sequence[float]] = ((0.8, 1.0, 1.2, 1.5), (0.8, 1.0, 1.2, 1.5))
    outside: Sequence[float] = (0.0, 0.0)
    complete_information: bool = False
    messages: bool = True
    max_message: int = 300

    num_players = 2
    num_actions = None
    kind: ClassVar[Kind] = "mixed"
    max_chance_nodes = 2  # both factors

    def __post_init__(self) -> None:
        check_int("scale", self.scale, 1, 1_000_000)
        check_int("num_rounds", self.num_rounds, 1, 50)
        check_int("num_offers", self.num_offers, 2, 1001)
        check_int("max_message", self.max_message, 1, 400)
        for name in ("complete_information", "messages"):
            check_bool(name, getattr(self, name))
        if self.highest % (self.num_offers - 1):
            raise ValueError(
                "want 2 * scale / (num_offers - 1) with at most two decimals, got "
                f"scale={self.scale} and num_offers={self.num_offers}"
            )
        # YAML and JSON give lists in place of tuples
        object.__setattr__(self, "factors", texts.checked_factors(self.factors))
        object.__setattr__(self, "outside", texts.checked_outside(self.outside))

    @property
    def highest(self) -> int:
        """The highest price, in hundredths."""
        return 2 * self.scale * CENT

    @cached_property
    def moves(self) -> tuple[talk.Move, ...]:
        """An offer, and the three answers."""
        return (talk.Move("offer", (talk.Amount(0, self.highest, "PRICE"),)), *ANSWERS)

    @property
    def information(self) -> Information:
        return "perfect" if self.complete_information else "imperfect"

    @property
    def max_turns(self) -> int:
        return 2 * self.num_rounds

    @property
    def min_return(self) -> float:
        return float(min(-max(self.factors[0]), min(self.factors[1]) - 2))

    @property
    def max_return(self) -> float:
        gains = 2 - min(self.factors[0]), max(self.factors[1])
        return float(max(*gains, *self.outside))

    @property
    def known_value(self) -> str | None:
        if self != type(self)():
            return None
        return "random play -.062499, .062499; both told both values, subgame-perfect 0, .143750"

    def initial_state(self) -> State:
        return State()

    def current_player(self, state: State) -> int:
        factors, said = state
        if len(factors) < 2:
            return CHANCE
        is_over = said and said[-1].move in ("accept", "leave")
        if is_over or len(said) == 2 * self.num_rounds:
            return TERMINAL
        return (len(said) + 1) // 2 % 2

    def chance_outcomes(self, state: State) -> list[tuple[Action, float]]:
        possible = self.factors[len(state.factors)]
        return [(factor, 1 / len(possible)) for factor in possible]

    @cached_property
    def _offers(self) -> tuple[Utterance, ...]:
        step = self.highest // (self.num_offers - 1)
        return tuple(Utterance("offer", (step * n,)) for n in range(self.num_offers))

    def legal_actions(self, state: State) -> Sequence[Utterance]:
        if self.current_player(state) < 0:
            return ()
        return CORE if len(state.said) % 2 else self._offers

    def core_state(self, state: State) -> State:
        """The state with the nearest of the legal actions in place of each utterance."""
        core = (*self._offers, *CORE)
        return state._replace(said=talk.nearest(state.said, core))

    def apply(self, state: State, action: Action) -> State:
        if isinstance(action, Utterance):
            return State(state.factors, (*state.said, action))
        return State((*state.factors, action), state.said)

    def price(self, state: State) -> int | None:
        """The price of the sale, in hundredths; None without a sale."""
        is_sold = state.said and state.said[-1].move == "accept"
        return state.said[-2].values[0] if is_sold else None

    def value(self, state: State, seat: int) -> int:
        """What the product is worth to a seat, in hundredths."""
        return round(self.scale * CENT * state.factors[seat])

    def returns(self, state: State) -> tuple[float, float]:
        if self.current_player(state) != TERMINAL:
            return (0.0, 0.0)
        price = self.price(state)
        if price is None:
            return (float(self.outside[0]), float(self.outside[1]))
        seller, buyer, whole = (
            self.value(state, 0),
            self.value(state, 1),
            self.scale * CENT,
        )
        return ((price - seller) / whole, (buyer - price) / whole)

    def measures(self, state: State) -> dict[str, float]:
        """Agreement, efficiency and fairness, as the page defines them."""
        values = (self.value(state, 0), self.value(state, 1))
        return texts.measured(self.price(state), *values, self.scale * CENT)

    @property
    def measure_bounds(self) -> dict[str, tuple[float, float]]:
        low, high = (sum(map(most, self.factors)) / 2 for most in (min, max))
        fairness = (1 - 4 * max(high, 2 - low) ** 2, 1.0)
        return {"agreement": (0.0, 1.0), "efficiency": (0.0, 1.0), "fairness": fairness}

    def observe(self, state: State, seat: int) -> str:
        factors, said = state
        player, price = self.current_player(state), self.price(state)
        stage = texts.stage_text(player, seat, len(said), self.num_rounds, price)
        lines = [f"You are player_{seat}, the {texts.ROLES[seat]}. {stage}"]
        if len(factors) == 2:
            values = (self.value(state, 0), self.value(state, 1))
            lines.append(texts.worth_text(values, seat, self.complete_information))
        return "\n".join([*lines, *texts.history(said, seat)])

    def information_state(self, state: State, seat: int) -> Any:
        if self.complete_information:
            return state
        return (seat, state.factors[seat : seat + 1], len(state.factors), state.said)

    def features(self, state: State, seat: int) -> NDArray[np.float32]:
        """Seat, who is to do what, values, round; then all prices and answers.

        One-hot seat (2); one-hot: own offer, own answer, the other's offer, its answer (4);
        own factor and whether it is known, likewise the other's (4); one-hot round; and for
        each round: whether a price was offered, the price over `scale`, one-hot answer (3).
        """
        rounds, player = self.num_rounds, self.current_player(state)
        values = np.zeros(10 + 6 * rounds, np.float32)
        values[seat] = 1
        if player >= 0:
            values[2 + 2 * (player != seat) + len(state.said) % 2] = 1
            values[10 + len(state.said) // 2] = 1
        for other, factor in enumerate(state.factors):
            if other == seat or self.complete_information:
                values[6 + 2 * (other != seat) :][:2] = factor, 1
        past = values[10 + rounds :].reshape(rounds, 5)
        for turn, said in enumerate(state.said):
            if said.move == "offer":
                past[turn // 2, :2] = 1, said.values[0] / (self.scale * CENT)
            else:
                past[turn // 2, 2 + CORE.index(Utterance(said.move))] = 1
        return values

    def action_text(self, state: State, action: Action) -> str:
        if isinstance(action, Utterance):
            return talk.written(action, self.moves)
        return f"factor {action:.10g}"

    def parse(self, state: State, text: str) -> Utterance:
        if self.current_player(state) < 0:
            raise IllegalAction("nobody is to move")
        moves = ANSWERS if len(state.said) % 2 else self.moves[:1]
        return talk.read(text, moves, self._longest)

    def rules(self, seat: int) -> str:
        return (
            f"{texts.rules_text(self)} {talk.how_to_write(self.moves, self._longest)}"
        )

    @property
    def _longest(self) -> int:
        return self.max_message if self.messages else 0

    def resample(self, state: State, seat: int, rng: random.Random) -> State:
        """Draws the hidden factor of the other seat again."""
        if self.complete_information:
            return state
        drawn = (
            factor if other == seat else rng.choice(self.factors[other])
            for other, factor in enumerate(state.factors)
        )
        return State(tuple(drawn), state.said)
