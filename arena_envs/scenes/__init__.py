"""Pictures of states: what a viewer sees, as SVG and as text.

    from arena_envs.scenes import scene_of, svg, text_of

    svg(scene_of(game, state, viewer=0))  # without what is hidden from player_0
    text_of(scene_of(game, state))        # everything

The function `scene` of a game's module draws it, or another that the game declares:
`scene = "module:function"`. The function takes the game, a state, and the seat that looks or None
for a viewer who sees everything. It returns shapes of `arena_envs.scenes.shapes`, or a `Scene`
with a title of its own. It shows only what the seat may know, so it reads
`Game.information_state` where something is hidden.
"""

from arena_envs.scenes.shapes import Bubble as Bubble
from arena_envs.scenes.shapes import Card as Card
from arena_envs.scenes.shapes import Cards as Cards
from arena_envs.scenes.shapes import Cell as Cell
from arena_envs.scenes.shapes import Grid as Grid
from arena_envs.scenes.shapes import Scene as Scene
from arena_envs.scenes.shapes import Table as Table
from arena_envs.scenes.shapes import Talk as Talk
from arena_envs.scenes.shapes import Track as Track
from arena_envs.scenes.shapes import scene_of as scene_of
from arena_envs.scenes.svg import svg as svg
from arena_envs.scenes.text import text_of as text_of
