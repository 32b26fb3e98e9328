"""Scenes of games of talk: deal or no deal, social dilemmas, mazes."""

from typing import Any

from arena_envs.games import _deal_texts as deal_texts
from arena_envs.games import _talk as talk
from arena_envs.games._deal_state import State as DealState
from arena_envs.games._deals import rest
from arena_envs.games._dilemma_state import NAMES
from arena_envs.games._dilemma_state import State as DilemmaState
from arena_envs.games._maze import LETTERS
from arena_envs.games._maze_state import State as MazeState
from arena_envs.games.collaborative_maze import CollaborativeMaze
from arena_envs.games.deal_or_no_deal import DealOrNoDeal
from arena_envs.games.social_dilemma import SocialDilemma
from arena_envs.scenes.registry import turn_title
from arena_envs.scenes.shapes import (
    Cell,
    Grid,
    Scene,
    Table,
    seat_tone,
)
from arena_envs.scenes.words import talk_of

MAX_ROUNDS = 12  # latest rounds that are shown


def deal_or_no_deal(game: DealOrNoDeal, state: DealState, viewer: int | None) -> Scene:
    """The items, what they are worth to whom, the claims, and the talk."""
    seats = (Cell("player_0", seat_tone(0)), Cell("player_1", seat_tone(1)))
    over = len(state.claims) == 2
    rows = [[Cell("in the pool"), *(Cell(str(number)) for number in state.pool)]]
    for seat, values in enumerate(state.values):
        told = [str(v) if viewer in (None, seat) else "?" for v in values]
        rows.append([seats[seat], *map(Cell, told)])
    for seat, claim in enumerate(state.claims):
        is_known = over or viewer in (None, seat)
        told = [str(number) if is_known else "?" for number in claim]
        name = seats[seat]._replace(text=f"player_{seat} claims")
        rows.append([name, *map(Cell, told)])
    title = f"items, and what one is worth; all are worth {game.points} points to each"
    shapes: list[Any] = [Table(title, ("", *game.items), rows)]

    def action(turn: int, said: talk.Utterance) -> str:
        move, values = said.move, said.values
        if move == "report":
            return f"reports: {deal_texts.each_worth(game.items, values)}"
        if move == "demand":
            left = deal_texts.counted_items(game.items, rest(state.pool, values))
            wanted = deal_texts.counted_items(game.items, values)
            return f"demands {wanted}, leaving {left}"
        return "ends the talk" if move == "end" else ""

    shapes += talk_of(state.said, viewer, lambda turn: turn % 2, action)
    return Scene(turn_title(game, state, viewer), shapes)


def social_dilemma(
    game: SocialDilemma, state: DilemmaState, viewer: int | None
) -> Scene:
    """The choices by round, the points, and the talk."""
    seats = range(game.num_players)
    rows = [
        [Cell(str(number)), *(_choice(choice) for choice in choices)]
        for number, choices in enumerate(state.rounds, 1)
    ]
    if len(state.rounds) < game.num_rounds:
        now = [
            _choice(state.chosen[seat])
            if seat < len(state.chosen) and viewer in (None, seat)
            else Cell("?")
            for seat in seats
        ]
        rows.append([Cell(str(len(rows) + 1)), *now])
    title = "choices by round"
    if len(rows) > MAX_ROUNDS:
        title += f"; the latest {MAX_ROUNDS} rounds"
    points = [Cell(str(points)) for points in game.paid(state.rounds)]
    last = [Cell("points"), *points]
    header = ("round", *(f"player_{seat}" for seat in seats))
    shapes: list[Any] = [Table(title, header, [*rows[-MAX_ROUNDS:], last])]

    def action(turn: int, said: talk.Utterance) -> str:
        move, values = said.move, said.values
        did = {"promise": f"promises to {''.join(values)}", "pass": "passes"}
        number = turn // (game.num_players * game.talk_turns) + 1
        return f"{did.get(move, '')} (round {number})".strip()

    shapes += talk_of(state.said, viewer, game.speaker_of, action)
    return Scene(turn_title(game, state, viewer), shapes)


def _choice(choice: int) -> Cell:
    return Cell(NAMES[choice], "red" if choice else "green")


def collaborative_maze(
    game: CollaborativeMaze, state: MazeState, viewer: int | None
) -> Scene:
    """The map as the viewer knows it, the way, and the talk."""
    size, drawn = game.size, len(state.rows) == game.size
    shapes: list[Any] = [Grid([], "the maze is being drawn")]
    if drawn:
        known = state.rows if viewer is None else game.known(state, viewer)
        tones = {"#": Cell("#", "dark"), "?": Cell("?"), ".": Cell("", "light")}
        cells = [tones[mark] for row in known for mark in row]
        for cell in (0, *state.path):
            cells[cell] = cells[cell]._replace(mark=True)
        cells[game.goal] = Cell("goal", "green")
        cells[game.here(state)] = Cell("here", "yellow", mark=True)
        rows = [cells[row * size : (row + 1) * size] for row in range(size)]
        numbers = [str(row + 1) for row in range(size)]
        title = "walls are dark; cells of the way have a frame"
        shapes = [Grid(rows[::-1], title, numbers[::-1], LETTERS[:size])]

    def action(turn: int, said: talk.Utterance) -> str:
        did = f"names {said.values[0]}" if said.values else "waits"
        return f"{did} (step {turn // game.num_players + 1})"

    shapes += talk_of(state.said, viewer, game.speaker_of, action)
    return Scene(turn_title(game, state, viewer), shapes)
