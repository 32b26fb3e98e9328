"""Scenes of games about trade: negotiation and persuasion."""

from typing import Any

from arena_envs.games._negotiation_texts import ROLES
from arena_envs.games._talk import Utterance as Said
from arena_envs.games._talk import money
from arena_envs.games.negotiation import Negotiation
from arena_envs.games.negotiation import State as NegotiationState
from arena_envs.games.persuasion import Persuasion
from arena_envs.games.persuasion import State as PersuasionState
from arena_envs.scenes.registry import turn_title
from arena_envs.scenes.shapes import Cell, Scene, Table, Track
from arena_envs.scenes.words import talk_of


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
