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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NamedTuple

from arena_envs.game import (
    CHANCE,
    TERMINAL,
    BaseGame,
    IllegalAction,
    Kind,
    Vector,
    by_player,
    filled,
    fold,
    np,
    over_text,
    param,
)
from arena_envs.scenes.shapes import (
    Card,
    Cards,
    Cell,
    Shapes,
    Table,
    chosen_cells,
    seat_cell,
    seat_names,
)

PointsOrder = Literal["random", "ascending", "descending"]
ReturnsType = Literal["win_loss", "point_difference", "total_points"]


class State(NamedTuple):
    """The prizes shown and the bids of all seats, in order; card i has the value i + 1."""

    prizes: tuple[int, ...] = ()
    bids: tuple[int, ...] = ()


@cache
def _others(used: frozenset[int], num_cards: int) -> tuple[int, ...]:
    return tuple([card for card in range(num_cards) if card not in used])


@cache
def winner_of(bids: tuple[int, ...]) -> int | None:
    """The seat with the highest bid; None where several share it."""
    highest = max(bids)
    return bids.index(highest) if bids.count(highest) == 1 else None


NAMES = tuple(str(value) for value in range(1, 14))  # of cards and prizes


@cache
def card_names(cards: tuple[int, ...]) -> str:
    """Cards or prizes by their values."""
    return ", ".join([NAMES[card] for card in cards])


ANSWER = re.compile(r"(?:(?:bid|card|play) )?\[?([1-9][0-9]?)\]?")


