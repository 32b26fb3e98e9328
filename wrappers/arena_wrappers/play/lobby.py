"""A lobby: games for clients that nobody trusts, such as models with tools.

A client names a game of the list, a seat and parameters. The server draws every seed, so that no
client sees the cards of another seat by playing the same deal again.
"""

import random
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from secrets import token_hex
from typing import Any

import arena_envs
from arena_envs.checks import (
    JSON,
    check_known,
    short,
)
from arena_envs.game import AnyGame
from arena_envs.registration import game_parameters
from arena_envs.trust import named_only
from arena_wrappers.play.seats import Opponents, checked_seat
from arena_wrappers.play.session import SeatSession
from arena_wrappers.policies import SharedPolicy
from arena_wrappers.prompts import InvalidReply

MAX_NUMBER = 100  # of a parameter: no game then takes long to start
MAX_TEXT = 100  # characters of a parameter
MAX_ACTION = 10_000  # characters
BARE = {"reply_format": "bare", "rules": False}


@dataclass(eq=False)
class _Game:
    session: SeatSession
    seat: int
    lock: Any = field(default_factory=threading.Lock)  # held by the call that plays


class Lobby:
    """Games of clients, each with one seat, against the server's opponents.

    Args:
        opponents: a policy or a string for `make_policy`, or one per other seat. Each is made
            once, for all games.
        seed: of the seeds that the server draws; None for others in each process.
        max_games: that are kept; one more ends the oldest.
        max_seconds: that an opponent may take for a reply.

    Raises:
        ValueError: there is no such opponent.
    """

    def __init__(
        self,
        opponents: Opponents = "random",
        seed: int | None = None,
        max_games: int = 1000,
        max_seconds: float = 120.0,
    ) -> None:
        single = isinstance(opponents, str) or not isinstance(opponents, list | tuple)
        opponent_list: Any = [opponents] if single else opponents
        shared = [SharedPolicy(opponent, max_seconds) for opponent in opponent_list]
        self._opponents: Opponents = shared[0] if single else shared
        self._seeds = random.SystemRandom() if seed is None else random.Random(seed)
        self._max_games, self._max_seconds = max_games, max_seconds
        self._games: dict[str, _Game] = {}
        self._lock = threading.Lock()  # of the games and the seeds

    @cached_property
    def ids(self) -> list[str]:
        """The ids of the games that can be played here."""
        missing = arena_envs.missing_games()
        return [info.id for info in arena_envs.game_infos() if info.id not in missing]

    def start(
        self, id: str, seat: int = 0, parameters: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Starts a game: its handle, its rules, and what the seat sees.

        Args:
            id: of `ids`, with or without its version.
            seat: the client's.
            parameters: numbers, truth values and short texts, by name.

        Raises:
            ValueError: an argument is not allowed; says what is.
            NoReplyError: an opponent gave no reply.
        """
        game = self._rules(id, parameters or {})
        seat = checked_seat(seat, game.num_players)
        session = SeatSession(
            game, seat, self._opponents, prompt=BARE, timeout=self._max_seconds
        )
        with self._lock:
            seed = self._seeds.getrandbits(63)
        session.reset(seed)
        handle = token_hex(8)
        with self._lock:
            while len(self._games) >= self._max_games:
                del self._games[next(iter(self._games))]
            self._games[handle] = _Game(session, seat)
        return {"game": handle, "rules": game.rules(seat), **_view(session, seat)}

    def observe(self, handle: str) -> dict[str, Any]:
        """What the seat of a game sees now; at the end, with its return.

        Raises:
            ValueError: there is no such game, or another call plays it.
        """
        with self._turn(handle) as game:
            return _view(game.session, game.seat)

    def act(self, handle: str, action: str) -> dict[str, Any]:
        """Plays an action, then the opponents; the reward, and what the seat sees then.

        Raises:
            ValueError: as for `observe`; the game is over, or the action is not legal: the
                game stays as it is.
            NoReplyError: an opponent gave no reply. The game is lost.
        """
        if len(action) > MAX_ACTION:
            raise ValueError(f"want at most {MAX_ACTION:,} characters as action")
        with self._turn(handle) as game:
            session = game.session
            if session.done:
                raise ValueError("the game is over; start another with new_game")
            if isinstance(parsed := session.read(action), InvalidReply):
                raise ValueError(parsed.detail)
            reward = session.step(action)[1]
            return {"reward": reward, **_view(session, game.seat)}

    @contextmanager
    def _turn(self, handle: str) -> Iterator[_Game]:
        """The game of a handle, for one call at a time; the others are refused, not delayed."""
        with self._lock:
            game = self._games.get(handle)
        if game is None:
            raise ValueError("there is no such game; start one with new_game")
        if not game.lock.acquire(blocking=False):
            raise ValueError("another call plays this game; call again after its end")
        try:
            yield game
        finally:
            game.lock.release()

    def _rules(self, name: str, parameters: Mapping[str, Any]) -> AnyGame:
        """The rules of a listed game, with checked parameters."""
        newest = {id.rpartition("-v")[0]: id for id in self.ids}
        id = newest.get(name, name)
        check_known(id, self.ids, f"unknown game {short(name)}")
        parameter_names = game_parameters(id) or []
        for key, value in parameters.items():
            check_known(key, parameter_names, f"{id} has no parameter {short(key)}")
            _check_value(key, value)
        with named_only():
            return arena_envs.make_game(id, **parameters)


def _check_value(name: str, value: JSON) -> None:
    is_text = isinstance(value, str) and len(value) <= MAX_TEXT
    is_number = isinstance(value, int | float) and abs(value) <= MAX_NUMBER
    if not is_text and not is_number:
        raise ValueError(
            f"want the parameter {name!r} as a number from -{MAX_NUMBER} to {MAX_NUMBER}, true, "
            f"false or a text of at most {MAX_TEXT} characters, got {short(value)}"
        )


def _view(session: SeatSession, seat: int) -> dict[str, Any]:
    text = session.prompt(seat)[-1]["content"]
    end = {"return": session.returns[seat]} if session.done else {}
    return {"text": text, "done": session.done, **end}
