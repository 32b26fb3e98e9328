"""Tables: games with people in some seats, what each seat sees, and the file that keeps them."""

import json
import secrets
import sqlite3
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from arena_envs.trust import NotTrusted, named_only
from arena_studio.web.games import CACHE_SIZE, game_named, listed, offered_opponents
from arena_studio.web.links import MAX_SEED, PROMPT, solved
from arena_studio.web.refusal import Refused
from arena_studio.web.thinkers import Thinkers
from arena_studio.web.views import action_text, frames, seat_view
from arena_wrappers import InvalidReply, Policy, Reply, SeatSession, TurnRequest
from arena_wrappers.play import ask
from arena_wrappers.policies import SharedPolicy

PERSON = "person"
MAX_REPLY = 10_000  # characters of a reply
NUM_THINKERS = 2  # opponents that think at once
MAX_SECONDS = 120.0  # that an opponent may take for a reply
PAUSE = 5.0  # seconds until an opponent that gave no reply is asked again
SOON = 0.2  # seconds that the answer to a person's reply waits for the opponents


@dataclass(eq=False)
class GameTable:
    """A game with its seats.

    Attributes:
        id: name in links; nobody can guess it.
        game: id of the game.
        seats: by seat: `PERSON`, or the string of a policy.
        owners: by seat: the visitor who plays it; None for a policy or a free seat.
        invites: by seat: the secret that gives a free seat; None if it is taken.
        save: `SeatSession.save`.
        watcher: the visitor who watches policies in all seats; None at a table with people.
        session: the game; None until it is loaded.
        fault: why an opponent gave no reply; None if it did.
        asks_at: when it is asked again, in seconds of `time.monotonic`.
        thinks: whether an opponent was asked and has not replied.
        lock: held while the game changes, but not while an opponent thinks; notified when none
            thinks any more.
    """

    id: str
    game: str
    seats: list[str]
    owners: list[str | None]
    invites: list[str | None]
    save: dict[str, Any]
    watcher: str | None = None
    session: SeatSession | None = None
    fault: str | None = None
    asks_at: float = 0.0
    thinks: bool = False
    lock: threading.Condition = field(default_factory=threading.Condition)

    def seat_of(self, visitor: str) -> int:
        """The seat of a visitor; raises Refused without one."""
        if visitor not in self.owners:
            raise Refused(403, "You have no seat at this table; ask for a link to it.")
        return self.owners.index(visitor)


