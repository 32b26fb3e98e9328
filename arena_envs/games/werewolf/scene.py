"""The scene of Werewolf."""

from typing import Any

from arena_envs import talk
from arena_envs.games.werewolf import Werewolf
from arena_envs.games.werewolf import state as states
from arena_envs.games.werewolf.state import NIGHT, State
from arena_envs.scenes.shapes import Cell, Scene, Table, seat_tone, talk_of, turn_title


def scene(game: Werewolf, state: State, viewer: int | None) -> Scene:
    """The living, the roles and votes that the viewer knows, and the talk in its audiences."""
    events = state.past if viewer is None else states.known_events(state, viewer)
    known = state.roles if viewer is None else states.known_roles(state, viewer)
    fates = {death.seat: death for death in state.deaths}
    votes = {each.seat: each.said.values[0] for each in events if each.phase == "vote"}
    rows = []
    for seat, role in enumerate(known):
        fate = "alive"
        if seat in fates:
            is_night = fates[seat].phase == NIGHT
            how = "died in night" if is_night else "voted out on day"
            fate = f"{how} {fates[seat].day}"
        tone = "gone" if seat in fates else seat_tone(seat)
        voted = f"player_{votes[seat]}" if seat in votes else ""
        row = [Cell(f"player_{seat}", tone), Cell(role or "hidden"), Cell(fate)]
        rows.append([*row, Cell(voted)])
    header = ("seat", "role", "fate", "latest vote")
    shapes: list[Any] = [Table(f"day {state.day}", header, rows)]
    spoken = [each for each in events if each.said.move not in ("vote", "sleep")]

    def told(turn: int, said: talk.Utterance) -> str:
        each = spoken[turn]
        when = "night" if each.phase == NIGHT else "day"
        target = f" player_{said.values[0]}" if said.values else ""
        return f"{said.move}{target} ({when} {each.day})"

    said = [each.said for each in spoken]
    shapes += talk_of(said, viewer, lambda turn: spoken[turn].seat, told)
    return Scene(turn_title(game, state, viewer), shapes)
