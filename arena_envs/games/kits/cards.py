"""Parts of the poker games: fixed-limit betting, the pot, and the words for them."""

import random
from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar, NamedTuple

from arena_envs.game import CHANCE, TERMINAL, BaseGame, Vector, by_player, fold, np
from arena_envs.scenes.shapes import Card, Cards, Cell, Table, Track, seat_cell

FOLD, CALL, RAISE = range(3)
NAMES = ("fold", "call", "raise")
NOBODY = -1

Round = tuple[tuple[int, int], ...]  # seats with their actions, in order


class Betting(NamedTuple):
    """A round of betting, in progress or over."""

    player: int  # to move, or NOBODY when the round is over
    paid: tuple[int, ...]  # chips in the pot, by seat
    folded: tuple[bool, ...]  # by seat
    num_raises: int  # of this round, a first bet included
    num_left: int  # turns until the round is over, if nobody raises

    @property
    def owed(self) -> int:
        """The price of a call for the player to move."""
        return max(self.paid) - self.paid[self.player]


def new_round(
    chips: tuple[int, ...], folded: tuple[bool, ...], first: int, num_raises: int = 0
) -> Betting:
    """Betting that starts with the first seat, from `first` on, that has not folded."""
    seats = range(first, first + len(folded))
    player = next(
        seat % len(folded) for seat in seats if not folded[seat % len(folded)]
    )
    return Betting(player, chips, folded, num_raises, folded.count(False))


def act(betting: Betting, action: int, size: int) -> Betting:
    """The betting after an action; a raise is by `size`."""
    player, chips, folded, num_raises, num_left = betting
    num_left -= 1
    if action == FOLD:
        folded = (*folded[:player], True, *folded[player + 1 :])
    else:
        stake = max(chips)
        if action == RAISE:
            stake += size
            num_raises += 1
            num_left = folded.count(False) - 1
        chips = (*chips[:player], stake, *chips[player + 1 :])
    if folded.count(False) == 1:
        num_left = 0
    num_players = len(chips)
    following = (player + 1) % num_players
    while folded[following]:
        following = (following + 1) % num_players
    return Betting(
        following if num_left else NOBODY, chips, folded, num_raises, num_left
    )


def remaining(betting: Betting) -> list[int]:
    """Seats that have not folded."""
    return [seat for seat, folded in enumerate(betting.folded) if not folded]


def net_chips(betting: Betting, strength: Callable[[int], Any]) -> tuple[float, ...]:
    """The chips that each seat wins or loses; the strongest hands share the pot equally.

    Args:
        betting: at the end.
        strength: of a seat's hand; not asked for if all others have folded.
    """
    winners = remaining(betting)
    if len(winners) > 1:
        strengths = [strength(seat) for seat in winners]
        best = max(strengths)
        winners = [s for s, x in zip(winners, strengths, strict=True) if x == best]
    share = sum(betting.paid) / len(winners)
    return tuple(
        (share if seat in winners else 0.0) - chips
        for seat, chips in enumerate(betting.paid)
    )


def action_places(
    history: Sequence[Round], seat: int, num_players: int, max_raises: int
) -> list[int]:
    """The places of one-hot actions, by round, seat (from `seat` on) and turn in the round.

    Args:
        history: the rounds so far.
        seat: whose point of view it is.
        num_players: number of seats.
        max_raises: of a round; a seat has a first turn, and one after each raise.
    """
    places = []
    for index, actions in enumerate(history):
        turns = [0] * num_players
        for player, action in actions:
            block = index * num_players + (player - seat) % num_players
            places.append((block * (max_raises + 1) + turns[player]) * 3 + action)
            turns[player] += 1
    return places


def pot_text(betting: Betting) -> str:
    """A sentence: the payments of all seats, and the seats that have folded."""
    chips = zip(betting.paid, betting.folded, strict=True)
    seats = by_player(enumerate(f"{n}{' (folded)' * out}" for n, out in chips))
    return f"Chips in the pot: {sum(betting.paid)}, from {seats}."


def round_text(name: str, actions: Round) -> str:
    """The actions of a round, as a sentence."""
    moves = by_player((seat, NAMES[action]) for seat, action in actions)
    return f"{name}: {moves or 'no actions yet'}."


