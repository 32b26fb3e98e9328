"""The episodes of a page as compressed JSON, which its script shows."""

import base64
import gzip
import json
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import asdict
from typing import Any

from arena_envs.scenes import Scene
from arena_envs.scenes.svg import drawing_of
from arena_eval.move_values import MoveSolver, MoveValues
from arena_eval.rollouts import TurnCredit
from arena_studio.report.episodes import (
    Recorded,
    ending_text,
    parsed_part,
    policies_of,
    seats_of,
)
from arena_studio.report.estimates import estimates_of
from arena_studio.report.frames import frames_of
from arena_wrappers import Episode, Turn

NumberOfValue = dict[Hashable, int]  # of values that are stored once


def _number(values: NumberOfValue, value: Hashable) -> int:
    return values.setdefault(value, len(values))


def page_data(recorded: Iterable[Recorded]) -> dict[str, Any]:
    """The episodes of a page.

    Returns:
        `texts`: strings that prompts are made of; `elements`: SVG elements; `pictures`: width,
        height and the numbers of elements; `episodes`: everything else. Equal texts, elements
        and pictures are stored once.
    """
    solver = MoveSolver()
    texts, elements, pictures = NumberOfValue(), NumberOfValue(), NumberOfValue()
    all_recorded, episodes = list(recorded), []
    for recorded_episode, estimates in zip(
        all_recorded, estimates_of(all_recorded), strict=True
    ):
        line, (episode, credit), source, moment = recorded_episode
        frames = frames_of(episode)
        frame_pictures = [
            [_picture_number(scene, elements, pictures) for scene in scenes]
            for scenes in frames.scenes
        ]
        solved = solver.solve(frames.game, episode.turns, frames.states)
        turns = [
            _turn(episode, turn, turn_credit, texts) | {"moves": _moves(values, texts)}
            for turn, turn_credit, values in zip(
                episode.turns, credit, solved.turns, strict=True
            )
        ]
        episodes.append(
            {
                **_facts(episode),
                "solver": {"reference": solved.reference, "fault": solved.fault},
                "source": source,
                "line": line,
                "estimates": estimates,
                "moment": moment or source,
                "viewers": frames.viewers,
                "fault": frames.fault,
                "frames": frame_pictures,
                "turns": turns,
            }
        )
    return {
        "texts": [*texts],
        "elements": [*elements],
        "pictures": [*pictures],
        "episodes": episodes,
    }


def _picture_number(
    scene: Scene, elements: NumberOfValue, pictures: NumberOfValue
) -> int:
    """The number of the picture of a scene."""
    width, height, parts = drawing_of(scene)
    numbers = tuple(_number(elements, part) for part in parts)
    return _number(pictures, (width, height, numbers))


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
        "outcome": ending_text(episode),
    }


def _turn(
    episode: Episode, turn: Turn, turn_credit: TurnCredit | None, texts: NumberOfValue
) -> dict[str, Any]:
    return {
        "index": turn.index,
        "seat": turn.seat,
        "policy": turn.policy,
        "messages": [[m["role"], _number(texts, m["content"])] for m in turn.messages],
        "legal": _number(texts, ", ".join(turn.legal)),
        "reply": turn.reply,
        "generations": [[g.role, g.text, g.parent] for g in turn.generations],
        "parsed": parsed_part(episode, turn),
        "invalid": turn.invalid,
        "detail": turn.detail,
        "cut": turn.truncated,
        "rewards": dict(turn.rewards),
        "credit": None if turn_credit is None else _credit(turn_credit),
    }


def _moves(
    move_values: MoveValues | None, texts: NumberOfValue
) -> dict[str, Any] | None:
    if move_values is None:
        return None
    return {
        "actions": [_number(texts, action) for action in move_values.actions],
        "values": [_short(value) for value in move_values.values],
        "played": move_values.played,
        "regret": None if move_values.regret is None else _short(move_values.regret),
        "large": move_values.is_large,
    }


def _short(value: float) -> float:
    """The value with six digits, for small pages."""
    return float(f"{value:.6g}")


def _credit(turn_credit: TurnCredit) -> dict[str, Any]:
    values = asdict(turn_credit)
    advantage = turn_credit.advantage
    if isinstance(advantage, Sequence):
        values["tokens"] = list(advantage)
        values["advantage"] = sum(advantage) / len(advantage) if advantage else 0.0
    return values
