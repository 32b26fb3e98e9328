"""Policies of a function, a script or a bot, and the random one."""

import random
from collections.abc import Callable, Sequence
from typing import Any

from arena_envs.bots import Bot
from arena_envs.transforms import stage_of
from arena_wrappers.policies.protocol import Reply, TurnRequest


class RandomPolicy:
    """Plays each legal action with the same probability."""

    name = "random"

    def act(self, requests: Sequence[TurnRequest]) -> list[Reply]:
        return [
            Reply(request.wrap(random.Random(request.seed).choice(request.legal)))
            for request in requests
        ]

    def action_probs(
        self, requests: Sequence[TurnRequest]
    ) -> list[tuple[list[float], float]]:
        return [([1 / len(r.legal)] * len(r.legal), 0.0) for r in requests]


class ScriptedPolicy:
    """Gives the replies of a script unchanged: they must contain the reply format's marks.

    Args:
        script: the replies of a seat, one per turn, or a function of the request.
        name: name in records.

    Raises:
        IndexError: from `act`, when the script has no reply for a turn.
    """

    def __init__(
        self,
        script: Sequence[str] | Callable[[TurnRequest], str],
        name: str = "scripted",
    ) -> None:
        self.script = script
        self.name = name

    def act(self, requests: Sequence[TurnRequest]) -> list[Reply]:
        return [Reply(self._line(request)) for request in requests]

    def _line(self, request: TurnRequest) -> str:
        if callable(self.script):
            return self.script(request)
        if request.turn >= (num := len(self.script)):
            raise IndexError(
                f"want a reply for turn {request.turn}, got a script of {num} replies; "
                "add one"
            )
        return self.script[request.turn]


class BotPolicy:
    """The policy of a bot, which reads states instead of text.

    Args:
        bot: function of the game, the state and a generator that returns an action; see
            `arena_envs.bots`.
        name: name in records.
    """

    def __init__(self, bot: Bot, name: str = "bot") -> None:
        self.bot = bot
        self.name = name

    def act(self, requests: Sequence[TurnRequest]) -> list[Reply]:
        return [Reply(self._reply(request)) for request in requests]

    def _reply(self, request: TurnRequest) -> str:
        try:
            game, state = stage_of(request.game, request.state)
            action = self.bot(game, state, random.Random(request.seed))
        except ValueError as error:
            if type(error) is not ValueError:
                raise  # callers tell subclasses apart, such as TooLarge
            raise ValueError(f"policy {self.name!r}: {error}") from error
        return request.wrap(request.game.action_text(request.state, action))


class ScoringBotPolicy(BotPolicy):
    """A `BotPolicy` whose bot reports its action probabilities, such as a tabular one.

    Args:
        bot: a bot with `action_probs(game, state)`: probabilities of the legal actions.
        name: name in records.
    """

    def action_probs(
        self, requests: Sequence[TurnRequest]
    ) -> list[tuple[list[float], float]]:
        bot: Any = self.bot
        return [
            (list(bot.action_probs(*stage_of(r.game, r.state))), 0.0) for r in requests
        ]


class FunctionPolicy:
    """The policy of a function of one request.

    Args:
        function: gets a `TurnRequest`; returns the text of the reply as a model would write it,
            or a `Reply`. `request.wrap(request.legal[0])` is the text for the first legal action.
        name: name in records; the function's own by default.
    """

    def __init__(
        self, function: Callable[[TurnRequest], str | Reply], name: str | None = None
    ) -> None:
        self.function = function
        self.name = name or str(getattr(function, "__name__", type(function).__name__))

    def act(self, requests: Sequence[TurnRequest]) -> list[Reply]:
        return [self._reply(request) for request in requests]

    def _reply(self, request: TurnRequest) -> Reply:
        reply = self.function(request)
        if not isinstance(reply, str | Reply):
            raise TypeError(
                f"policy {self.name!r} returned {reply!r:.80}; want a text or a Reply, such as "
                "request.wrap(request.legal[0])"
            )
        return Reply(reply) if isinstance(reply, str) else reply
