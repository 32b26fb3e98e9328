"""Games from links, which may come from anybody: replays, and values of moves."""

import threading
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from arena_envs.game import AnyGame
from arena_eval.move_values import MoveSolver
from arena_studio.web.games import CACHE_SIZE, game_named, listed
from arena_studio.web.refusal import Refused
from arena_studio.web.views import frames, values_at
from arena_wrappers import SeatSession, Turn

MAX_SEED = 2**53  # JavaScript's integers are exact below it
PROMPT = {"reply_format": "bare"}


@lru_cache(CACHE_SIZE)
def _solver(key: str) -> tuple[MoveSolver, threading.Lock]:
    return MoveSolver(), threading.Lock()


def solved(game: AnyGame, turn: Turn, number: int) -> dict[str, Any]:
    """`values_at` a turn, by a solver that is kept."""
    solver, lock = _solver(repr(game))
    with lock:
        return values_at(solver, game, turn, number)


def _restored(record: Mapping[str, Any]) -> SeatSession:
    """The game of a record, which may come from anybody; raises Refused if it is none."""
    id, seed = record.get("game"), record.get("seed")
    game = game_named(id if isinstance(id, str) else repr(id))
    if type(seed) is not int or not 0 <= seed < MAX_SEED:
        raise Refused(400, f"Want a seed from 0 to {MAX_SEED - 1}, got {seed!r:.80}.")
    session = SeatSession(str(id), "all", (), prompt=PROMPT)
    seats = list(range(game.num_players))
    try:
        session.restore(
            {"seed": seed, "seats": seats, "replies": record.get("replies")}
        )
    except ValueError as error:
        raise Refused(400, f"This is no record of {id}: {error}") from None
    return session


def values_in(record: Mapping[str, Any], turn: int) -> dict[str, Any]:
    """What `solved` finds at a turn of a game from its link; raises Refused as `replayed`."""
    session = _restored(record)
    if not 0 <= turn < len(session.turns):
        raise Refused(400, f"Want a turn below {len(session.turns)}, got {turn}.")
    return solved(session.game, session.turns[turn], turn)


def replayed(record: Mapping[str, Any]) -> dict[str, Any]:
    """A game from its link, which may come from anybody; raises Refused if it is none."""
    session = _restored(record)
    title = listed()[record["game"]]["title"]
    return {"game": record["game"], "title": title, **frames(session)}
