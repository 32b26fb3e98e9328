"""The protocol of policies; random, scripted, bot and noisy policies.

A policy chooses replies. One call of `act` answers all waiting turns.
"""

import hashlib
import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from arena_envs.bots import Bot
from arena_envs.game import AnyGame
from arena_wrappers.prompts import (
    Instead,
    InvalidReply,
    Message,
    PromptOptions,
    messages,
    reply_format_named,
)
from arena_wrappers.records import Generation, Turn


@dataclass  # not frozen, which takes three times as long to make
class TurnRequest:
    """A turn for which a policy chooses the reply.

    Attributes:
        episode: index of the episode within the call of `play`.
        turn: index of the turn among this seat's turns of the episode, from 0.
        seat: the seat to move.
        game: the rules.
        state: the state, with hidden parts; for bots only.
        messages: the prompt.
        context_ids: token ids of this seat's conversation so far, if its history is a
            transcript and its policy reports tokens; empty otherwise.
        legal: canonical texts of the legal actions.
        seed: seed of all random choices of this turn.
        reply_format: name of the reply format.
        turns: all turns of the episode so far, of every seat; for agents, which see their own.
    """

    episode: int
    turn: int
    seat: int
    game: AnyGame
    state: Any
    messages: Sequence[Message]
    context_ids: Sequence[int]
    legal: Sequence[str]
    seed: int
    reply_format: str = "bare"
    turns: Sequence[Turn] = field(default=(), repr=False)

    @classmethod
    def at(
        cls, game: AnyGame, state: Any, options: PromptOptions, seed: int = 0
    ) -> "TurnRequest":
        """The request of the seat to move, whose prompt tells the state alone."""
        seat, shape = game.current_player(state), options.reply_format
        legal = [game.action_text(state, a) for a in game.legal_actions(state)]
        told = messages(game, state, seat, options)
        return cls(0, 0, seat, game, state, told, (), legal, seed, shape)

    def wrap(self, action_text: str) -> str:
        """The reply that names this action in the reply format."""
        return reply_format_named(self.reply_format).wrap(action_text)


# what a model may send in place of text, and what is said of it
INSTEAD: dict[Instead, str] = {
    "empty": "The reply is empty.",
    "refusal": "The model refused to reply.",
    "tool_call": "The reply is a tool call and has no text.",
    "content_filter": "A content filter removed the reply.",
    "context_length": "The prompt is longer than the model's context.",
}


@dataclass  # not frozen, which takes three times as long to make
class Reply:
    """The reply of a policy.

    Attributes:
        text: the raw reply.
        prompt_ids: token ids of the prompt that the model read.
        token_ids: token ids of the reply, with its end token.
        logprobs: log-probability of each reply token under the sampling distribution.
        truncated: whether a length limit cut the reply.
        error: why there is no reply, such as a server that fails; None if there is one. An
            episode without a reply is lost, see `Episode.lost`.
        timed_out: whether there is no reply because it took too long.
        instead: why the model sent no text: `"empty"`, `"refusal"`, `"tool_call"`,
            `"content_filter"`, or `"context_length"` for a prompt beyond its context; None if
            it sent text. Such a reply is invalid.
        entropies: entropy of the distribution of each reply token, in nats.
        generations: the calls of models that led to it, where there were several.
    """

    text: str
    prompt_ids: Sequence[int] | None = None
    token_ids: Sequence[int] | None = None
    logprobs: Sequence[float] | None = None
    truncated: bool = False
    error: str | None = None
    timed_out: bool = False
    instead: Instead | None = None
    entropies: Sequence[float] | None = None
    generations: Sequence[Generation] = ()

    @property
    def invalid(self) -> InvalidReply | None:
        """The reason if the reply is invalid whatever its text; None if the text decides."""
        if self.truncated:
            return InvalidReply("overlong", "The reply was cut at its length limit.")
        if self.instead is not None:
            return InvalidReply(self.instead, INSTEAD[self.instead])
        return None


class Policy(Protocol):
    """Chooses replies; all its randomness comes from the seed of the request.

    A policy may have an attribute `prompt`: the `PromptOptions` that it was made for. They
    then determine its prompts and the parsing of its replies, in every seat. Without the
    attribute, or if it is None, the environment's options hold.

    A policy with `is_person = True` plays one episode at a time.
    """

    @property
    def name(self) -> str:
        """Name in records."""

    def act(self, requests: Sequence[TurnRequest]) -> Sequence[Reply]:
        """One reply for each request, in order."""


class AsyncPolicy(Policy, Protocol):
    """A policy that answers each request on its own, such as a model behind an endpoint.

    `play` and `stream_plans` do not play it in lockstep, see `arena_wrappers.play_async`.
    """

    async def act_async(
        self, request: TurnRequest, timeout: float | None = None
    ) -> Reply:
        """The reply to one request; many calls may be in progress.

        Args:
            request: what is asked.
            timeout: seconds that the reply may take, not counting the wait for a free place
                among the policy's requests; None for no limit.

        Raises:
            TimeoutError: there is no reply after these seconds.
        """


