"""Pictures of states: what a viewer sees, as SVG and as text.

    from arena_envs.scenes import scene_of, svg, text_of

    svg(scene_of(game, state, viewer=0))  # without what is hidden from player_0
    text_of(scene_of(game, state))        # everything

The rules of a game know nothing of pictures. Each game has a function in a module of this
package, which `arena_envs.catalogue` names beside the game. The function of a seat shows only
what the seat may know, so it reads `Game.information_state` where something is hidden.
"""

from arena_envs.scenes.registry import add_scene, scene_of
from arena_envs.scenes.shapes import (
    Card,
    Cards,
    Cell,
    Grid,
    Scene,
    Table,
    Talk,
    Track,
    Utterance,
)
from arena_envs.scenes.svg import svg
from arena_envs.scenes.text import text_of

__all__ = [
    "Card",
    "Cards",
    "Cell",
    "Grid",
    "Scene",
    "Table",
    "Talk",
    "Track",
    "Utterance",
    "add_scene",
    "scene_of",
    "svg",
    "text_of",
]
