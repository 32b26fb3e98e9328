"""Scenes of games in which a player who knows more speaks to one who knows less."""

from typing import Any

from arena_envs.games import _talk as talk
from arena_envs.games._keeper_state import ATTACKER, KEEPER, SUBJECT
from arena_envs.games._keeper_state import State as KeeperState
from arena_envs.games._say_select_state import State
from arena_envs.games._talk import Utterance as Said
from arena_envs.games.say_select import SPEAKER, SaySelect
from arena_envs.games.secret_keeper import SecretKeeper
from arena_envs.hostile import break_markup
from arena_envs.scenes.registry import turn_title
from arena_envs.scenes.shapes import Cell, Scene, Table, Talk, Track, Utterance
from arena_envs.scenes.words import MAX_SAID, talk_of


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


def secret_keeper(game: SecretKeeper, state: KeeperState, viewer: int | None) -> Scene:
    """The secret and the password as the viewer knows them, the rounds, and the talk."""
    secret, password = game.known(state, KEEPER if viewer is None else viewer)
    rows = [
        [Cell("secret"), Cell(secret or "hidden")],
        [Cell("password"), Cell(password or "hidden")],
    ]
    player, title = game.current_player(state), turn_title(game, state, viewer)
    if viewer == KEEPER and player in (ATTACKER, SUBJECT):
        title = "Somebody is to ask."
    shapes: list[Any] = [Table("what is known", ("", ""), rows)]
    words = []
    for turn, each in enumerate(state.said):
        writer = ATTACKER if state.writers[turn // 2] == "attacker" else SUBJECT
        is_hidden = viewer == KEEPER and turn % 2 == 0
        seat = KEEPER if turn % 2 else None if is_hidden else writer
        is_heard = viewer is None or talk.is_heard(each, viewer)
        message = break_markup(each.message) if is_heard else ""
        audience = "the writer and the keeper" if each.audience else ""
        did = {"ask": "asks", "tell": "tells the secret", "refuse": "refuses"}
        action = f"{did[each.move]} (round {turn // 2 + 1})"
        words.append(Utterance(seat, message, action, audience))
    if words:
        shapes.append(Talk("talk", words[-MAX_SAID:]))
    return Scene(title, shapes)
