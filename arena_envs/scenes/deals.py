"""Scenes of games about trade: auction, negotiation and persuasion."""

from typing import Any

from arena_envs.games import _auction_texts
from arena_envs.games._auction_state import NOBODY, TALK, known_events, left
from arena_envs.games._auction_state import State as AuctionState
from arena_envs.games._negotiation_texts import ROLES
from arena_envs.games._talk import Utterance as Said
from arena_envs.games._talk import money
from arena_envs.games.auction import Auction
from arena_envs.games.negotiation import Negotiation
from arena_envs.games.negotiation import State as NegotiationState
from arena_envs.games.persuasion import BUYER, LOW, SELLER, Persuasion
from arena_envs.games.persuasion import State as PersuasionState
from arena_envs.scenes.registry import turn_title
from arena_envs.scenes.shapes import Cell, Scene, Table, Track, seat_tone
from arena_envs.scenes.words import talk_of


def auction(game: Auction, state: AuctionState, viewer: int | None) -> Scene:
    """The items and their sales, the players as far as the viewer knows them, and the talk."""
    items = []
    for number, item in enumerate(game.items):
        sale = "for sale" if number == state.item else ""
        if number < state.item:
            seat, price = state.sales[number]
            sale = f"player_{seat} for {price}" if seat != NOBODY else "not sold"
        fields = (f"item {number + 1}", _auction_texts.points(item), sale)
        items.append([Cell(field) for field in fields])
    players = []
    for seat, persona in enumerate(state.personas):
        worth = "hidden"
        if viewer in (None, seat):
            values = [game.value(state, seat, number) for number in range(len(items))]
            worth = ", ".join(map(str, values))
            worth = f"{worth} ({_auction_texts.points(game.personas[persona])})"
        money = str(left(state, seat, game.budget))
        tone = seat_tone(seat)
        players.append([Cell(f"player_{seat}", tone), Cell(worth), Cell(money)])
    shapes: list[Any] = [
        Table("items", ("item", "points", "sale"), items),
        Table("players", ("seat", "worth of the items", "budget left"), players),
    ]
    events = state.past if viewer is None else known_events(state, viewer)
    shown = [each for each in events if each.phase != TALK or each.said.message]

    def told(turn: int, said: Said) -> str:
        amount = f" {said.values[0]}" if said.values else ""
        does = "speaks" if said.message else f"{said.move}s{amount}"
        return f"{does} (item {shown[turn].item + 1})"

    said = [each.said for each in shown]
    shapes += talk_of(said, viewer, lambda turn: shown[turn].seat, told)
    return Scene(turn_title(game, state, viewer), shapes)


def negotiation(
    game: Negotiation, state: NegotiationState, viewer: int | None
) -> Scene:
    """What the product is worth to whom, and the talk."""
    rows = []
    for seat in range(len(state.factors)):
        is_shown = viewer in (None, seat) or game.complete_information
        worth = money(game.value(state, seat)) if is_shown else "hidden"
        row = (f"player_{seat}, the {ROLES[seat]}", worth)
        rows.append([Cell(row[0], f"seat{seat}"), Cell(row[1])])
    shapes: list[Any] = [Table("a product", ("seat", "its worth"), rows)]

    def told(turn: int, said: Said) -> str:
        does = (
            f"offers a price of {money(said.values[0])}"
            if said.values
            else f"{said.move}s"
        )
        return f"{does} (round {turn // 2 + 1})"

    shapes += talk_of(state.said, viewer, lambda turn: (turn + 1) // 2 % 2, told)
    return Scene(turn_title(game, state, viewer), shapes)


def persuasion(game: Persuasion, state: PersuasionState, viewer: int | None) -> Scene:
    """The products so far, as far as the viewer knows their quality, and the talk."""
    if game.myopic and viewer == BUYER:
        return _myopic(game, state)
    known = state.qualities if viewer is None else game.known_qualities(state, viewer)
    cells = [
        Cell(quality or "hidden", "green" if state.is_bought(number) else "")
        for number, quality in enumerate(known)
    ]
    shapes: list[Any] = [Track("products; those that are bought are green", cells)]

    def told(turn: int, said: Said) -> str:
        return f"{said.move}s (round {turn // 2 + 1})"

    shapes += talk_of(state.said, viewer, lambda turn: turn % 2, told)
    return Scene(turn_title(game, state, viewer), shapes)


def _myopic(game: Persuasion, state: PersuasionState) -> Scene:
    """What a buyer sees that knows numbers of the past alone, and the advice of its round."""
    number = len(state.said) // 2
    bought = [state.qualities[n] for n in range(number) if state.is_bought(n)]
    counts = (number, len(bought), bought.count(LOW))
    header = ("products before", "bought", "bought, of low quality")
    shapes: list[Any] = [Table("past", header, [[Cell(str(n)) for n in counts]])]
    advice = state.said[2 * number :]
    shapes += talk_of(
        advice,
        BUYER,
        lambda turn: SELLER,
        lambda turn, said: f"{said.move}s (round {number + 1})",
    )
    return Scene(turn_title(game, state, BUYER), shapes)
