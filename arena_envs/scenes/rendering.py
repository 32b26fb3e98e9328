"""Renders a state as text, pixels or output, for `GameEnv.render`."""

import importlib
import io
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena_envs.checks import check_render_mode
from arena_envs.game import (
    AnyGame,
    AnyState,
)
from arena_envs.hostile import printable
from arena_envs.scenes.shapes import scene_of
from arena_envs.scenes.svg import drawing_of, svg_of
from arena_envs.scenes.text import text_of

SIDE = 640  # pixels; all frames of a video have one size


def rendered(
    game: AnyGame, state: AnyState, viewer: int, mode: str | None
) -> str | NDArray[np.uint8] | None:
    """A state as a seat sees it.

    Returns:
        A text for `"ansi"` and None; uint8[640, 640, 3] for `"rgb_array"`; None for `"human"`,
        which prints the text.
    """
    scene = scene_of(game, state, viewer)
    if mode == "rgb_array":
        return pixels(svg_of(drawing_of(scene), width=SIDE, height=SIDE))
    text = text_of(scene)
    if mode == "human":
        sys.stdout.write(f"{printable(text)}\n")
        return None
    return text


def pixels(svg: str) -> NDArray[np.uint8]:
    """uint8[height, width, 3]: the pixels of an SVG file.

    Raises:
        ModuleNotFoundError: the extra `render` is not installed.
    """
    check_render_mode("rgb_array")
    resvg: Any = importlib.import_module("resvg_py")
    image: Any = importlib.import_module("PIL.Image")
    png = resvg.svg_to_bytes(svg_string=svg)
    with image.open(io.BytesIO(png)) as opened:
        return np.asarray(opened.convert("RGB"), dtype=np.uint8)
