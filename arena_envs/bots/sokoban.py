"""The bot of Sokoban."""

import random
from dataclasses import dataclass

from arena_envs.game import AnyGame
from arena_envs.games._sokoban_search import Room, TooManyNodes, shortest
from arena_envs.games.sokoban import Sokoban, State

MAX_NODES = 100_000  # positions that a search visits before it gives up


@dataclass(frozen=True)
class SokobanSearch:
    """Plays a shortest solution, found by A* search.

    It draws among moves that begin a shortest solution. If there is none it draws any move.

    Args:
        max_nodes: limit of the positions that a search visits.

    Raises:
        ValueError: when it plays, the game is not Sokoban, or the level takes a larger search.
    """

    max_nodes: int = MAX_NODES

    def __call__(self, game: AnyGame, state: State, rng: random.Random) -> int:
        if not isinstance(game, Sokoban):
            raise ValueError(f"want Sokoban, got {game!r}")
        legal, room = game.legal_actions(state), game.level_at(state).room
        lengths = {}
        for action in legal:
            after = room.after(state.player, state.boxes, action)
            if after != (state.player, state.boxes):
                length = self._length(room, *after)
                if length is not None:
                    lengths[action] = length
        least = min(lengths.values(), default=None)
        best = [
            action for action in legal if action in lengths and lengths[action] == least
        ]
        return rng.choice(best or list(legal))

    def _length(self, room: Room, player: int, boxes: tuple[int, ...]) -> int | None:
        try:
            path = shortest(room, player, boxes, max_nodes=self.max_nodes)
        except TooManyNodes as error:
            raise ValueError(
                f"{error}; use the bot 'mcts', or an easier level"
            ) from error
        return None if path is None else len(path)
