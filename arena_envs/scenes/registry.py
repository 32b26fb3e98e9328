"""Which function draws which game."""

import importlib
from collections.abc import Callable
from typing import Any

from arena_envs.game import CHANCE, TERMINAL, AnyGame
from arena_envs.scenes.shapes import Scene, Talk, Utterance

SceneFunction = Callable[[Any, Any, int | None], Scene]

_scenes: dict[str, str] = {}  # "module:function", by "module:Class"


def add_scene(game: str, scene: str) -> None:
    """Makes a function known that draws the states of a class of games.

    Args:
        game: `"module:Class"` of the game.
        scene: `"module:function"`, imported when first used. It takes the game, a state, and
            the seat that looks or None for a viewer who sees everything; it returns a
            `Scene`.

    Raises:
        ValueError: the game has another function already.
    """
    if _scenes.setdefault(game, scene) != scene:
        raise ValueError(
            f"game {game!r} has the scene {_scenes[game]!r}, got {scene!r}"
        )


def scene_of(game: AnyGame, state: Any, viewer: int | None = None) -> Scene:
    """The picture of a state.

    Args:
        game: the rules; a game without a scene of its own gets what `observe` returns.
        state: any state of the game.
        viewer: a seat, which sees only what it may know; None for a viewer who sees all.

    Raises:
        ValueError: `viewer` is no seat of the game.
    """
    if viewer is not None and viewer not in range(game.num_players):
        raise ValueError(
            f"want a viewer from 0 to {game.num_players - 1} or None, got {viewer!r}"
        )
    named = _scenes.get(f"{type(game).__module__}:{type(game).__qualname__}")
    if named is None:
        return observed(game, state, viewer)
    module, _, function = named.partition(":")
    draw: SceneFunction = getattr(importlib.import_module(module), function)
    return draw(game, state, viewer)


def observed(game: AnyGame, state: Any, viewer: int | None) -> Scene:
    """The scene of a game that has none of its own: the texts of its seats."""
    seats = range(game.num_players) if viewer is None else (viewer,)
    said = [
        Utterance(None, game.observe(state, seat), audience=f"player_{seat}")
        for seat in seats
    ]
    return Scene(turn_title(game, state, viewer), (Talk("", said),))


def turn_title(game: AnyGame, state: Any, viewer: int | None) -> str:
    """Whose turn it is, or how the game ended.

    Args:
        game: the rules.
        state: any state of the game.
        viewer: a seat, which sees its own return only where information is imperfect; or
            None.
    """
    player = game.current_player(state)
    if player == CHANCE:
        return "Chance draws."
    if player == TERMINAL:
        returns = enumerate(game.returns(state))
        ends = [
            f"player_{seat} {value:+.4g}"
            for seat, value in returns
            if viewer in (None, seat) or game.information == "perfect"
        ]
        return f"The game is over: {', '.join(ends)}."
    if game.simultaneous:
        return "All players choose."
    return f"player_{player} is to move."
