"""Goofspiel: secret bids for prizes, where every card can be bid only once.

| Property    | Value                                                                  |
|-------------|------------------------------------------------------------------------|
| Create      | `arena_envs.make("goofspiel-v0", num_cards=5)`; see `Goofspiel`        |
| Agents      | `player_0` to `player_{N-1}`, `num_players` from 2 to 4                |
| Kind        | competitive, imperfect information, simultaneous, zero-sum; with       |
|             | `returns_type="total_points"` mixed and not zero-sum                   |
| Actions     | `Discrete(num_cards)`: 0 to C-1 bid the cards "1" to "C"               |
| Rewards     | at the end, by `returns_type`; by default 1 to the winner, -1 to the   |
|             | loser, 0 for a draw                                                    |
| Length      | N (C - 1) turns: 8 by default                                          |
| Known value | two players: 0 by symmetry. NashConv of uniform play with 4 cards      |
|             | 1.493056, with `imp_info` 1.416667; a tree of 26,773 states            |
| Source      | S. M. Ross, *Goofspiel - The Game of Pure Strategy* (1971)             |

All players hold the same cards, 1 to C, and there is one prize of each value 1 to C. In every
round a prize is shown, all players bid a card for it at the same time, and the highest bid
takes it; if several share the highest bid, nobody takes it. A card can be bid once. The last
cards are bid without a turn, as there is nothing to choose. Prizes come in random, ascending
or descending order. With `imp_info` players see the winner of each round, but not the bids of
the others.

`returns_type` is "win_loss" (those with most points share 1, the others share -1; 0 if all
have the same), "point_difference" (own points minus the mean of all) or "total_points".
Actions, seats, chance nodes and parameters are OpenSpiel's. Where bids are open, our
information state holds all rounds; OpenSpiel's holds only the cards left and the winners.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

import arena_envs.games._goofspiel_views as views
from arena_envs.game import (
    CHANCE,
    TERMINAL,
    BaseGame,
    IllegalAction,
    Information,
    Kind,
    fold,
)
from arena_envs.games._goofspiel_state import Setup, State, winner_of

ANSWER = re.compile(r"(?:(?:bid|card|play) )?\[?([1-9][0-9]?)\]?")


@dataclass(frozen=True)
class Goofspiel(Setup, BaseGame[State, int]):
    """Goofspiel with cards from 1 to `num_cards`.

    Args:
        num_players: number of seats, 2 to 4.
        num_cards: cards in each hand and number of prizes, 2 to 13.
        points_order: order of the prizes: "random", "ascending" or "descending".
        imp_info: hides the others' bids; only the winner of each round is told.
        returns_type: "win_loss", "point_difference" or "total_points".

    Raises:
        ValueError: a parameter is none of these.
    """

    information: ClassVar[Information] = "imperfect"
    simultaneous = True

    @property
    def num_actions(self) -> int:
        return self.num_cards

    @property
    def kind(self) -> Kind:
        return "competitive" if self.zero_sum else "mixed"

    @property
    def zero_sum(self) -> bool:  # type: ignore[override]  # depends on a parameter
        return self.returns_type != "total_points"

    @property
    def min_return(self) -> float:
        n, most = self.num_players, self.most_points
        if self.returns_type == "total_points":
            return 0.0
        if self.returns_type == "point_difference":
            return -self.max_return if n == 2 else -most / n
        max_winners = min(
            n - 1, self.num_cards // 2
        )  # seats that can share most points
        return -1.0 / (n - max_winners)

    @property
    def max_return(self) -> float:
        n, most = self.num_players, self.most_points
        if self.returns_type == "total_points":
            return float(most)
        if (
            self.returns_type == "point_difference"
        ):  # with two seats the other one takes the prize 1
            return most - (most + (n == 2)) / n
        return 1.0

    @property
    def max_turns(self) -> int:
        return self.num_players * (self.num_cards - 1)

    @property
    def max_chance_nodes(self) -> int:
        # the last prize needs no draw
        return self.num_cards - 1 if self.points_order == "random" else 0

    def initial_state(self) -> State:
        first = {"random": (), "ascending": (0,), "descending": (self.num_cards - 1,)}
        return State(first[self.points_order])

    def current_player(self, state: State) -> int:
        num_rounds, seat = divmod(len(state.bids), self.num_players)
        if num_rounds == self.num_cards:
            return TERMINAL
        return CHANCE if len(state.prizes) == num_rounds else seat

    def chance_outcomes(self, state: State) -> Sequence[tuple[int, float]]:
        if self.current_player(state) != CHANCE:
            return ()
        left = self.left(state.prizes)
        return [(prize, 1 / len(left)) for prize in left]

    def legal_actions(self, state: State) -> Sequence[int]:
        seat = self.current_player(state)
        return self.hand(state, seat) if seat >= 0 else ()

    def apply(self, state: State, action: int) -> State:
        prizes, bids = state
        if self.current_player(state) == CHANCE:
            return State((*prizes, action), bids)
        after = State(prizes, (*bids, action))
        num_rounds, seat = divmod(len(after.bids), self.num_players)
        if seat:
            return after
        if num_rounds == self.num_cards - 1:
            last = [self.hand(after, seat)[0] for seat in range(self.num_players)]
            return State(prizes + self.left(prizes), (*after.bids, *last))
        if self.points_order == "random":
            return after
        following = prizes[-1] + (1 if self.points_order == "ascending" else -1)
        return State((*prizes, following), after.bids)

    def returns(self, state: State) -> Sequence[float]:
        n = self.num_players
        if self.current_player(state) != TERMINAL:
            return (0.0,) * n
        points = self.points(state)
        if self.returns_type == "total_points":
            return tuple(map(float, points))
        if self.returns_type == "point_difference":
            return tuple(value - sum(points) / n for value in points)
        num_winners = points.count(max(points))
        if num_winners == n:
            return (0.0,) * n
        won, lost = 1 / num_winners, -1 / (n - num_winners)
        return tuple(won if value == max(points) else lost for value in points)

    def information_state(
        self, state: State, seat: int
    ) -> tuple[tuple[int, ...], tuple[int | None, ...], tuple[int, ...]]:
        own = self.running(state)[seat : seat + 1]
        if not self.imp_info:
            past = state.bids[: len(state.bids) - len(self.running(state))]
            return (state.prizes, past, own)
        winners = tuple(map(winner_of, self.rounds(state)))
        return (state.prizes, winners, state.bids[seat :: self.num_players])

    @property
    def known_value(self) -> str | None:
        return "0 by symmetry" if self.num_players == 2 else None

    def observe(self, state: State, seat: int) -> str:
        return views.text(self, state, seat, self.returns(state)[seat])

    def features(self, state: State, seat: int) -> NDArray[np.float32]:
        return views.features(self, state, seat)

    def rules(self, seat: int) -> str:
        return views.rules(self)

    def action_text(self, state: State, action: int) -> str:
        return str(action + 1)

    def parse(self, state: State, text: str) -> int:
        """Reads a card, also as "bid 3" or "[3]"."""
        legal = self.legal_actions(state)
        answer = ANSWER.fullmatch(fold(text))
        if answer is None or int(answer[1]) - 1 not in legal:
            raise IllegalAction(
                f"want one of the cards {views.card_names(legal)}, got {text[:80]!r}"
            )
        return int(answer[1]) - 1

    def resample(self, state: State, seat: int, rng: random.Random) -> State:
        """Draws the others' bids in the running round and, with `imp_info`, all of them.

        Past bids are a random walk from the true ones: some seats exchange two cards where
        the winners stay the same. Steps are symmetric, so all draws become equally likely.
        """
        n, num_rounds = self.num_players, len(state.bids) // self.num_players
        orders = []
        for other in range(n):
            bids = state.bids[other::n]
            kept = len(bids) if other == seat else num_rounds
            rest = [card for card in range(self.num_cards) if card not in bids[:kept]]
            rng.shuffle(rest)
            orders.append([*bids[:kept], *rest])
        if self.imp_info:
            self._exchange(orders, num_rounds, seat, rng)
        drawn = (orders[i % n][i // n] for i in range(len(state.bids)))
        return State(state.prizes, tuple(drawn))

    def _exchange(
        self, orders: list[list[int]], num_rounds: int, seat: int, rng: random.Random
    ) -> None:
        others = [order for i, order in enumerate(orders) if i != seat]
        for _ in range(4 * self.num_cards**2):
            card, other_card = rng.sample(range(self.num_cards), 2)
            chosen = rng.sample(others, rng.randint(1, len(others)))
            places = {order.index(c) for order in chosen for c in (card, other_card)}
            past = [place for place in places if place < num_rounds]
            before = [
                winner_of(tuple([order[place] for order in orders])) for place in past
            ]
            for _ in range(2):  # the second time undoes the exchange
                for order in chosen:
                    i, j = order.index(card), order.index(other_card)
                    order[i], order[j] = other_card, card
                after = [
                    winner_of(tuple([order[place] for order in orders]))
                    for place in past
                ]
                if after == before:
                    break
