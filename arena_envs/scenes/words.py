"""Scenes of games of words: signaling, speaker and listener, bargaining."""

from collections.abc import Callable, Sequence
from typing import Any

from arena_envs.games import _talk as talk
from arena_envs.games._bargaining_texts import speaker_of
from arena_envs.games.bargaining import Bargaining
from arena_envs.games.bargaining import State as BargainingState
from arena_envs.games.signaling import Signaling
from arena_envs.games.signaling import State as SignalingState
from arena_envs.games.speaker_listener import SpeakerListener
from arena_envs.games.speaker_listener import State as WalkState
from arena_envs.hostile import break_markup
from arena_envs.scenes.registry import turn_title
from arena_envs.scenes.shapes import (
    Card,
    Cards,
    Cell,
    Grid,
    Scene,
    Table,
    Talk,
    Track,
    Utterance,
)

MAX_SAID = 8  # latest utterances that are shown


def signaling(game: Signaling, state: SignalingState, viewer: int | None) -> Scene:
    """The target, the word and the guess."""
    target = state.target
    if viewer is not None:
        _, target, *_ = game.information_state(state, viewer)
    drawn = [] if state.target < 0 else [Card(str(target) if target >= 0 else None)]
    word = [Card(str(state.word))] if state.word >= 0 else []
    guess = [Card(str(state.guess))] if state.guess >= 0 else []
    shapes = [
        Cards("target", drawn),
        Cards("word of player_0", word, 0),
        Cards("guess of player_1", guess, 1),
    ]
    return Scene(turn_title(game, state, viewer), shapes)


def speaker_listener(
    game: SpeakerListener, state: WalkState, viewer: int | None
) -> Scene:
    """The grid with the listener and the goal, and the words."""
    goal, size = state.goal, game.size
    if viewer is not None:
        key: Any = game.information_state(state, viewer)
        goal = key[1]
    here = state.path[-1] if state.path else game.cells.start
    cells = [Cell()] * size**2
    for cell in game.goals:
        cells[cell] = Cell("goal?", "gone")
    if goal >= 0:
        for cell in game.goals:
            cells[cell] = Cell("", "gone")
        cells[goal] = Cell("goal", "green")
    for cell in state.path[:-1]:
        cells[cell] = cells[cell]._replace(mark=True)
    cells[here] = Cell("P1", "seat1", mark=True)
    rows = [cells[row * size : (row + 1) * size] for row in range(size)]
    numbers = [str(row + 1) for row in range(size)]
    title = "player_1 walks; cells that it has left have a frame"
    board = Grid(rows[::-1], title, numbers[::-1], "abcdefghi"[:size])
    said = [Cell(f"word {word}", "seat0") for word in state.words]
    return Scene(turn_title(game, state, viewer), [board, Track("words", said)])


def bargaining(game: Bargaining, state: BargainingState, viewer: int | None) -> Scene:
    """What money is worth to whom, and the talk."""
    discounts, said = state
    hides = viewer is not None and not game.complete_information
    past = len(said) // 2
    rows = []
    for seat, factor in enumerate(discounts):
        told = ["hidden", "hidden"]
        if not hides or seat == viewer:
            told = [f"{factor:g}", f"{100 * factor**past:.4g}%"]
        rows.append([Cell(f"player_{seat}", f"seat{seat}"), *map(Cell, told)])
    header = ("seat", "discount factor", "money is worth")
    shapes: list[Any] = [Table(f"{game.pie} to divide", header, rows)]

    def done(turn: int, each: talk.Utterance) -> str:
        action = f"{each.move}s"
        if each.move == "offer":
            (given,) = each.values
            rest = talk.money(game.pie * talk.CENT - given)
            action = f"offers {talk.money(given)}, keeping {rest}"
        return f"{action} (round {turn // 2 + 1})"

    shapes += talk_of(said, viewer, speaker_of, done)
    return Scene(turn_title(game, state, viewer), shapes)


def talk_of(
    said: Sequence[talk.Utterance],
    viewer: int | None,
    speaker_of: Callable[[int], int],
    told: Callable[[int, talk.Utterance], str],
) -> list[Talk]:
    """The latest utterances as bubbles, with the words that the viewer hears; nothing before any.

    Args:
        said: utterances of which the viewer knows the moves.
        viewer: a seat, or None for a viewer who hears everything.
        speaker_of: who speaks in a turn.
        told: what an utterance does in a turn, in words of the scene.
    """
    words = []
    for turn, each in enumerate(said):
        is_heard = viewer is None or talk.is_heard(each, viewer)
        message = break_markup(each.message) if is_heard else ""
        audience = ", ".join(f"player_{seat}" for seat in each.audience)
        action = told(turn, each)
        words.append(Utterance(speaker_of(turn), message, action, audience))
    more = len(words) > MAX_SAID
    title = f"talk; the latest {MAX_SAID} of {len(words)}" if more else "talk"
    return [Talk(title, words[-MAX_SAID:])] if words else []
