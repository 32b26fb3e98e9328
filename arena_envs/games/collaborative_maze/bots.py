"""Players of the collaborative maze."""

import random
import re
from collections.abc import Sequence

from arena_envs import talk
from arena_envs.games.collaborative_maze import CollaborativeMaze
from arena_envs.games.collaborative_maze import state as maze
from arena_envs.games.collaborative_maze.state import CORE, DIRECTIONS, Rows, State
from arena_envs.talk import Utterance

TELLS = "Walls that I see:"  # what `honest` says first
LISTED = re.compile(re.escape(TELLS) + r"((?: [a-i][1-9],?)+| none)\.")

ORDER = ("up", "right", "down", "left")
STYLES = ("honest", "greedy", "silent")


class MazeWalker(talk.Scripted):
    """Walks through the collaborative maze in one of three styles.

    - `silent` names the first move of a shortest path by all that it knows; other cells count as
      free. After the other player it names the same move, unless that leads to a wall that it knows.
      If the other player did not follow, it takes the cell ahead for a wall.
    - `honest` tells all walls that it sees with its first move, and believes what it is told. Once it
      knows all cells, it names the first move of a shortest path, of several the first of up, right,
      down, left. Until then it plays as `silent`.
    - `greedy` names the first of up, right, down, left that leads to no wall that it knows.
    """

    game, styles = CollaborativeMaze, STYLES

    def reply(
        self, game: CollaborativeMaze, state: State, rng: random.Random
    ) -> Utterance:
        seat = game.current_player(state)
        if self.style == "greedy":
            known = game.known(state, seat)
            ways = [d for d in ORDER if _open(game, state, known, d)]
            return CORE[DIRECTIONS.index(ways[0])] if ways else CORE[-1]
        said = CORE[DIRECTIONS.index(self._move(game, state, seat))]
        own = [turn for turn in range(len(state.said)) if game.speaker_of(turn) == seat]
        speaks = self.style == "honest" and not own and game.messages and not game.solo
        walls = _walls(game, state, seat) if speaks else ""
        return said._replace(message=walls) if len(walls) <= game.max_message else said

    def _move(self, game: CollaborativeMaze, state: State, seat: int) -> str:
        known = game.known(state, seat)
        told = _told(game, state, seat) if self.style == "honest" else None
        if told is not None:
            return _planned(game, state, maze.with_cells(known, told))
        if len(state.said) % game.num_players and state.said[-1].values:
            named = str(state.said[-1].values[0])
            if _open(game, state, known, named):
                return named
        return _planned(game, state, _with_refused(game, state, seat, known))


def _open(game: CollaborativeMaze, state: State, known: Rows, direction: str) -> bool:
    """Whether a move leads to a cell that is not known as a wall."""
    ahead = maze.neighbor(game.here(state), direction, game.size)
    return ahead is not None and known[ahead // game.size][ahead % game.size] != "#"


def _planned(game: CollaborativeMaze, state: State, known: Rows) -> str:
    """The first move of a shortest path; any where there seems to be none."""
    here = game.here(state)
    left = maze.distance(known, here, game.goal)
    for direction in ORDER:
        ahead = maze.neighbor(here, direction, game.size)
        if ahead is not None and left is not None:
            moves = maze.distance(known, ahead, game.goal)
            if moves is not None and moves < left:
                return direction
    return "up"


def _walls(game: CollaborativeMaze, state: State, seat: int) -> str:
    seen = "".join(game.seen(state, seat))
    names = [
        maze.name(cell, game.size) for cell, mark in enumerate(seen) if mark == "#"
    ]
    return f"{TELLS} {', '.join(names) or 'none'}."


def _told(game: CollaborativeMaze, state: State, seat: int) -> dict[int, str] | None:
    """The cells of the other player as it has told them; None before."""
    for turn, said in enumerate(state.said):
        if game.speaker_of(turn) != seat and (found := LISTED.search(said.message)):
            walls = set(re.findall("[a-i][1-9]", found[1]))
            cells = range(1, game.goal)
            others = [cell for cell in cells if maze.color(cell, game.size) != seat]
            return {c: "#" if maze.name(c, game.size) in walls else "." for c in others}
    return None


def _with_refused(
    game: CollaborativeMaze, state: State, seat: int, known: Rows
) -> Rows:
    """The known map, with walls where the other player did not follow, if a path is left."""
    walls: dict[int, str] = {}
    way: Sequence[int] = (0, *state.path)
    for step in () if game.solo else range(len(state.path)):
        first, second = state.said[2 * step :][:2]
        if game.speaker_of(2 * step) == seat and first.values and first != second:
            ahead = maze.neighbor(way[step], first.values[0], game.size)
            if (
                ahead is not None
                and known[ahead // game.size][ahead % game.size] == "?"
            ):
                walls[ahead] = "#"
    assumed = maze.with_cells(known, walls)
    left = maze.distance(assumed, game.here(state), game.goal)
    return known if left is None else assumed
