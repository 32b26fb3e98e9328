"""Limit Texas hold'em: fixed-limit poker with two own cards and five on the board.

| Property    | Value                                                                  |
|-------------|------------------------------------------------------------------------|
| Create      | `arena_envs.make("limit_holdem-v0")`; parameters: see `LimitHoldem`    |
| Agents      | `player_0` to `player_{N-1}`, `num_players` from 2 to 6                |
| Kind        | competitive, imperfect information, zero-sum                           |
| Actions     | `Discrete(3)`: 0 "fold", 1 "call", 2 "raise"                           |
| Rewards     | at the end: the net chips won or lost                                  |
| Length      | N - 1 to 4N + (N - 1)(4 * `max_bets` - 1) turns; with two 1 to 23      |
| Known value | two players: 319,365,922,522,608 information states                    |
| Source      | Bowling et al., *Heads-up limit hold'em poker is solved* (2015)        |

Everybody is dealt two cards. The last player is the dealer. The next two, `player_0` and
`player_1`, pay the small and the big blind, which is the small bet; with two players the
dealer pays the small blind and `player_0` the big one. There are four rounds of betting:
before the flop, then after the flop (three cards on the board), the turn and the river
(one card each). The first round begins after the big blind, so with two players at the
dealer, the others after the dealer. In turn, a player calls (pays as much as the highest,
which may be nothing: a check), raises that by the small bet in the first two rounds and by
the big bet in the others, or folds if there is something to pay. A round has at most
`max_bets` bets and raises, and the big blind is the first of its round. If all but one
fold, that player takes the pot; in the end the best five of the seven cards do, and equal
hands share the pot to fractions of a chip. Nobody can run out of chips, so there are no all-ins
and no side pots.

The deck is dealt card by card (card = 4 * rank + suit, ranks from 2, suits c, d, h, s):
one to each from `player_0` on, a second one to each, then the board, with no card burned.
Two players have the seats and rules of the game that Bowling et al. solved. Hands are shown
at a showdown; if all but one have folded, none are shown.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any

from arena_envs.game import TERMINAL, Vector, filled, np, param
from arena_envs.games.kits import cards as limit
from arena_envs.games.kits.cards import FixedLimit, Hand, betting_shapes
from arena_envs.scenes.shapes import Card, Cards, Shapes

CARDS = tuple(rank + suit for rank in "23456789TJQKA" for suit in "cdhs")
NUM_DEALS = 32  # of `check_down`
ROUNDS = ("Before the flop", "Flop", "Turn", "River")


@dataclass(frozen=True)
class LimitHoldem(FixedLimit):
    """Limit Texas hold'em.

    Args:
        num_players: 2 to 6.
        small_blind: chips, 1 to `small_bet`.
        small_bet: chips of the big blind, and of a bet or raise in the first two rounds.
        big_bet: chips of a bet or raise in the last two rounds, at least `small_bet`.
        max_bets: bets and raises in a round, the big blind included, 1 to 10.

    Raises:
        ValueError: a parameter is out of range.
    """

    num_players: int = param(2, 2, 6)
    small_blind: int = param(1, 1, lambda game: game.small_bet)
    small_bet: int = param(2, 1, 1_000_000)
    big_bet: int = param(4, lambda game: game.small_bet, 1_000_000)
    max_bets: int = param(4, 1, 10)

    num_own, board_sizes = 2, (0, 3, 4, 5)
    num_cards = len(CARDS)
    is_spelled = True

    @property
    def max_raises(self) -> int:
        return self.max_bets

    @property
    def max_paid(self) -> int:
        return 2 * self.max_bets * (self.small_bet + self.big_bet)

    def raise_size(self, number: int) -> int:
        return self.small_bet if number < 2 else self.big_bet

    @property
    def max_turns(self) -> int:
        # In each round everybody calls; then each raise comes last and gives all others
        # a turn again. The first of the bets before the flop is the big blind.
        num_raises = len(ROUNDS) * self.max_bets - 1
        return len(ROUNDS) * self.num_players + num_raises * (self.num_players - 1)

    def initial_state(self) -> Hand:
        n = self.num_players
        small, big = (1, 0) if n == 2 else (0, 1)
        blinds = [0] * n
        blinds[small], blinds[big] = self.small_blind, self.small_bet
        first = limit.new_round(
            tuple(blinds), (False,) * n, (big + 1) % n, num_raises=1
        )
        return Hand((), first, ((),))

    def returns(self, state: Hand) -> Sequence[float]:
        n = self.num_players
        if self.current_player(state) != TERMINAL:
            return (0.0,) * n

        def strength(seat: int) -> tuple[int, ...]:
            return hand_strength(state.cards[seat : 2 * n : n] + state.cards[2 * n :])

        return limit.net_chips(state.betting, strength)

    def check_down(self, states: Sequence[Hand], seat: int) -> Any:
        """float64[n]: the expected return of a seat if everybody only calls from each state on.

        The mean over `NUM_DEALS` fixed orders of the deck; cards that a state already has are skipped.
        """
        n = self.num_players
        num_cards = 2 * n + self.board_sizes[-1]
        known_cards = list(dict.fromkeys(state.cards for state in states))
        rows = np.array(
            [
                [
                    *cards,
                    *islice(
                        (c for c in deck if c not in cards), num_cards - len(cards)
                    ),
                ]
                for cards in known_cards
                for deck in _decks()
            ]
        )
        board = rows[:, 2 * n :]
        strengths = np.stack(
            [
                hand_strengths(np.concatenate([rows[:, s : 2 * n : n], board], axis=1))
                for s in range(n)
            ]
        )
        places = {
            cards: slice(i * NUM_DEALS, (i + 1) * NUM_DEALS)
            for i, cards in enumerate(known_cards)
        }
        return np.array(
            [
                self._called_down(
                    state.betting, strengths[:, places[state.cards]], seat
                )
                for state in states
            ]
        )

    def _called_down(self, betting: limit.Betting, strengths: Any, seat: int) -> float:
        """The mean return of a seat over deals; int64[seats, deals] are the hands."""
        paid = np.array(betting.paid)
        is_in = ~np.array(betting.folded)
        paid[is_in] = paid.max()
        strengths = np.where(is_in[:, None], strengths, -1)
        wins = strengths == strengths.max(axis=0)
        shares = wins[seat] / wins.sum(axis=0)
        return float(paid.sum() * shares.mean() - paid[seat])

    def observe(self, state: Hand, seat: int) -> str:
        hands, board = self.visible(state, seat)
        names = [_text(hand) for hand in hands]
        return "\n".join(
            [
                f"You are player_{seat} and hold {names[seat] or 'no cards yet'}.",
                f"Board: {_text(board) or 'empty'}.",
                self.betting_text(state, seat, ROUNDS, names),
            ]
        )

    def features(self, state: Hand, seat: int) -> Vector:
        """Cards, seat, turn, chips and actions.

        Four times 52 places hold the own cards, the flop, the turn and the river. Then
        come one-hot the seat, one-hot whose turn it is (or nobody's), the chips paid as
        shares of the most that a seat can pay, and one-hot actions by round, seat and
        turn of the seat in that round; all but the first from the own seat on.
        """
        hands, board = self.visible(state, seat)
        planes = (hands[seat], board[:3], board[3:4], board[4:])
        ones = [52 * i + card for i, cards in enumerate(planes) for card in cards]
        return self.encoded(state, seat, [*ones, 208 + seat], 208 + self.num_players)

    def rules(self, seat: int) -> str:
        n = self.num_players
        small, big = ("player_1", "player_0") if n == 2 else ("player_0", "player_1")
        first = 2 % n if n > 2 else 1
        return filled("limit_holdem", self, small=small, big=big, first=first)

    def visible(
        self, state: Hand, seat: int
    ) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
        """The hands that a seat sees, highest card first, and the board."""
        n, cards = self.num_players, state.cards
        hands = tuple(
            tuple(sorted(cards[s : 2 * n : n], reverse=True)) if is_seen else ()
            for s, is_seen in enumerate(self.seen(state, seat))
        )
        return hands, cards[2 * n :]


def hand_strength(cards: Sequence[int]) -> tuple[int, ...]:
    """The best five of seven cards: their category, 0 to 8, then ranks that break ties."""
    ranks, suits = list(range(13)), [0] * 4  # a rank plus 16 for each of its cards
    for card in cards:
        ranks[card >> 2] += 16
        suits[card & 3] |= 1 << (card >> 2)
    for held in suits:
        if held.bit_count() >= 5:  # then no rank comes often enough for more
            if top := _straight(held):
                return 8, top
            return 5, *[rank for rank in range(12, -1, -1) if held >> rank & 1][:5]
    ranks.sort(reverse=True)
    first, second = ranks[:2]
    order = [rank & 15 for rank in ranks]
    if first >= 64:
        return 7, order[0], max(rank & 15 for rank in ranks[1:] if rank > 15)
    if first >= 48 and second >= 32:
        return 6, *order[:2]
    if top := _straight(suits[0] | suits[1] | suits[2] | suits[3]):
        return 4, top
    if first >= 48:
        return 3, *order[:3]
    if second >= 32:
        return 2, *order[:2], max(order[2:4])
    return (1, *order[:4]) if first >= 32 else (0, *order[:5])


def hand_strengths(hands: Any) -> Any:
    """int64[n], in the order of `hand_strength`; of int[n, 7] cards, seven in each row."""
    top = _tops()
    cards = (1 << 13 * (hands & 3) + (hands >> 2)).sum(axis=1)
    suits = [cards >> 13 * suit & (1 << 13) - 1 for suit in range(4)]
    # sets of ranks, in any or in both of the first two suits, and of the last two
    any_first, any_last = suits[0] | suits[1], suits[2] | suits[3]
    both_first, both_last = suits[0] & suits[1], suits[2] & suits[3]
    singles = any_first | any_last  # ranks of at least one card
    pairs = both_first | both_last | (any_first & any_last)  # of at least two
    threes = (both_first & any_last) | (both_last & any_first)
    fours = both_first & both_last
    suited = np.zeros(len(hands), np.int64)  # the ranks of a flush
    for ranks in suits:
        suited |= ranks * (top[5][ranks] > top[4][ranks])
    straight, straight_flush = top[0][singles], top[0][suited]
    three, pair, two = top[1][threes], top[1][pairs], top[2][pairs]
    full = (threes > 0) & (pairs != three)
    kickers = np.select(
        [fours > 0, full, threes > 0, two != pair],
        [
            top[1][singles & ~fours],
            top[1][pairs & ~three],
            top[2][singles & ~three],
            top[1][singles & ~two],
        ],
        top[3][singles & ~pair],
    )
    categories = [
        (straight_flush > 0, 8, straight_flush),
        (fours > 0, 7, fours),
        (full, 6, three),
        (suited > 0, 5, top[5][suited]),
        (straight > 0, 4, straight),
        (threes > 0, 3, three),
        (two != pair, 2, two),
        (pairs > 0, 1, pair),
    ]
    conditions = [condition for condition, _, _ in categories]
    first = np.select(conditions, [first for *_, first in categories], top[5][singles])
    category = np.select(conditions, [number for _, number, _ in categories], 0)
    has_kickers = np.isin(category, (7, 6, 3, 2, 1))
    return (category << 26) + (first << 13) + np.where(has_kickers, kickers, 0)


@cache
def _tops() -> Any:
    """int64[6, 8192], by the set of ranks: the place of its best straight, then its highest 1, ..., 5 ranks."""
    tops = np.zeros((6, 1 << 13), np.int64)
    for ranks in range(1 << 13):
        tops[0, ranks] = _straight(ranks)
        highest, remaining = 0, ranks
        for num in range(1, 6):
            bit = 1 << remaining.bit_length() >> 1
            highest, remaining = highest | bit, remaining & ~bit
            tops[num, ranks] = highest
    return tops


@cache
def _decks() -> list[list[int]]:
    """Fixed orders of the deck, so that states that are alike have alike deals."""
    rng = random.Random("check down")
    return [rng.sample(range(len(CARDS)), len(CARDS)) for _ in range(NUM_DEALS)]


def _straight(ranks: int) -> int:
    """The place of the highest five ranks in a row, with aces low too; 0 without any."""
    ranks = ranks << 1 | ranks >> 12
    return (ranks & ranks >> 1 & ranks >> 2 & ranks >> 3 & ranks >> 4).bit_length()


def _text(cards: Sequence[int]) -> str:
    return " ".join(CARDS[card] for card in cards)


SUITS = {"c": "green", "d": "blue", "h": "red", "s": "dark"}


def scene(game: LimitHoldem, state: Hand, viewer: int | None) -> Shapes:
    """The hands, the board, the rounds and the chips."""
    num, cards = game.num_players, state.cards
    hands: Any = [cards[seat : 2 * num : num] for seat in range(num)]
    sizes = list(map(len, hands))
    if viewer is not None:
        key: Any = game.information_state(state, viewer)
        hands = key[1]
    hand_shapes = []
    for seat, hand in enumerate(hands):
        faces = [_card(card) for card in sorted(hand, reverse=True)]
        hand_shapes.append(
            Cards(f"player_{seat}", faces or [Card(None)] * sizes[seat], seat)
        )
    board = Cards("board", [_card(card) for card in cards[2 * num :]])
    names = [name.lower() for name in ROUNDS]
    return [*hand_shapes, board, *betting_shapes(state.betting, names, state.history)]


def _card(card: int) -> Card:
    name = CARDS[card]
    return Card(name, SUITS[name[1]])
