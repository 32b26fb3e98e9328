"""A player of Hanabi that follows a simple convention."""

import random
from dataclasses import dataclass
from typing import Any

from arena_envs.game import AnyGame


@dataclass(frozen=True)
class HanabiConvention:
    """Plays a playable card, else hints at one, else discards.

    In this order:

    1. Play a card that is playable whatever it is, by its hints and the cards in sight.
    2. Give a new hint about a playable card to the next player who holds one: first a hint
       that makes it known as playable, then one that touches the fewest cards.
    3. Discard a card that is known to be useless, else the oldest.
    4. If discarding is not allowed, give any hint; without tokens, play any card.

    Ties are broken at random. The bot knows what its seat sees: hints, fireworks, the hands
    of the others, and so the cards of the deck and its own hand together.

    Raises:
        ValueError: when it plays, the game is not Hanabi.
    """

    def __call__(self, game: AnyGame, state: Any, rng: random.Random) -> Any:
        if not hasattr(game, "card_bits") or not hasattr(state, "fireworks"):
            raise ValueError(f"want Hanabi, got {game!r}")
        view = _View(game, state)
        legal = game.legal_actions(state)
        for actions in (view.plays(), view.hints(), view.discards()):
            allowed = [action for action in actions if action in legal]
            if allowed:
                return rng.choice(allowed)
        verb = "reveal" if state.information_tokens else "play"
        return rng.choice([action for action in legal if view.verb(action) == verb])


class _View:
    """The view of the seat to move."""

    def __init__(self, game: Any, state: Any) -> None:
        self.game = game
        self.state = state
        self.seat: int = state.player
        self.cards = range(len(game.copies))
        # the deck and the own hand together are what is not in sight
        self.unseen = list(state.deck)
        for card in state.hands[self.seat]:
            self.unseen[card] += 1

    def plays(self) -> list[int]:
        """Cards that fit for sure."""
        return [
            self._action("play", slot)
            for slot, hint in enumerate(self.state.hints[self.seat])
            if self._fits_for_sure(hint, self.unseen)
        ]

    def hints(self) -> list[int]:
        """News for the next player who holds a card that fits and may not know it."""
        if not self.state.information_tokens:
            return []
        for offset in range(1, self.game.num_players):
            options = self._hints_for(offset)
            if options:
                best = max(option[:2] for option in options)
                return sorted({action for *rank, action in options if (*rank,) == best})
        return []

    def discards(self) -> list[int]:
        """Cards that are useless for sure, else the oldest."""
        return [
            self._action("discard", slot)
            for slot, hint in enumerate(self.state.hints[self.seat])
            if not any(self._may_be_used(card) for card in self._possible(hint))
        ] or [self._action("discard", 0)]

    def verb(self, action: int) -> str:
        """The verb of an action: "play", "discard" or "reveal"."""
        verb: str = self.game.moves[action][0]
        return verb

    def _hints_for(self, offset: int) -> list[tuple[bool, int, int]]:
        """Whether a card is known to fit then, minus the cards touched, and the action."""
        game, state = self.game, self.state
        target = (self.seat + offset) % game.num_players
        hand, hints = state.hands[target], state.hints[target]
        colors = (1 << game.num_colors) - 1
        options = []
        for action, (verb, where, bit) in enumerate(game.moves):
            if verb != "reveal" or where != offset:
                continue
            kind = colors if bit & colors else ~colors
            touched = sum(bool(game.card_bits[card] & bit) for card in hand)
            for card, hint in zip(hand, hints, strict=True):
                told = hint & (bit | ~kind)
                is_news = game.card_bits[card] & bit and told != hint
                if is_news and self._fits(card) and not self._fits_for_sure(hint):
                    options.append((self._fits_for_sure(told), -touched, action))
        return options

    def _possible(self, hint: int, unseen: Any = None) -> list[int]:
        bits = self.game.card_bits
        left = self.unseen if unseen is None else unseen
        return [c for c in self.cards if bits[c] & hint == bits[c] and left[c] > 0]

    def _fits_for_sure(self, hint: int, unseen: Any = None) -> bool:
        """Judges by the hint and, for the own cards, by the cards that are not in sight."""
        everything = self.game.copies if unseen is None else unseen
        return all(map(self._fits, self._possible(hint, everything)))

    def _fits(self, card: int) -> bool:
        color, rank = divmod(card, self.game.num_ranks)
        return bool(self.state.fireworks[color] == rank)

    def _may_be_used(self, card: int) -> bool:
        color, rank = divmod(card, self.game.num_ranks)
        return bool(self.state.fireworks[color] <= rank)

    def _action(self, verb: str, slot: int) -> int:
        return int(self.game.moves.index((verb, slot, 0)))