def over_text(returns: Sequence[float]) -> str:
    """A sentence: the wins and losses of all seats."""
    return f"The hand is over: {by_player(enumerate(map(_end, returns)))}."


def _end(chips: float) -> str:
    if not chips:
        return "breaks even"
    return f"{'loses' if chips < 0 else 'wins'} {round(abs(chips), 2):.10g}"


def turn_text(
    player: int, seat: int, betting: Betting, returns: Sequence[float]
) -> str:
    """The seat to move, or the end of the hand, as seen by a seat."""
    if player == CHANCE:
        return "The next card is being dealt."
    if player == TERMINAL:
        return over_text(returns)
    if player != seat:
        return f"player_{player} is to move."
    return f"You are to move. A call costs {betting.owed or 'nothing'}."


def hand_of(seat: int, faces: Sequence[str | None]) -> Cards:
    """The cards of a seat; None is a card that the viewer does not see."""
    return Cards(f"player_{seat}", [Card(face) for face in faces], seat)


def taken_track(title: str, actions: Sequence[tuple[int, str]]) -> Track:
    """Actions in order, in the colors of their seats."""
    return Track(title, [seat_cell(seat, name) for seat, name in actions])


def pot_table(seat_chips: Sequence[int], folded: Sequence[bool]) -> Table:
    """The chips that each seat has paid."""
    rows = [
        [Cell(f"player_{seat}", "gone" if out else ""), Cell(f"{chips}")]
        for seat, (chips, out) in enumerate(zip(seat_chips, folded, strict=True))
    ]
    gone = "; gray: folded" if any(folded) else ""
    return Table(f"pot of {sum(seat_chips)} chips{gone}", ("seat", "paid"), rows)


def betting_shapes(
    betting: Betting,
    names: Sequence[str],
    history: Sequence[Sequence[tuple[int, int]]],
) -> list[Any]:
    """The actions of each round, and the pot."""
    tracks = [
        taken_track(name, [(seat, NAMES[action]) for seat, action in actions])
        for name, actions in zip(names, history, strict=False)
    ]
    return [*tracks, pot_table(betting.paid, betting.folded)]


class Hand(NamedTuple):
    """A hand of poker."""

    cards: tuple[int, ...]  # dealt so far: to each seat in turn, then the public ones
    betting: Betting
    history: tuple[Round, ...]  # of each round that has begun


