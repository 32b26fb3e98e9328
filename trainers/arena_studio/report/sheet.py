"""The scenes of an episode as one SVG file."""

from arena_envs.scenes import Scene
from arena_envs.scenes.svg import Drawing, css, drawing_of
from arena_studio.report.episodes import ending_text, is_hidden, parsed_part
from arena_studio.report.frames import frames_of
from arena_wrappers import Episode, Turn

NUM_COLUMNS, GAP = 3, 16
MAX_CAPTION = 40  # characters


def sheet(episode: Episode, viewer: str = "all") -> str:
    """The scenes of an episode as the text of an SVG file.

    Args:
        episode: the record.
        viewer: who looks: `"all"`, or an agent such as `"player_0"`, who reads no replies of
            other seats.

    Raises:
        ValueError: the episode has no such agent, or cannot be replayed.
    """
    frames = frames_of(episode)
    if frames.fault:
        raise ValueError(f"the episode cannot be replayed: {frames.fault}")
    if viewer not in frames.viewers:
        raise ValueError(
            f"want a viewer of {', '.join(frames.viewers)}, got {viewer!r}"
        )
    place = frames.viewers.index(viewer)
    captions = [
        _caption(episode, i, turn, viewer) for i, turn in enumerate(episode.turns)
    ]
    captions.append(f"end: {ending_text(episode)}")
    drawings = [
        drawing_of(Scene(caption, scenes[place].shapes))
        for caption, scenes in zip(captions, frames.scenes, strict=True)
    ]
    return _tiled(drawings)


def _caption(episode: Episode, number: int, turn: Turn, viewer: str) -> str:
    """The policy and the reply of a turn, unless the viewer may not know them."""
    name = f"player_{turn.seat}"
    if is_hidden(turn, viewer):
        return f"{number}: {name}"
    start, end = parsed_part(episode, turn) or (0, len(turn.reply))
    reply = " ".join(turn.reply[start:end].split())
    if len(reply) > MAX_CAPTION:
        reply = f"{reply[: MAX_CAPTION - 3]}..."
    return f"{number}: {name} {reply}"


def _tiled(drawings: list[Drawing]) -> str:
    """Drawings in rows of equal columns."""
    column = max(drawing.width for drawing in drawings) + GAP
    elements, y = [], 0.0
    for first in range(0, len(drawings), NUM_COLUMNS):
        row = drawings[first : first + NUM_COLUMNS]
        for number, drawing in enumerate(row):
            elements += [
                f'<g transform="translate({number * column:g},{y:g})">',
                *drawing.elements,
                "</g>",
            ]
        y += max(drawing.height for drawing in row) + GAP
    width = column * min(len(drawings), NUM_COLUMNS)
    size = f'width="{width:g}" height="{y:g}" viewBox="0 0 {width:g} {y:g}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size}>',
            f"<style>{css()}</style>",
            f'<rect width="{width:g}" height="{y:g}" class="f-paper"/>',
            *elements,
            "</svg>\n",
        ]
    )
