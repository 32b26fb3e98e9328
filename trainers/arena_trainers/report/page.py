"""The content of a page of replays, as JSON that is compressed into the page.

Writes pages: one HTML file without links to anything else.

The page runs no code but our script: its content security policy names the hash of the script
and of the style sheet. What players wrote comes as compressed data, and the script shows it as
text.

An episode as one SVG file: its scenes side by side, in rows.
"""

import base64
import gzip
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any

from arena_envs.scenes import Scene
from arena_envs.scenes.svg import Drawing, css, drawing_of, surfaces_css
from arena_trainers.data import TurnCredit
from arena_trainers.evaluate.move_values import MoveSolver, MoveValues
from arena_trainers.extras import import_extra
from arena_trainers.report.episodes import (
    BadLine,
    Recorded,
    frames_of,
    is_hidden,
    outcome_of,
    parsed_part,
    policies_of,
    seats_of,
)
from arena_trainers.report.values import estimates_of
from arena_wrappers import Episode, Turn
from arena_wrappers.records import write_whole


class Interned:
    """Values that are stored once, each with its number."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self._numbers: dict[Any, int] = {}

    def __call__(self, value: Any) -> int:
        """The number of a hashable value."""
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = len(self.items)
            self.items.append(value)
        return number


def page_data(recorded: Iterable[Recorded]) -> dict[str, Any]:
    """The episodes of a page.

    Returns:
        `texts`: strings that prompts are made of; `elements`: SVG elements; `pictures`: width,
        height and the numbers of elements; `episodes`: everything else. Equal texts, elements
        and pictures are stored once.
    """
    solver = MoveSolver()
    texts, elements, pictures = Interned(), Interned(), Interned()
    found, episodes = list(recorded), []
    for one, estimates in zip(found, estimates_of(found), strict=True):
        line, (episode, credit), source, moment = one
        frames = frames_of(episode)
        drawn = []
        for scenes in frames.scenes:
            views = []
            for scene in scenes:
                width, height, parts = drawing_of(scene)
                views.append(pictures((width, height, tuple(map(elements, parts)))))
            drawn.append(views)
        solved = solver.solve(frames.game, episode.turns, frames.states)
        turns = [
            _turn(episode, turn, earned, texts) | {"moves": _moves(values, texts)}
            for turn, earned, values in zip(
                episode.turns, credit, solved.turns, strict=True
            )
        ]
        facts = _facts(episode)
        facts["solver"] = {"reference": solved.reference, "fault": solved.fault}
        facts |= {"source": source, "line": line, "estimates": estimates}
        facts["moment"] = moment or source
        facts |= {"viewers": frames.viewers, "fault": frames.fault}
        episodes.append({**facts, "frames": drawn, "turns": turns})
    return {
        "texts": texts.items,
        "elements": elements.items,
        "pictures": pictures.items,
        "episodes": episodes,
    }


def packed(data: dict[str, Any]) -> str:
    """The data as base64 of gzipped JSON, which no HTML can break.

    Raises:
        ValueError: a number is not finite; browsers read no such JSON.
    """
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def _facts(episode: Episode) -> dict[str, Any]:
    policies = policies_of(episode)
    return {
        "game": episode.game,
        "params": dict(episode.params),
        "seed": str(episode.seed),  # JavaScript has no integers of 64 bits
        "sample": str(episode.sample),
        "parent": episode.parent,
        "branch": episode.branch,
        "policies": [policies.get(s, "") for s in seats_of(episode)],
        "returns": list(episode.returns),
        "measures": dict(episode.measures),
        "outcome": outcome_of(episode),
    }


def _turn(
    episode: Episode, turn: Turn, earned: TurnCredit | None, texts: Interned
) -> dict[str, Any]:
    return {
        "index": turn.index,
        "seat": turn.seat,
        "policy": turn.policy,
        "messages": [[m["role"], texts(m["content"])] for m in turn.messages],
        "legal": texts(", ".join(turn.legal)),
        "reply": turn.reply,
        "generations": [[g.role, g.text, g.parent] for g in turn.generations],
        "parsed": parsed_part(episode, turn),
        "invalid": turn.invalid,
        "detail": turn.detail,
        "cut": turn.truncated,
        "rewards": dict(turn.rewards),
        "credit": None if earned is None else _credit(earned),
    }


def _moves(found: MoveValues | None, texts: Interned) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "actions": [texts(action) for action in found.actions],
        "values": [_short(value) for value in found.values],
        "played": found.played,
        "regret": None if found.regret is None else _short(found.regret),
        "large": found.is_large,
    }


def _short(value: float) -> float:
    """The value with six digits, for small pages."""
    return float(f"{value:.6g}")


def _credit(earned: TurnCredit) -> dict[str, Any]:
    values = asdict(earned)
    advantage = earned.advantage
    if isinstance(advantage, Sequence):
        values["tokens"] = list(advantage)
        values["advantage"] = sum(advantage) / len(advantage) if advantage else 0.0
    return values


FOLDER = files("arena_trainers.report")


def write_replay(
    path: Path, lines: Iterable[Recorded | BadLine], *, title: str, left: int = 0
) -> None:
    """Writes a page of replays; the file appears whole or not at all.

    Args:
        path: the HTML file.
        lines: what the page shows.
        title: title of the page, such as the name of the file of episodes.
        left: number of lines after those of the page.

    Raises:
        ModuleNotFoundError: Jinja is not installed.
    """
    write_whole(path, replay_page(lines, title=title, left=left))


def replay_page(
    lines: Iterable[Recorded | BadLine], *, title: str, left: int = 0
) -> str:
    """The page that `write_replay` writes."""
    found = list(lines)
    recorded = [line for line in found if isinstance(line, Recorded)]
    return rendered(
        "replay.html",
        title=title,
        left=left,
        num_episodes=len(recorded),
        bad=[line for line in found if isinstance(line, BadLine)],
        data=packed(page_data(recorded)),
    )


def rendered(
    template: str, *, scripts: Sequence[str] = ("replay.js",), **values: Any
) -> str:
    """A page of one of our templates, with the script and the style of replays.

    Args:
        template: its file name; it extends `page.html`.
        scripts: file names of what the page runs, in order.
        values: what the template shows.

    Raises:
        ModuleNotFoundError: Jinja is not installed.
    """
    # the colors of pictures; surfaces follow the reader's choice of light or dark
    dark = f"@media (prefers-color-scheme: dark){{{surfaces_css(dark=True)}}}"
    style = f"{_asset('replay.css')}@media all{{{css()}}}{dark}"
    script = "".join(map(_asset, scripts))
    jinja = import_extra("jinja2", "report")
    templates = jinja.Environment(
        loader=jinja.FunctionLoader(_asset),
        autoescape=True,
        undefined=jinja.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    hashes = {"style_hash": _hash(style), "script_hash": _hash(script)}
    values |= {"style": style, "script": script, **hashes}
    page: str = templates.get_template(template).render(**values)
    return page


def _asset(name: str) -> str:
    return FOLDER.joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """The hash of an inline script or style sheet in a content security policy."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


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
    captions.append(f"end: {outcome_of(episode)}")
    drawings = [
        drawing_of(Scene(caption, scenes[place].shapes))
        for caption, scenes in zip(captions, frames.scenes, strict=True)
    ]
    return _joined(drawings)


def _caption(episode: Episode, number: int, turn: Turn, viewer: str) -> str:
    """The policy and the reply of a turn, unless the viewer may not know them."""
    name = f"player_{turn.seat}"
    if is_hidden(turn, viewer):
        return f"{number}: {name}"
    start, end = parsed_part(episode, turn) or (0, len(turn.reply))
    said = " ".join(turn.reply[start:end].split())
    if len(said) > MAX_CAPTION:
        said = f"{said[: MAX_CAPTION - 3]}..."
    return f"{number}: {name} {said}"


def _joined(drawings: list[Drawing]) -> str:
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