@dataclass(frozen=True)
class Goofspiel(BaseGame[State, int]):
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

    num_players: int = param(2, 2, 4)
    num_cards: int = param(5, 2, 13)
    points_order: PointsOrder = "random"
    imp_info: bool = False
    returns_type: ReturnsType = "win_loss"

    simultaneous = True

    @property
    def most_points(self) -> int:
        """All prizes but one: equal hands cannot win every round."""
        return self.num_cards * (self.num_cards + 1) // 2 - 1

    def rounds(self, state: State) -> list[tuple[int, ...]]:
        """The bids of each round that is over."""
        n, bids = self.num_players, state.bids
        return [bids[i : i + n] for i in range(0, len(bids) - n + 1, n)]

    def running(self, state: State) -> tuple[int, ...]:
        """The bids of the round that is not over."""
        return state.bids[len(state.bids) // self.num_players * self.num_players :]

    def left(self, used: Iterable[int]) -> tuple[int, ...]:
        """Cards or prizes that are not used yet."""
        return _others(frozenset(used), self.num_cards)

    def hand(self, state: State, seat: int) -> tuple[int, ...]:
        """The cards that a seat has not bid."""
        return self.left(state.bids[seat :: self.num_players])

    def open_hand(self, state: State, seat: int) -> tuple[int, ...]:
        """The hand at the start of the round, which does not tell who has bid."""
        past = len(state.bids) // self.num_players
        return self.left(state.bids[seat :: self.num_players][:past])

    def points(self, state: State) -> list[int]:
        """The sum of the prizes of each seat."""
        points = [0] * self.num_players
        for prize, bids in zip(state.prizes, self.rounds(state), strict=False):
            winner = winner_of(bids)
            if winner is not None:
                points[winner] += prize + 1
        return points

    @property
    def num_actions(self) -> int:
        return self.num_cards

    @property
    def kind(self) -> Kind:  # type: ignore[override]  # settable in BaseGame
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
        # seats that can share most points
        max_winners = min(n - 1, self.num_cards // 2)
        return -1.0 / (n - max_winners)

    @property
    def max_return(self) -> float:
        n, most = self.num_players, self.most_points
        if self.returns_type == "total_points":
            return float(most)
        if self.returns_type == "point_difference":
            # with two seats the other one takes the prize 1
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

    def information_state(self, state: State, seat: int) -> Any:
        own_bid = self.running(state)[seat : seat + 1]
        if not self.imp_info:
            past = state.bids[: len(state.bids) - len(self.running(state))]
            return (state.prizes, past, own_bid)
        winners = tuple(map(winner_of, self.rounds(state)))
        return (state.prizes, winners, state.bids[seat :: self.num_players])

    @property
    def known_value(self) -> str | None:
        return "0 by symmetry" if self.num_players == 2 else None

    def observe(self, state: State, seat: int) -> str:
        rounds, num = self.rounds(state), self.num_cards
        now = f"Round {len(rounds) + 1} of {num}: the prize is not shown yet."
        if len(rounds) == num:
            now = over_text(self.returns(state)[seat])
        elif len(rounds) < len(state.prizes):
            prize = state.prizes[-1] + 1
            now = f"Round {len(rounds) + 1} of {num}: all players bid for the prize {prize}."
        lines = [f"You are player_{seat}. {now}"]
        if left := self.left(state.prizes):
            label = "to come" if state.prizes else "in random order"
            lines.append(f"Prizes {label}: {card_names(left)}.")
        if len(rounds) < num:
            lines.append(f"Your cards: {card_names(self.open_hand(state, seat))}.")
            for player in range(self.num_players):
                if player != seat and not self.imp_info:
                    hand = card_names(self.open_hand(state, player))
                    lines.append(f"player_{player}'s cards: {hand}.")
        lines.append(f"Points: {by_player(enumerate(self.points(state)))}.")
        if own_bid := self.running(state)[seat : seat + 1]:
            lines.append(f"Your bid in this round: {own_bid[0] + 1}.")
        players = ", ".join(f"player_{player}" for player in range(self.num_players))
        label = "your bid" if self.imp_info else f"bids of {players}"
        lines += [f"Past rounds (prize: {label}; winner):"] if rounds else []
        for prize, bids in zip(state.prizes, rounds, strict=False):
            visible_bids = bids[seat : seat + 1] if self.imp_info else bids
            winner = winner_of(bids)
            name = "nobody" if winner is None else f"player_{winner}"
            lines.append(f"{prize + 1}: {card_names(visible_bids)}; {name}")
        return "\n".join(lines)

    def features(self, state: State, seat: int) -> Vector:
        """The present, then the past rounds; the own seat first, others in order after it.

        Prize in play (one-hot); hands and own bid in this round (ones); points, as shares.
        For each round: prize and winner (one-hot; the last place is nobody), and the bid
        of every seat (one-hot). Hands and bids that are hidden are zeros.
        """
        n, cards = self.num_players, self.num_cards
        seats = [(seat + i) % n for i in range(n)]
        points, rounds = self.points(state), self.rounds(state)
        visible_seats = list(enumerate(seats[:1] if self.imp_info else seats))
        ones = []
        if len(state.prizes) > len(rounds):
            ones.append(state.prizes[-1])
        if own_bid := self.running(state)[seat : seat + 1]:
            ones.append(cards + own_bid[0])
        for row, player in visible_seats:
            ones += [(2 + row) * cards + card for card in self.open_hand(state, player)]
        start, width = (n + 2) * cards + n, (n + 1) * (cards + 1)
        for prize, bids in zip(state.prizes, rounds, strict=False):
            winner = winner_of(bids)
            place = n if winner is None else (winner - seat) % n
            ones += [start + prize, start + cards + place]
            first = start + cards + n + 1
            ones += [
                first + row * cards + bids[player] for row, player in visible_seats
            ]
            start += width
        values = np.zeros((n + 2) * cards + n + cards * width, np.float32)
        values[ones] = 1
        shares = [points[player] / self.most_points for player in seats]
        values[(n + 2) * cards : (n + 2) * cards + n] = shares
        return values

    def rules(self, seat: int) -> str:
        goal = filled(f"goofspiel_{self.returns_type}", self)
        return filled("goofspiel", self, goal=goal)

    def action_text(self, state: State, action: int) -> str:
        return str(action + 1)

    def parse(self, state: State, text: str) -> int:
        """Reads a card, also as "bid 3" or "[3]"."""
        legal = self.legal_actions(state)
        answer = ANSWER.fullmatch(fold(text))
        if answer is None or int(answer[1]) - 1 not in legal:
            raise IllegalAction(
                f"want one of the cards {card_names(legal)}, got {text[:80]!r}"
            )
        return int(answer[1]) - 1

    def resample(self, state: State, seat: int, rng: random.Random) -> State:
        """Draws the others' bids in the running round and, with `imp_info`, all of them.

        Past bids are a random walk from the true ones: some seats exchange two cards where
        the winners stay the same. Steps are symmetric, so all draws become equally likely.
        """
        n, num_rounds = self.num_players, len(state.bids) // self.num_players
        orders = []
        for player in range(n):
            bids = state.bids[player::n]
            num_fixed = len(bids) if player == seat else num_rounds
            cards_left = [
                card for card in range(self.num_cards) if card not in bids[:num_fixed]
            ]
            rng.shuffle(cards_left)
            orders.append([*bids[:num_fixed], *cards_left])
        if self.imp_info:
            self._exchange(orders, num_rounds, seat, rng)
        new_bids = (orders[i % n][i // n] for i in range(len(state.bids)))
        return State(state.prizes, tuple(new_bids))

    def _exchange(
        self, orders: list[list[int]], num_rounds: int, seat: int, rng: random.Random
    ) -> None:
        others = [order for i, order in enumerate(orders) if i != seat]
        for _ in range(4 * self.num_cards**2):
            card, other_card = rng.sample(range(self.num_cards), 2)
            sample = rng.sample(others, rng.randint(1, len(others)))
            places = {order.index(c) for order in sample for c in (card, other_card)}
            past = [place for place in places if place < num_rounds]
            before = _winners(orders, past)
            for _ in range(2):  # the second time undoes the exchange
                for order in sample:
                    i, j = order.index(card), order.index(other_card)
                    order[i], order[j] = other_card, card
                if _winners(orders, past) == before:
                    break


def _winners(orders: list[list[int]], places: list[int]) -> list[int | None]:
    return [winner_of(tuple([order[i] for order in orders])) for i in places]


def scene(game: Goofspiel, state: State, viewer: int | None) -> Shapes:
    """The prize, the hands, and the rounds that are over."""
    num, rounds, running = game.num_players, game.rounds(state), game.running(state)
    hides = game.imp_info and viewer is not None
    shapes: list[Any] = []
    if len(state.prizes) > len(rounds):
        shapes.append(Cards("prize", [Card(str(state.prizes[-1] + 1), "yellow")]))
    for seat, points in enumerate(game.points(state)):
        hidden = hides and seat != viewer
        hand = game.open_hand(state, seat)
        faces = [Card(None if hidden else str(card + 1)) for card in hand]
        shapes.append(Cards(f"player_{seat}: {points} points", faces, seat))
    rows = [_bids(bids, viewer if hides else None) for bids in rounds]
    if len(state.prizes) > len(rounds):
        rows.append(chosen_cells([str(bid + 1) for bid in running], num, viewer))
    if rows:
        prizes = [Cell(str(prize + 1), "yellow") for prize in state.prizes]
        lines = [[prize, *row] for prize, row in zip(prizes, rows, strict=True)]
        shapes.append(Table("bids by prize", ("prize", *seat_names(game)), lines))
    return shapes


def _bids(bids: Sequence[int], viewer: int | None) -> list[Cell]:
    """The bids for a prize, the winner's in color; with a viewer only its own."""
    winner = winner_of(bids)
    texts = [str(bid + 1) if viewer in (None, s) else "?" for s, bid in enumerate(bids)]
    return [seat_cell(s, t) if s == winner else Cell(t) for s, t in enumerate(texts)]
