"""Pictures of games for the gallery: a position in the middle of an episode."""

import re
from collections.abc import Sequence
from functools import lru_cache, partial

import arena_envs
from arena_envs.game import AnyGame
from arena_envs.scenes import Cards, Grid, Scene, scene_of, svg
from arena_envs.scenes.shapes import Shapes
from arena_envs.scenes.svg import surfaces_css
from arena_studio.web.games import CACHE_SIZE, game_named, listed
from arena_wrappers import PromptWrapper, make_policy, play, turn_states


@lru_cache(CACHE_SIZE)
def picture_of(id: str) -> str:
    """The picture of a game as SVG, on the paper that the reader prefers.

    Raises:
        Refused: there is no such game.
    """
    scene = middle_scene(id, game_named(id))
    dark = f"@media (prefers-color-scheme: dark){{{surfaces_css(dark=True)}}}</style>"
    picture = svg(Scene("", _in_front(scene.shapes))).replace("</style>", dark, 1)
    names = listed()[id]["names"]
    return re.sub(r"\bplayer_(\d+)", lambda match: names[int(match[1])], picture)


def _in_front(shapes: Shapes) -> Shapes:
    """What a small picture shows: the board, or cards, or the first shapes."""
    if grids := [shape for shape in shapes if isinstance(shape, Grid)]:
        return [grids[-1]._replace(title="")]
    cards: Sequence[Cards] = [
        shape for shape in shapes if isinstance(shape, Cards) and shape.cards
    ]
    return cards[:3] or shapes[:2]


def middle_scene(id: str, game: AnyGame) -> Scene:
    """A position in the middle of an episode as the player to move sees it."""
    players = [game.heuristic or "random"] * game.num_players
    env = partial(PromptWrapper, arena_envs.make(id))
    episode = play(env, [make_policy(player) for player in players], seeds=[3])[0]
    states = turn_states(episode, game)
    middle = len(states) // 2
    return scene_of(game, states[middle], episode.turns[middle].seat)
