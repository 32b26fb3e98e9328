"""Scenes of games in which a player who knows more speaks to one who knows less."""

from typing import Any

from arena_envs.games._say_select_state import State
from arena_envs.games._talk import Utterance as Said
from arena_envs.games.say_select import SPEAKER, SaySelect
from arena_envs.scenes.registry import turn_title
from arena_envs.scenes.shapes import Cell, Scene, Track
from arena_envs.scenes.words import talk_of


def say_select(game: SaySelect, state: State, viewer: int | None) -> Scene:
    """The balls as far as the viewer knows what they pay, the score, and the talk."""
    sees = viewer in (None, SPEAKER) and bool(state.paying)
    taken, gains = state.selected, state.gains
    cells = []
    for ball in range(1, game.num_balls + 1):
        tone = ("green" if ball in state.paying else "red") if sees else ""
        if ball in taken:
            tone = "green" if gains[taken.index(ball)] == 1 else "red"
        cells.append(Cell(str(ball), tone, mark=ball in taken))
    title = "balls that paid 1 at first are green; selected ones have a frame"
    shapes: list[Any] = [Track(title, cells)]

    def told(turn: int, said: Said) -> str:
        past = {"name": "names", "select": "selects", "quit": "quits"}[said.move]
        ball = f" ball {said.values[0]}" if said.values else ""
        paid = f", which pays {gains[turn // 2]}" if said.move == "select" else ""
        return f"{past}{ball}{paid} (round {turn // 2 + 1})"

    shapes += talk_of(state.said, viewer, lambda turn: turn % 2, told)
    return Scene(turn_title(game, state, viewer), shapes)
