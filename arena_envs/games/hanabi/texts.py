"""Texts of Hanabi."""

from functools import partial
from operator import getitem

from arena_envs.game import CHANCE, TERMINAL, counted
from arena_envs.games.hanabi.state import (
    COLORS,
    NO_TURN,
    Pieces,
    Setup,
    State,
    Turn,
    latest,
)


class Texts:
    """The texts of one setting; most lines are made once."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        seats, cards = range(setup.num_players), range(len(setup.copies))
        slots = range(setup.cards_per_hand)
        self._fireworks = Pieces(self._write_fireworks)
        self._discards = [
            Pieces(partial(self._write_discards, color))
            for color in COLORS[: setup.num_colors]
        ]
        self._own = [Pieces(partial(self._write_own, slot)) for slot in slots]
        self._titles = [
            f"Cards of player_{seat} (as far as player_{seat} knows):" for seat in seats
        ]
        self._cards = [
            [Pieces(partial(self._write_card, slot, card)) for card in cards]
            for slot in slots
        ]
        self._news = [Pieces(partial(self._write_news, seat)) for seat in seats]

    def observation(self, state: State, seat: int) -> str:
        """The table, all hands but the own one, hints, and the latest turns."""
        _, _, size, hands, hints, tops, discards, tokens, lives, left, _ = state
        end = "" if size else f" Turns left: {left}."
        cards = ", ".join(filter(None, map(getitem, self._discards, discards)))
        lines = [
            f"You are player_{seat}. {self._turn(state, seat)} Life tokens: {lives}. "
            f"Information tokens: {tokens}. Deck: {size}.{end}",
            self._fireworks[tops],
            f"Discards: {cards or 'none'}.",
            "Your cards, as far as you know:",
        ]
        lines += map(getitem, self._own, hints[seat])
        others = self._setup.others[seat]
        for other in others:
            lines.append(self._titles[other])
            cards_seen = map(getitem, self._cards, hands[other])
            lines += map(getitem, cards_seen, hints[other])
        turns = zip(others, latest(state, seat), strict=True)
        news = [self._news[who][turn] for who, turn in turns if turn is not NO_TURN]
        if news:
            lines += ["Since your last turn:", *news]
        return "\n".join(lines)

    def _turn(self, state: State, seat: int) -> str:
        """The seat to move, or the score."""
        if state.player == seat:
            return "You are to move."
        if state.player == CHANCE:
            return "A card is being drawn."
        if state.player != TERMINAL:
            return f"player_{state.player} is to move."
        score = sum(state.fireworks) if state.life_tokens else 0
        return f"The game is over: the score is {score}."

    def action(self, seat: int, action: int) -> str:
        """Canonical text of an action of this seat."""
        verb, where, bit = self._setup.moves[action]
        if verb != "reveal":
            return f"{verb} {where}"
        value, first_rank = bit.bit_length() - 1, self._setup.num_colors
        is_color = value < first_rank
        name = COLORS[value] if is_color else f"rank {value - first_rank + 1}"
        return f"reveal {name} to player_{(seat + where) % self._setup.num_players}"

    def rules(self, seat: int) -> str:
        """The rules of the game, with examples of actions of this seat."""
        setup = self._setup
        told = f"player_{(seat + 1) % setup.num_players}"
        per_color = enumerate(setup.copies[: setup.num_ranks], start=1)
        copies = ", ".join(f"{num} of rank {rank}" for rank, num in per_color)
        colors = "color is" if setup.num_colors == 1 else "colors are"
        hand = counted(setup.cards_per_hand, "card")
        lives = counted(setup.max_life_tokens, "life token")
        tokens = counted(setup.max_information_tokens, "information token")
        return (
            f"This is Hanabi, a cooperative card game with {setup.num_players} players. The "
            f"{colors} {', '.join(COLORS[: setup.num_colors])}; in each color, the deck has "
            f"{copies}. Each player holds {hand}, numbered from 0, and "
            "sees the cards of the others but not their own. Together you build a firework in "
            "each color, one card of each rank, from rank 1 upwards. In turn, from player_0 "
            'on, each player does one of three things. "play 0" plays your card 0: if it has '
            "the next rank of its color's firework, it is added there, otherwise it is "
            'discarded and you all lose a life token. "discard 0" discards your card 0 and '
            "regains an information token; this is not allowed while none is missing. "
            f'"reveal {COLORS[0]} to {told}" or "reveal rank 1 to {told}" costs an '
            f"information token and points out all cards of {told} that have this color or "
            "rank, of which there must be at least one. Completing a firework regains an "
            "information token, too, if one is missing. Life tokens are never regained. When "
            "a card leaves a hand, the cards behind it move down by one number and a new card "
            "is drawn as the last, until the deck is empty. All of you together start with "
            f"{lives} and {tokens}, the most that you can have. The game ends when all fireworks "
            "are complete, when no life token is left, or when each player has had one more "
            "turn after the last card was drawn. The score of everybody is the number of "
            "cards in the fireworks, or 0 if no life token is left."
        )

    def _write_fireworks(self, tops: bytes) -> str:
        pairs = zip(COLORS, tops, strict=False)
        return f"Fireworks: {', '.join(f'{color} {top}' for color, top in pairs)}."

    def _write_discards(self, color: str, row: bytes) -> str:
        copies = enumerate(row, start=1)
        return ", ".join(f"{color} {rank}" for rank, num in copies for _ in range(num))

    def _write_own(self, slot: int, hint: int) -> str:
        return f"{slot}: {self._hint(hint)}"

    def _write_card(self, slot: int, card: int, hint: int) -> str:
        return f"{slot}: {self._card(card)} ({self._hint(hint)})"

    def _write_news(self, seat: int, turn: Turn) -> str:
        """A turn as the others read it."""
        played = f"player_{seat}: {self.action(seat, turn.action)}"
        verb = self._setup.moves[turn.action].verb
        if verb == "reveal":
            every = range(self._setup.cards_per_hand)
            slots = [str(slot) for slot in every if turn.touched >> slot & 1]
            cards = "card" if len(slots) == 1 else "cards"
            return f"{played} ({cards} {', '.join(slots)})"
        how = {"discard": "", "play": ", added" if turn.scored else ", life lost"}[verb]
        return f"{played} ({self._card(turn.card)}{how})"

    def _card(self, card: int) -> str:
        color, rank = divmod(card, self._setup.num_ranks)
        return f"{COLORS[color]} {rank + 1}"

    def _hint(self, hint: int) -> str:
        """Possible colors and ranks, such as "red/blue, rank 1"."""
        num_colors, num_ranks = self._setup.num_colors, self._setup.num_ranks
        colors = [COLORS[c] for c in range(num_colors) if hint >> c & 1]
        ranks = [str(r + 1) for r in range(num_ranks) if hint >> num_colors + r & 1]
        color = "any color" if len(colors) == num_colors else "/".join(colors)
        rank = "any rank" if len(ranks) == num_ranks else f"rank {'/'.join(ranks)}"
        return f"{color}, {rank}"
