"""The Python of the site's page `play/`: it answers `app.js` as the server of `arena serve web` does.

It runs in the browser, in a Web Worker with Pyodide, and needs none of numpy, Gymnasium and
PettingZoo. `build_play.py` packs it with the packages' own modules.
"""

import json
import math
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from arena_envs import make_game
from arena_envs.bots.solved import Tabular
from arena_envs.game import AnyGame
from arena_envs.nodes import Chance, graph_of
from arena_eval.move_values import MoveSolver, MoveValueTable, Source
from arena_studio.web.views import action_text, frames, seat_view, values_at
from arena_wrappers.policies import (
    BotPolicy,
    Policy,
    ScriptedPolicy,
    TurnRequest,
    make_policy,
    turn_seed,
)
from arena_wrappers.prompts import InvalidReply, PromptOptions
from arena_wrappers.records import Turn

PERSON = "person"
MAX_SEED = 2**53  # JavaScript's integers are exact below it
MAX_REPLY = 10_000  # characters
OPTIONS = PromptOptions("bare")


class Refused(Exception):
    """A request that is not allowed now, with the status that the server gives it."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Rows(dict[str, Sequence[float]]):
    """Rows of a table from a file, by (seat, information state)."""

    def __getitem__(self, key: Any) -> Sequence[float]:
        return super().__getitem__(repr(key))

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(repr(key), default)


class Session:
    """A game by its rules: the turns of `SeatSession` with the same seed, without an environment.

    Args:
        id: of the game.
        players: by seat, a policy; None for a person.
        seed: of chance and of the policies.
        replies: what was played before, from the first turn on; of any seat.

    Raises:
        Refused: a reply is no legal action, or one comes after the end.
    """

    def __init__(
        self,
        id: str,
        players: Sequence[Policy | None],
        seed: int,
        replies: Sequence[str] = (),
    ) -> None:
        self.game, self.players, self.seed = make_game(id), players, seed
        self._graph, self._chance = graph_of(self.game), Chance()
        self._chance.seed(seed)
        self.node, _ = self._chance.settle(self._graph, self._graph.root)
        self.turns: list[Turn] = []
        for reply in replies:
            self.step(reply)

    @property
    def done(self) -> bool:
        """Whether the game is over."""
        return self.node.player < 0

    @property
    def seat(self) -> int:
        """The seat to move."""
        return self.node.player

    @property
    def state(self) -> Any:
        """The state of the game, hidden parts included."""
        return self.node.state

    @property
    def returns(self) -> list[float]:
        """What each seat was paid so far."""
        return [float(paid) for paid in self.node.returns]

    def info(self) -> dict[str, Any]:
        """The legal actions as texts."""
        return {"legal": list(self._graph.legal_texts(self.node))}

    def step(self, reply: str) -> None:
        """Plays a reply of the seat to move."""
        if self.done:
            raise Refused(400, "The game ended before these replies.")
        legal, seat, before = self.info()["legal"], self.seat, self.node
        action = OPTIONS.parse(self.game, self.state, reply, legal or None)
        if isinstance(action, InvalidReply):
            raise Refused(422, action.detail)
        node = self._graph.child(self.node, action)
        self.node, _ = self._chance.settle(self._graph, node)
        if self.game.num_actions is None:
            action = self.game.action_text(before.state, action)
        index, name = self._index(seat), getattr(self.players[seat], "name", PERSON)
        asked = (index, seat, name, (), legal)
        self.turns.append(Turn(*asked, reply, action, None, None, state=before.state))
        last = {turn.seat: turn for turn in self.turns}
        for seat, turn in last.items():
            paid = float(self.node.returns[seat] - before.returns[seat])
            turn.rewards["game"] = turn.rewards.get("game", 0.0) + paid

    def go_on(self, max_turns: float = math.inf) -> None:
        """Lets the policies play until a person is to move, for at most so many turns."""
        end = len(self.turns) + max_turns
        while (
            not self.done
            and len(self.turns) < end
            and (policy := self.players[self.seat]) is not None
        ):
            index, legal = self._index(self.seat), self.info()["legal"]
            request = TurnRequest(
                0,
                index,
                self.seat,
                self.game,
                self.state,
                [],
                (),
                legal,
                seed=turn_seed(self.seed, 0, index, self.seat),
            )
            self.step(policy.act([request])[0].text)

    def _index(self, seat: int) -> int:
        return sum(turn.seat == seat for turn in self.turns)


class Tables:
    """The games of a page.

    Args:
        offers: what `build_play.offers` has written.
    """

    def __init__(self, offers: Mapping[str, Any]) -> None:
        self._games = offers["games"]
        self._offered = offers["opponents"]
        self._kept = offers["values"]
        self._solvers: dict[str, tuple[Source | None, MoveSolver]] = {}
        self._policies: dict[tuple[str, str], Policy] = {}
        self._saved: dict[str, dict[str, Any]] = {}
        self._sessions: dict[str, Session] = {}

    def answer(self, path: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a request.

        Args:
            path: as of the server.
            given: its body. `saved`, of a table that this page does not know, is what an
                earlier answer had as `saved`.

        Raises:
            Refused: it is not allowed now.
        """
        path, _, query = path.partition("?")
        match path.strip("/").split("/"):
            case ["api", "visit"]:
                return {"entered": True, "token": False}
            case ["api", "games"]:
                return {"games": self._games}
            case ["api", "games", id]:
                return {"opponents": self._offered[id]}
            case ["api", "tables"]:
                return self.open(given)
            case ["api", "tables", id, *rest]:
                session = self._session(id, given.get("saved"))
                if rest == ["reply"]:
                    self._reply(id, session, given)
                if rest == ["review"]:
                    turn = int(query.partition("=")[2])
                    return self._values(self._saved[id]["game"], session, turn)
                if rest == ["record"]:
                    return self._record(id, session)
                if rest == ["watch"]:
                    return self._watch(id, session, int(query.partition("=")[2]))
                return self._view(id, session)
            case ["api", "replay"]:
                session = self._replayed(given)
                title = self._facts(given["game"])["title"]
                return {"game": given["game"], "title": title, **frames(session)}
            case ["api", "values"]:
                return self._values(given["game"], self._replayed(given), given["turn"])
        raise Refused(404, f"There is no {path}.")

    def open(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """A new table."""
        id, seats = given["game"], given["seats"]
        num_players = self._facts(id)["players"]
        if len(seats) != num_players or seats.count(PERSON) > 1:
            raise Refused(400, f"Want {num_players} seats, at most one of a person.")
        seed = given.get("seed", secrets.randbelow(MAX_SEED))
        table = secrets.token_urlsafe(9)
        saved = {"game": id, "seats": seats, "seed": seed, "replies": []}
        session = self._session(table, saved)
        if PERSON not in seats:
            return self._watch(table, session, 0)
        return self._view(table, session)

    def _facts(self, id: Any) -> Any:
        found = [game for game in self._games if game["id"] == id]
        if not found:
            raise Refused(404, f"There is no game {id!r:.80}.")
        return found[0]

    def _session(self, id: str, saved: Any) -> Session:
        if id not in self._sessions:
            if saved is None:
                raise Refused(404, "There is no such table in this browser.")
            self._facts(saved["game"])
            players = [self._policy(saved["game"], name) for name in saved["seats"]]
            session = Session(saved["game"], players, saved["seed"], saved["replies"])
            if PERSON in saved["seats"]:
                session.go_on()
            self._sessions[id], self._saved[id] = session, saved
        return self._sessions[id]

    def _policy(self, game: str, name: str) -> Policy | None:
        if name == PERSON:
            return None
        if name not in self._offered[game]:
            raise Refused(400, f"{game} does not offer {name!r:.80} as opponent.")
        if (game, name) not in self._policies:
            made = make_policy(name)
            source, _ = self._solver(game)
            if name == "cfr" and isinstance(source, MoveValueTable):
                made = BotPolicy(Tabular(source.policy), name)
            self._policies[game, name] = made
        return self._policies[game, name]

    def _view(self, id: str, session: Session) -> dict[str, Any]:
        saved = self._saved[id]
        seat = saved["seats"].index(PERSON)
        return {
            "table": id,
            "game": saved["game"],
            "seats": saved["seats"],
            "invites": [],
            "turn": len(session.turns),
            "own_turns": [i for i, t in enumerate(session.turns) if t.seat == seat],
            "forfeited_by": None,
            "saved": self._now(id, session),
            **seat_view(session, seat),
        }

    def _now(self, id: str, session: Session) -> dict[str, Any]:
        """The game with its replies so far, as a file or a link keeps it."""
        replies = [action_text(session.game, turn) for turn in session.turns]
        return {**self._saved[id], "replies": replies}

    def _watch(self, id: str, session: Session, start: int) -> dict[str, Any]:
        """The turns from `start` on of a game of policies; a visitor who has all of them gets one more."""
        if start >= len(session.turns):
            session.go_on(1)
        saved = self._now(id, session)
        return {
            "table": id,
            "game": saved["game"],
            "title": self._facts(saved["game"])["title"],
            "seats": saved["seats"],
            "thinks": False,
            "fault": None,
            "saved": saved,
            **frames(session, start),
        }

    def _reply(self, id: str, session: Session, given: Mapping[str, Any]) -> None:
        if session.done or given["turn"] != len(session.turns):
            raise Refused(409, "The game has gone on; look again.")
        if len(given["text"]) > MAX_REPLY:
            raise Refused(413, f"Want at most {MAX_REPLY} characters.")
        session.step(given["text"])
        session.go_on()

    def _record(self, id: str, session: Session) -> dict[str, Any]:
        if not session.done:
            raise Refused(409, "The game is not over; its seed tells what is hidden.")
        return self._now(id, session)

    def _replayed(self, record: Mapping[str, Any]) -> Session:
        num_players = self._facts(record.get("game"))["players"]
        seed: Any = record.get("seed")
        replies: Any = record.get("replies")
        fits = type(seed) is int and 0 <= seed < MAX_SEED and isinstance(replies, list)
        if not fits or not all(isinstance(reply, str) for reply in replies):
            raise Refused(400, "This is no record of a game.")
        nobody = ScriptedPolicy(())
        return Session(record["game"], [nobody] * num_players, seed, replies)

    def _values(self, id: str, session: Session, turn: int) -> dict[str, Any]:
        if not 0 <= turn < len(session.turns):
            raise Refused(409, "This turn is not over.")
        _, solver = self._solver(id)
        return values_at(solver, session.game, session.turns[turn], turn)

    def _solver(self, id: str) -> tuple[Source | None, MoveSolver]:
        """The kept values of a game, if there are any, and what finds those of its moves."""
        if id not in self._solvers:
            game, kept = make_game(id), self._kept.get(id)
            source = None if kept is None else _source(game, kept)
            known = {} if source is None else {(type(game), repr(game)): source}
            self._solvers[id] = source, MoveSolver(known)
        return self._solvers[id]


def _source(game: AnyGame, kept: Any) -> Source:
    """The values of a game, as a file has kept them."""
    if isinstance(kept, str):
        return kept
    rows, policy, reference, accuracy = kept
    nan = {
        k: [float("nan") if v is None else v for v in row] for k, row in rows.items()
    }
    values: Any = Rows(nan)
    chances: Any = Rows(policy)
    table = MoveValueTable(game, values, chances, "", accuracy)
    table.reference = reference
    return table


_tables: list[Tables] = []


def start(offers: str) -> None:
    """Makes the tables of the page; `offers` is JSON."""
    _tables[:] = [Tables(json.loads(offers))]


def answer(path: str, body: str) -> str:
    """The answer to a request as JSON: `[status, what app.js reads]`."""
    try:
        return json.dumps([200, _tables[0].answer(path, json.loads(body))])
    except Refused as error:
        return json.dumps([error.status, {"error": str(error)}])