class FixedLimit(BaseGame[Hand, int]):
    """Rules that games of fixed-limit betting share.

    A subclass is a frozen dataclass with `num_players`. `num_own` cards are dealt to each seat, and
    `board_sizes` has the number of public cards in each round.
    """

    num_players: int

    num_actions = 3
    kind = "competitive"
    zero_sum = True
    num_own: ClassVar[int]
    board_sizes: ClassVar[Sequence[int]]

    @property
    def num_cards(self) -> int:
        """The size of the deck."""
        raise NotImplementedError

    @property
    def max_raises(self) -> int:
        """Most raises in a round."""
        raise NotImplementedError

    @property
    def max_paid(self) -> int:
        """Most chips that a player can pay."""
        raise NotImplementedError

    def raise_size(self, number: int) -> int:
        """The chips of a raise in a round, counted from 0."""
        raise NotImplementedError

    def returns(self, state: Hand) -> Sequence[float]:
        raise NotImplementedError

    @property
    def min_return(self) -> float:
        return -float(self.max_paid)

    @property
    def max_return(self) -> float:
        return float(self.max_paid * (self.num_players - 1))

    @property
    def max_chance_nodes(self) -> int:
        return self.num_own * self.num_players + self.board_sizes[-1]

    def current_player(self, state: Hand) -> int:
        betting = state.betting
        if len(state.cards) < self.num_own * self.num_players:
            return CHANCE
        if betting.player != NOBODY:
            return betting.player
        alone = betting.folded.count(False) == 1
        is_last = len(state.history) == len(self.board_sizes)
        return TERMINAL if alone or is_last else CHANCE

    def chance_outcomes(self, state: Hand) -> list[tuple[int, float]]:
        chance = 1 / (self.num_cards - len(state.cards))
        return [(c, chance) for c in range(self.num_cards) if c not in state.cards]

    def legal_actions(self, state: Hand) -> Sequence[int]:
        if self.current_player(state) < 0:
            return ()
        betting = state.betting
        first = FOLD if betting.owed else CALL
        return range(first, RAISE + (betting.num_raises < self.max_raises))

    def apply(self, state: Hand, action: int) -> Hand:
        cards, betting, history = state
        num_dealt = self.num_own * self.num_players
        if len(cards) < num_dealt:
            return Hand((*cards, action), betting, history)
        if betting.player == NOBODY:
            cards = (*cards, action)
            if len(cards) - num_dealt == self.board_sizes[len(history)]:
                betting = new_round(betting.paid, betting.folded, 0)
                history = (*history, ())
            return Hand(cards, betting, history)
        *past, now = history
        now = (*now, (betting.player, action))
        return Hand(
            cards, act(betting, action, self.raise_size(len(past))), (*past, now)
        )

    def seen(self, state: Hand, seat: int) -> list[bool]:
        """The seats whose cards a seat sees: its own, and at a showdown all that did not fold."""
        folded = state.betting.folded
        over = self.current_player(state) == TERMINAL
        showdown = over and folded.count(False) > 1
        return [s == seat or (showdown and not out) for s, out in enumerate(folded)]

    def visible(self, state: Hand, seat: int) -> tuple[Any, Any]:
        """The hands that a seat sees, and the public cards."""
        raise NotImplementedError

    def information_state(self, state: Hand, seat: int) -> Hashable:
        return (seat, *self.visible(state, seat), state.history)

    def betting_text(
        self,
        state: Hand,
        seat: int,
        rounds: Sequence[str],
        others: Sequence[str | None],
    ) -> str:
        """The actions by round, the pot, cards that others show, and the seat to move."""
        lines = [*map(round_text, rounds, state.history), pot_text(state.betting)]
        visible_hands = by_player(
            (s, hand) for s, hand in enumerate(others) if hand and s != seat
        )
        lines += [f"Shown: {visible_hands}."] if visible_hands else []
        player, returns = self.current_player(state), self.returns(state)
        lines.append(turn_text(player, seat, state.betting, returns))
        return "\n".join(lines)

    def encoded(
        self, state: Hand, seat: int, ones: Sequence[int], start: int
    ) -> Vector:
        """Features: ones at some places, then one-hot whose turn it is, chips and actions.

        Turns, or nobody's, begin at `start`. Chips are shares of the most that a seat can pay.
        Actions are one-hot by round, seat and turn of the seat in that round. Seats go from the
        own one on.
        """
        n, player = self.num_players, self.current_player(state)
        turn, chips = n if player < 0 else (player - seat) % n, start + n + 1
        first = chips + n
        places = action_places(state.history, seat, n, self.max_raises)
        size = first + len(self.board_sizes) * n * (self.max_raises + 1) * 3
        values = np.zeros(size, np.float32)
        values[[*ones, start + turn, *(first + place for place in places)]] = 1
        chips_from_seat = (*state.betting.paid[seat:], *state.betting.paid[:seat])
        values[chips:first] = [amount / self.max_paid for amount in chips_from_seat]
        return values

    def action_text(self, state: Hand, action: int) -> str:
        return NAMES[action]

    def parse(self: Any, state: Hand, text: str) -> Any:
        """Reads "check" and "bet" as well, where there is nothing to pay."""
        word, betting = fold(text), state.betting
        if betting.player != NOBODY:
            if word == "check" and not betting.owed:
                word = NAMES[CALL]
            if word == "bet" and not betting.num_raises:
                word = NAMES[RAISE]
        return BaseGame.parse(self, state, word)

    def resample(self, state: Hand, seat: int, rng: random.Random) -> Hand:
        """Deals the hidden hands again, uniformly, from the cards this seat cannot see."""
        n, visible_seats = self.num_players, self.seen(state, seat)
        visible = [
            i >= self.num_own * n or visible_seats[i % n]
            for i in range(len(state.cards))
        ]
        held = {c for c, is_known in zip(state.cards, visible, strict=True) if is_known}
        unseen = [card for card in range(self.num_cards) if card not in held]
        rng.shuffle(unseen)
        cards = (
            card if is_known else unseen.pop()
            for card, is_known in zip(state.cards, visible, strict=True)
        )
        return state._replace(cards=tuple(cards))