def own_prompt(policy: Policy) -> PromptOptions | None:
    """The prompt options that a policy carries; None if it carries none.

    Raises:
        TypeError: its attribute `prompt` has another type.
    """
    prompt = getattr(policy, "prompt", None)
    if not isinstance(prompt, PromptOptions | None):
        raise TypeError(
            f"policy {policy.name!r}: want PromptOptions or None as its attribute "
            f"prompt, got {type(prompt).__name__}"
        )
    return prompt


def addressed(request: TurnRequest, policy: Policy) -> TurnRequest:
    """The request as another policy than the seat's own reads it.

    If this policy has prompt options, they make its prompt from the state alone, because it
    took part in no earlier turn. Otherwise the request stays as it is.
    """
    options = own_prompt(policy)
    if options is None:
        return request
    return replace(
        request,
        messages=messages(request.game, request.state, request.seat, options),
        context_ids=(),
        reply_format=options.reply_format,
    )


class ScoringPolicy(Policy, Protocol):
    """A policy that reports its action probabilities."""

    def action_probs(
        self, requests: Sequence[TurnRequest]
    ) -> list[tuple[list[float], float]]:
        """For each request: probabilities of `legal` (sum 1), and the illegal mass.

        The illegal mass is the probability of all replies that are not the canonical text of
        a legal action.
        """


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
        if request.turn >= len(self.script):
            raise IndexError(
                f"want a reply for turn {request.turn}, got a script of {len(self.script)} "
                "replies; add one"
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
            action = self.bot(request.game, request.state, random.Random(request.seed))
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
        return [(list(bot.action_probs(r.game, r.state)), 0.0) for r in requests]


def turn_seed(seed: int, sample: int, turn: int, seat: int) -> int:
    """Seed of a turn: a hash of the episode's seed, its index in the group, turn and seat.

    >>> turn_seed(7, 0, 0, 1) == turn_seed(7, 0, 0, 1) != turn_seed(7, 0, 1, 1)
    True
    """
    numbers = struct.pack("<4Q", seed & (2**64 - 1), sample, turn, seat)
    return int.from_bytes(hashlib.blake2b(numbers, digest_size=8).digest()) >> 1


NOISE = 0x6E6F697365  # makes draws independent of the inner policy's, which has the same seed


class NoisyPolicy:
    """Plays a random legal action with a given probability, else an inner policy's action.

    Args:
        inner: the inner policy; it gets no request where the action is random.
        probability: probability of a random action, from 0 to 1.
        name: name in records.

    Raises:
        ValueError: `probability` is not from 0 to 1, or the inner policy is a person.
    """

    def __init__(self, inner: Policy, probability: float, name: str) -> None:
        if not 0 <= probability <= 1:
            raise ValueError(
                f"want a probability from 0 to 1 in {name!r}, such as noisy:0.2(minimax)"
            )
        if getattr(inner, "is_person", False):
            raise ValueError(refused_noise(name))
        self.inner = inner
        self.probability = probability
        self.name = name

    @property
    def prompt(self) -> PromptOptions | None:
        """The prompt options that the inner policy carries."""
        return own_prompt(self.inner)

    def act(self, requests: Sequence[TurnRequest]) -> list[Reply]:
        drawn = [self._random_reply(request) for request in requests]
        asked = [r for r, reply in zip(requests, drawn, strict=True) if reply is None]
        replies = iter(self.inner.act(asked) if asked else ())
        return [next(replies) if reply is None else reply for reply in drawn]

    def _random_reply(self, request: TurnRequest) -> Reply | None:
        rng = random.Random(request.seed ^ NOISE)
        if rng.random() >= self.probability:
            return None
        return Reply(request.wrap(rng.choice(request.legal)))


class AsyncNoisyPolicy(NoisyPolicy):
    """A `NoisyPolicy` around a policy with `act_async`."""

    async def act_async(
        self, request: TurnRequest, timeout: float | None = None
    ) -> Reply:
        inner: Any = self.inner
        drawn = self._random_reply(request)
        return drawn or await inner.act_async(request, timeout)


class ScoringNoisyPolicy(NoisyPolicy):
    """A `NoisyPolicy` around a policy with `action_probs`."""

    def action_probs(
        self, requests: Sequence[TurnRequest]
    ) -> list[tuple[list[float], float]]:
        inner: Any = self.inner
        return [self._mixed(*found) for found in inner.action_probs(requests)]

    def _mixed(self, chances: list[float], illegal: float) -> tuple[list[float], float]:
        noise = self.probability / len(chances)
        kept = (1 - self.probability) * (1 - illegal)
        legal = self.probability + kept
        if not legal:
            return chances, illegal
        mixed = [(noise + kept * chance) / legal for chance in chances]
        return mixed, (1 - self.probability) * illegal


def refused_noise(name: str) -> str:
    """The error for noise around a person: rules for people would not see the person."""
    return f"want no person in noise, got {name!r}; write the person alone, as human"


def without_noise(policy: Policy) -> Policy:
    """The innermost policy of nested `NoisyPolicy` objects."""
    while isinstance(policy, NoisyPolicy):
        policy = policy.inner
    return policy
