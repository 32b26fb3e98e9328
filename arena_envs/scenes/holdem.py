"""The scene of limit hold'em."""

from typing import Any

from arena_envs.games.limit_holdem import CARDS, ROUNDS, LimitHoldem, State
from arena_envs.scenes.poker import betting_shapes
from arena_envs.scenes.registry import turn_title
from arena_envs.scenes.shapes import Card, Cards, Scene

SUITS = {"c": "green", "d": "blue", "h": "red", "s": "dark"}


def limit_holdem(game: LimitHoldem, state: State, viewer: int | None) -> Scene:
    """The hands, the board, the rounds and the chips."""
    num, cards = game.num_players, state.cards
    hands: Any = [cards[seat : 2 * num : num] for seat in range(num)]
    sizes = list(map(len, hands))
    if viewer is not None:
        key: Any = game.information_state(state, viewer)
        hands = key[1]
    shown = [
        Cards(
            f"player_{seat}",
            [_card(card) for card in sorted(hand, reverse=True)]
            or [Card(None)] * sizes[seat],
            seat,
        )
        for seat, hand in enumerate(hands)
    ]
    board = Cards("board", [_card(card) for card in cards[2 * num :]])
    rounds = betting_shapes(
        state.betting, [name.lower() for name in ROUNDS], state.history
    )
    return Scene(turn_title(game, state, viewer), [*shown, board, *rounds])


def _card(card: int) -> Card:
    name = CARDS[card]
    return Card(name, SUITS[name[1]])