class Tables:
    """The tables of a server, kept in an SQLite file.

    Args:
        path: the file; it is made if it is missing.
        opponents: strings of policies that every game offers beside its own.
        max_tables: largest number of tables; one that was unused for a day makes room.
        max_by_visitor: largest number of tables that a visitor has made; the longest unused makes
            room.
        max_seconds: that an opponent may take for a reply.
        pause: seconds until an opponent that gave no reply is asked again.

    Raises:
        ValueError: the file cannot be written, or an opponent is unknown.
    """

    def __init__(
        self,
        path: str | Path,
        opponents: Sequence[str] = (),
        max_tables: int = 10_000,
        max_by_visitor: int = 50,
        max_seconds: float = MAX_SECONDS,
        pause: float = PAUSE,
    ) -> None:
        self._max_seconds, self._pause = max_seconds, pause
        # a model's weights are loaded here, once for all games
        self._server_policies = {name: self._shared(name) for name in opponents}
        self._game_policy = lru_cache(CACHE_SIZE)(
            lambda _game, name: self._shared(name)
        )
        self._thinkers, self._is_closed = Thinkers(NUM_THINKERS), False
        self._max, self._max_by_visitor = max_tables, max_by_visitor
        self._lock = threading.RLock()
        self._loaded: WeakValueDictionary[str, GameTable] = WeakValueDictionary()
        self._recent: OrderedDict[str, GameTable] = OrderedDict()
        try:
            Path(path).touch(0o600)  # it holds the secret of the visitors' cookies
            self._file = sqlite3.connect(path, check_same_thread=False)
            self._file.executescript(
                "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
                "CREATE TABLE IF NOT EXISTS secret (value TEXT);"
                "CREATE TABLE IF NOT EXISTS tables"
                " (id TEXT PRIMARY KEY, maker TEXT, used REAL, data TEXT);"
            )
        except (OSError, sqlite3.Error) as error:
            raise ValueError(
                f"cannot keep games in {str(path)!r}: {error}; give another --file"
            ) from error
        with self._file:
            if not self._file.execute("SELECT value FROM secret").fetchone():
                new_secret = (secrets.token_hex(32),)
                self._file.execute("INSERT INTO secret VALUES (?)", new_secret)
        (self.secret,) = self._file.execute("SELECT value FROM secret").fetchone()

    def close(self) -> None:
        """Closes the file, and asks no opponent any more."""
        self._thinkers.close()
        with self._lock:
            self._is_closed = True
            self._file.close()

    def offered(self, game: str) -> list[str]:
        """The opponents of a game: strings of policies."""
        return list(dict.fromkeys([*offered_opponents(game), *self._server_policies]))

    def _shared(self, name: str) -> Policy:
        return SharedPolicy(name, self._max_seconds)

    def policy(self, game: str, name: str) -> Policy:
        """The opponent of this string in a game; those of the server play all games."""
        return self._server_policies.get(name) or self._game_policy(game, name)

    def open(
        self, game: str, seats: Sequence[str], visitor: str, seed: int | None = None
    ) -> GameTable:
        """A new table, whose maker has the first seat of a person, or watches without any.

        Args:
            game: id of a game.
            seats: by seat, `PERSON` or an opponent that is offered.
            visitor: who makes it.
            seed: of the game; None draws one. With several people nobody may choose it.

        Raises:
            Refused: an argument is not allowed.
        """
        people = self._people(game, seats)
        if seed is None:
            seed = secrets.randbelow(MAX_SEED)
        elif len(people) > 1 or not 0 <= seed < MAX_SEED:
            raise Refused(400, f"Want a seed below {MAX_SEED}, and one person.")
        first = people[0] if people else None
        played_here = people or list(range(len(seats)))  # by the replies of this class
        table = GameTable(
            secrets.token_urlsafe(12),
            game,
            list(seats),
            [visitor if seat == first else None for seat in range(len(seats))],
            [
                secrets.token_urlsafe(12) if seat in people[1:] else None
                for seat in range(len(seats))
            ],
            {"seed": seed, "sample": 0, "seats": played_here, "replies": []},
            None if people else visitor,
        )
        with self._lock, self._file:
            now = time.time()
            self._make_room("maker = ?", (visitor,), self._max_by_visitor, now)
            self._make_room("?", (True,), self._max, now - 86_400)
            row = (table.id, visitor, now, _row(table))
            self._file.execute("INSERT INTO tables VALUES (?, ?, ?, ?)", row)
        self._remember(table)
        return table

    def _people(self, game: str, seats: Sequence[str]) -> list[int]:
        """The seats of people; raises Refused for seats that cannot be taken so."""
        num_players = game_named(game).num_players
        if len(seats) != num_players:
            raise Refused(400, f"Want {num_players} seats, got {len(seats)}.")
        for name in {*seats} - {PERSON, "random"}:  # what else costs seconds to know
            if name not in self.offered(game):
                raise Refused(400, f"{game} does not offer {name!r:.80} as opponent.")
        return [seat for seat, name in enumerate(seats) if name == PERSON]

    def find(self, id: str) -> GameTable:
        """The table of this id; raises Refused if there is none."""
        with self._lock:
            table = self._loaded.get(id)
            if table is None:
                query = "SELECT data FROM tables WHERE id = ?"
                row = self._file.execute(query, (id,)).fetchone()
                if row is None:
                    raise Refused(
                        404, "There is no such table; it may have been deleted."
                    )
                table = GameTable(id, **json.loads(row[0]))
            self._remember(table)
            return table

    def join(self, table: GameTable, visitor: str, invite: str) -> int:
        """The seat that an invitation gives to a visitor; it works once.

        Raises:
            Refused: it is no invitation to this table, or was used.
        """
        with table.lock:
            if visitor in table.owners:
                return table.owners.index(visitor)
            for seat, secret in enumerate(table.invites):
                if secret and secrets.compare_digest(secret.encode(), invite.encode()):
                    table.owners[seat], table.invites[seat] = visitor, None
                    self._write(table)
                    return seat
        raise Refused(403, "This link was used, or is no link to a seat.")

    def view(
        self, table: GameTable, visitor: str, max_wait: float = 0.0
    ) -> dict[str, Any]:
        """What a visitor's seat sees, after at most `max_wait` seconds for opponents to play."""
        with table.lock:
            seat, session = table.seat_of(visitor), self._running(table)
            self._ask(table, session)
            table.lock.wait_for(lambda: not table.thinks, max_wait)
            return {
                "table": table.id,
                "game": table.game,
                "seats": table.seats,
                "invites": table.invites if seat == table.seats.index(PERSON) else [],
                "turn": len(session.turns),
                "own_turns": [i for i, t in enumerate(session.turns) if t.seat == seat],
                "forfeited_by": session.episode.forfeited_by,
                "thinks": table.thinks,
                "fault": table.fault,
                **seat_view(session, seat),
            }

    def watch(self, table: GameTable, visitor: str, start: int) -> dict[str, Any]:
        """The turns from `start` on of a game that a visitor watches.

        A visitor who has all turns gets one more: the policies play on only while somebody watches.
        """
        with table.lock:
            if table.watcher != visitor:
                raise Refused(403, "Only who opened this game watches it.")
            session = self._running(table)
            if start >= len(session.turns):
                self._ask(table, session)
                table.lock.wait_for(lambda: not table.thinks, SOON)
            return {
                "table": table.id,
                "game": table.game,
                "title": listed()[table.game]["title"],
                "seats": table.seats,
                "thinks": table.thinks,
                "fault": table.fault,
                **frames(session, start),
            }

    def reply(
        self, table: GameTable, visitor: str, text: str, turn: int
    ) -> dict[str, Any]:
        """Plays a reply; the view after it, and after the turns of opponents who are quick.

        Args:
            table: the game.
            visitor: whose seat replies.
            text: the reply; the text of a legal action, or what `Game.parse` reads.
            turn: how many replies the game had when the person chose.

        Raises:
            Refused: it is another seat's turn, or the reply is no legal action. The game
                stays as it is.
        """
        with table.lock:
            seat, session = table.seat_of(visitor), self._running(table)
            if session.done:
                raise Refused(409, "The game is over.")
            if session.seat != seat:
                raise Refused(409, f"It is the turn of player_{session.seat}.")
            if turn != len(session.turns):
                raise Refused(409, "The game has gone on; look again.")
            if len(text) > MAX_REPLY:
                raise Refused(413, f"Want at most {MAX_REPLY} characters.")
            if isinstance(action := session.read(text), InvalidReply):
                raise Refused(422, action.detail)
            self._play(table, session, text)
            return self.view(table, visitor, SOON)

    def _play(self, table: GameTable, session: SeatSession, reply: str | Reply) -> None:
        session.step(reply)
        table.save = session.save()
        self._write(table)

    def _ask(self, table: GameTable, session: SeatSession) -> None:
        """Lets the opponent think whose turn it is, unless it does or has just failed."""
        if session.done or table.thinks or time.monotonic() < table.asks_at:
            return
        policy, request = session.request()
        if table.watcher is not None:
            policy = self.policy(table.game, table.seats[session.seat])
        if policy is not None:
            table.thinks = True
            self._thinkers.submit(lambda: self._think(table, session, policy, request))

    def _think(
        self,
        table: GameTable,
        session: SeatSession,
        policy: Policy,
        request: TurnRequest,
    ) -> None:
        """Plays the reply of an opponent, and asks the next one; runs in a thinker's thread."""
        (reply,) = ask(policy, [request], self._max_seconds, "lose")
        with table.lock:
            try:
                self._take(table, session, reply, policy.name)
            finally:
                table.thinks = False
                if table.watcher is None:
                    self._ask(table, session)
                if not table.thinks:
                    table.lock.notify_all()

    def _take(
        self, table: GameTable, session: SeatSession, reply: Reply, name: str
    ) -> None:
        """Plays an opponent's reply, or notes why there is none."""
        if reply.error is None:
            table.fault = None
            self._play(table, session, reply)
        else:
            table.fault = f"{name} gave no reply: {reply.error}"
            wait = self._max_seconds if reply.timed_out else self._pause
            table.asks_at = time.monotonic() + wait

    def review(self, table: GameTable, visitor: str, turn: int) -> dict[str, Any]:
        """The values at a past turn: of the visitor's own, or of all after the end.

        Raises:
            Refused: the turn is not over, or is another seat's in a running game.
        """
        with table.lock:
            seat, session = table.seat_of(visitor), self._running(table)
            if not 0 <= turn < len(session.turns):
                raise Refused(409, "This turn is not over.")
            if not session.done and session.turns[turn].seat != seat:
                raise Refused(403, "Turns of other seats are shown after the game.")
            played = session.turns[turn]
        return solved(session.game, played, turn)

    def record(self, table: GameTable, visitor: str) -> dict[str, Any]:
        """What a link to a finished game holds; raises Refused before the end."""
        with table.lock:
            if table.watcher != visitor:
                table.seat_of(visitor)
            session = self._running(table)
            if not session.done:
                raise Refused(
                    409, "The game is not over; its seed tells what is hidden."
                )
            return {
                "game": table.game,
                "seats": table.seats,
                "seed": table.save["seed"],
                "replies": [action_text(session.game, turn) for turn in session.turns],
            }

    def _running(self, table: GameTable) -> SeatSession:
        """The game of a table; raises Refused if its opponents are not offered any more."""
        try:
            with named_only():  # the file may be another server's
                return self._loaded_game(table)
        except NotTrusted as error:
            raise Refused(
                409, f"This server does not play that game on: {error}"
            ) from None

    def _loaded_game(self, table: GameTable) -> SeatSession:
        """The game of a table, loaded if need be."""
        if table.session is None:
            game_named(table.game)  # refuses an id that is gone
            people = table.save["seats"]
            opponents = [
                self.policy(table.game, name)
                for seat, name in enumerate(table.seats)
                if seat not in people
            ]
            session = SeatSession(
                table.game, people, opponents, prompt=PROMPT, name=PERSON, asks=False
            )
            session.restore(table.save)
            table.session, table.save = session, session.save()
        return table.session

    def _remember(self, table: GameTable) -> None:
        with self._lock:
            self._loaded[table.id] = table
            self._recent[table.id] = table
            self._recent.move_to_end(table.id)
            while len(self._recent) > CACHE_SIZE:
                self._recent.popitem(last=False)

    def _write(self, table: GameTable) -> None:
        row = (_row(table), time.time(), table.id)
        with self._lock:
            if self._is_closed:  # an opponent replied after the end
                return
            with self._file:
                change = "UPDATE tables SET data = ?, used = ? WHERE id = ?"
                self._file.execute(change, row)

    def _make_room(
        self, where: str, value: tuple[str | bool], max_tables: int, before: float
    ) -> None:
        """Deletes the longest unused tables, so that one more stays within a limit.

        Raises:
            Refused: too many were used after the moment `before`.
        """
        count = f"SELECT count(*) FROM tables WHERE {where}"
        surplus = self._file.execute(count, value).fetchone()[0] + 1 - max_tables
        if surplus <= 0:
            return
        oldest = (
            f"SELECT id FROM tables WHERE {where} AND used <= ? ORDER BY used LIMIT ?"
        )
        unused_ids = self._file.execute(oldest, (*value, before, surplus)).fetchall()
        if len(unused_ids) < surplus:
            raise Refused(429, "This server has as many games as it keeps; try later.")
        for (id,) in unused_ids:
            self._file.execute("DELETE FROM tables WHERE id = ?", (id,))
            self._recent.pop(id, None)
            self._loaded.pop(id, None)


def _row(table: GameTable) -> str:
    names = ("game", "seats", "owners", "invites", "save", "watcher")
    return json.dumps({name: getattr(table, name) for name in names})
