"""Golden pictures: one state of each of fourteen games, as its player_0 sees it.

A picture is a small SVG file. After a change that is meant, write the files again and look at
them in a browser:

    python tests/scenes/golden.py --write
"""

import random
import sys
from pathlib import Path

from arena_envs import make_game
from arena_envs.game import CHANCE
from arena_envs.scenes import scene_of, svg
from arena_envs.testing import random_episode

FOLDER = Path(__file__).parent / "golden"
IDS = (
    *("bargaining-v1", "battleship-v0", "connect_four-v0", "dots_and_boxes-v0"),
    *("goofspiel-v0", "hex-v0", "iterated_prisoners_dilemma-v0", "kuhn_poker-v0"),
    *("leduc_poker-v0", "liars_dice-v0", "mini_hanabi-v0", "sokoban-v1"),
    *("tic_tac_toe-v0", "wordle-v1"),
)


def picture(id: str) -> str:
    """A state in the second half of a random episode, always the same."""
    game = make_game(id)
    episode = random_episode(game, game.initial_state(), random.Random(1))
    states = [state for state, _ in episode if game.current_player(state) != CHANCE]
    return svg(scene_of(game, states[len(states) * 2 // 3], 0))


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("want --write, which writes the pictures again")
    for id in IDS:
        (FOLDER / f"{id}.svg").write_text(picture(id), encoding="utf-8")
