"""The scene of Hanabi."""

from typing import Any

from arena_envs.games.hanabi import Hanabi
from arena_envs.games.hanabi.state import COLORS, NO_TURN, State
from arena_envs.scenes.shapes import (
    Card,
    Cards,
    Cell,
    Scene,
    Table,
    Track,
    seat_tone,
    turn_title,
)

MAX_ACTIONS = 8  # latest actions that are shown


def scene(game: Hanabi, state: State, viewer: int | None) -> Scene:
    """Fireworks, tokens, hands with the known hints, discards and the latest actions."""
    ends = zip(COLORS, state.fireworks, strict=False)
    fireworks = [Card(_name(color, height), color) for color, height in ends]
    tokens = [
        Cell(f"{state.life_tokens} of {game.max_life_tokens}"),
        Cell(f"{state.information_tokens} of {game.max_information_tokens}"),
        Cell(str(state.deck_size)),
    ]
    table = Table("", ("lives", "information tokens", "deck"), [tokens])
    hands = [
        Cards(
            f"player_{seat}; below: what it knows",
            [
                _card(game, None if seat == viewer else card, hint)
                for card, hint in zip(hand, state.hints[seat], strict=True)
            ],
            seat,
        )
        for seat, hand in enumerate(state.hands)
    ]
    below = [_discards(game, state), _latest(game, state)]
    shapes = [table, Cards("fireworks", fireworks), *hands, *below]
    return Scene(turn_title(game, state, viewer), shapes)


def _card(game: Hanabi, card: int | None, hint: int) -> Card:
    colors = [i for i in range(game.num_colors) if hint >> i & 1]
    ranks = [i for i in range(game.num_ranks) if hint >> game.num_colors + i & 1]
    known = [
        "any color"
        if len(colors) == game.num_colors
        else "/".join(COLORS[color][0].upper() for color in colors)
        if len(colors) > 1
        else COLORS[colors[0]],
        "any rank"
        if len(ranks) == game.num_ranks
        else "/".join(str(rank + 1) for rank in ranks),
    ]
    note = "\n".join(known)
    if card is None:
        return Card(None, note=note)
    color, rank = divmod(card, game.num_ranks)
    return Card(_name(COLORS[color], rank + 1), COLORS[color], note)


def _name(color: str, rank: int) -> str:
    """A card in two characters, such as "R1", for those who cannot see its color."""
    return f"{color[0].upper()}{rank}"


def _discards(game: Hanabi, state: State) -> Any:
    items = [
        Cell(_name(color, rank + 1), color)
        for color, row in zip(COLORS, state.discards, strict=False)
        for rank, copies in enumerate(row)
        for _ in range(copies)
    ]
    return Track("discards", items)


def _latest(game: Hanabi, state: State) -> Any:
    """The latest actions, with the card that left a hand, which everybody saw."""
    first = max(0, len(state.history) - MAX_ACTIONS)
    items = []
    for number, turn in enumerate(state.history[first:], first):
        if turn == NO_TURN:
            continue
        seat = number % game.num_players
        text = game.texts.action(seat, turn.action)
        if turn.card >= 0:
            color, rank = divmod(turn.card, game.num_ranks)
            text += f" ({COLORS[color]} {rank + 1})"
        items.append(Cell(text, seat_tone(seat)))
    return Track("latest actions", items)
