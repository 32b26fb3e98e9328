"""Scenes of games in which one player gives clues and another one guesses."""

from typing import Any

from arena_envs.game import CHANCE, TERMINAL
from arena_envs.games._codenames_state import State as CodenamesState
from arena_envs.games._codenames_texts import NAMES, TEAMS
from arena_envs.games._referential_state import PICKER
from arena_envs.games._referential_state import State as ReferentialState
from arena_envs.games._taboo_state import State as TabooState
from arena_envs.games._talk import Utterance as Said
from arena_envs.games.codenames import Codenames
from arena_envs.games.referential import Referential
from arena_envs.games.taboo import Taboo
from arena_envs.scenes.registry import turn_title
from arena_envs.scenes.shapes import Card, Cards, Cell, Scene, Table
from arena_envs.scenes.words import talk_of

COLUMNS = 4  # of a board of codenames
TONES = {"0": "red", "1": "blue", "x": "dark", "n": "yellow", "?": ""}


def referential(
    game: Referential, state: ReferentialState, viewer: int | None
) -> Scene:
    """The objects in the order of the viewer, with target and pick of the round, and the talk."""
    is_ordered = viewer in (None, PICKER)
    order = state.objects if is_ordered else sorted(state.objects)
    number = max(0, len(state.targets) - 1)  # of the latest round, from 0
    target = state.targets[-1] if state.targets else -1
    if viewer == PICKER and len(state.said) // 2 < len(state.targets):
        target = -1
    picked = state.picked[number] if len(state.picked) > number else -1
    rows = []
    for place, each in enumerate(order, 1):
        cells = [Cell(game.names[each], "green" if each == target else "")]
        cells.append(Cell("target" if each == target else ""))
        cells.append(Cell("picked" if each == picked else ""))
        rows.append([Cell(str(place) if is_ordered else ""), *cells])
    title = f"objects; round {number + 1} of {game.num_rounds}"
    table = Table(title, ("number", "object", "", ""), rows)

    def told(turn: int, said: Said) -> str:
        what = (
            f"picks {game.names[state.picked[turn // 2]]}" if turn % 2 else "describes"
        )
        return f"{what} (round {turn // 2 + 1})"

    shapes: list[Any] = [table] if rows else []
    shapes += talk_of(state.said, viewer, lambda turn: turn % 2, told)
    return Scene(turn_title(game, state, viewer), shapes)


def taboo(game: Taboo, state: TabooState, viewer: int | None) -> Scene:
    """The word with the forbidden words, as far as the viewer knows them, and the talk."""
    is_open = viewer in (None, 0) or game.current_player(state) == TERMINAL
    drawn = [Card(state.word if is_open else None)] if state.word else []
    shapes: list[Any] = [Cards("word", drawn)]
    if state.word and viewer in (None, 0):
        forbidden = [Card(word) for word in game.deck[state.word].forbidden]
        shapes += [Cards("forbidden words", forbidden)] if forbidden else []

    def told(turn: int, said: Said) -> str:
        does = f"guesses {said.values[0]}" if said.values else "speaks"
        return f"{does} (round {turn // 2 + 1})"

    shapes += talk_of(state.said, viewer, lambda turn: turn % 2, told)
    return Scene(turn_title(game, state, viewer), shapes)


def codenames(game: Codenames, state: CodenamesState, viewer: int | None) -> Scene:
    """The board, with the roles that the viewer knows, and the talk."""
    shapes: list[Any] = []
    if game.current_player(state) != CHANCE:
        key = state.key if viewer is None else game.known_key(state, viewer)
        cells = [
            Cell(_labelled(word, role), TONES[role], mark=place in state.guessed)
            for place, (word, role) in enumerate(
                zip(game.boards[state.board], key, strict=True)
            )
        ]
        cells += [Cell()] * (-len(cells) % COLUMNS)
        rows = [cells[n : n + COLUMNS] for n in range(0, len(cells), COLUMNS)]
        left = ", ".join(f"{TEAMS[t]} {state.hidden(str(t))}" for t in range(2))
        title = f"words to find: {left}; words that are guessed have a frame"
        shapes.append(Table(title, ("",) * COLUMNS, rows))

    def told(turn: int, said: Said) -> str:
        if said.move == "clue":
            return f"gives the clue {said.values[0]} {said.values[1]}"
        if not said.values:
            return "stops"
        place = game.boards[state.board].index(said.values[0])
        return f"guesses {said.values[0]} ({NAMES[state.key[place]]})"

    shapes += talk_of(state.said, viewer, lambda turn: state.seats[turn], told)
    return Scene(turn_title(game, state, viewer), shapes)


def _labelled(word: str, role: str) -> str:
    name = NAMES.get(role, "").removeprefix("the ")
    return f"{word} ({name})" if name else word
