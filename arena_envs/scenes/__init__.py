"""Pictures of states: what a viewer sees, as SVG and as text.

    from arena_envs.scenes import scene_of, svg, text_of

    svg(scene_of(game, state, viewer=0))  # without what is hidden from player_0
    text_of(scene_of(game, state))        # everything

The function `scene` of a game's module draws it, or another that the game declares:
`scene = "module:function"`. The function takes the game, a state, and the seat that looks or None
for a viewer who sees everything. It returns a `Scene`, made of the shapes of
`arena_envs.scenes.shapes`, and shows only what the seat may know, so it reads
`Game.information_state` where something is hidden.
"""

from arena_envs.scenes.shapes import (
    Bubble,
    Card,
    Cards,
    Cell,
    Grid,
    Scene,
    Table,
    Talk,
    Track,
    scene_of,
)
from arena_envs.scenes.svg import svg
from arena_envs.scenes.text import text_of

__all__ = [
    "Bubble",
    "Card",
    "Cards",
    "Cell",
    "Grid",
    "Scene",
    "Table",
    "Talk",
    "Track",
    "scene_of",
    "svg",
    "text_of",
]
