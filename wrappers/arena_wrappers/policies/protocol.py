"""The protocol of policies: a turn's request, the reply, and what a policy may say of itself."""

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeGuard

from arena_envs.game import (
    AnyGame,
    AnyState,
)
from arena_wrappers.prompts import (
    DATE,
    Instead,
    InvalidReply,
    Message,
    PromptOptions,
    find_reply_format,
    messages,
)
from arena_wrappers.prompts.parsing import UNFINISHED
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
        date: the day that the prompt says is today, where a chat template asks for it.
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
    date: str = DATE

    @classmethod
    def at(
        cls, game: AnyGame, state: AnyState, options: PromptOptions, seed: int = 0
    ) -> "TurnRequest":
        """The request of the seat to move, whose prompt tells the state alone."""
        seat = game.current_player(state)
        return cls(
            episode=0,
            turn=0,
            seat=seat,
            game=game,
            state=state,
            messages=messages(game, state, seat, options),
            context_ids=(),
            legal=[game.action_text(state, a) for a in game.legal_actions(state)],
            seed=seed,
            reply_format=options.reply_format,
            date=options.date,
        )

    def wrap(self, action_text: str) -> str:
        """The reply that names this action in the reply format."""
        return find_reply_format(self.reply_format).wrap(action_text)


# what a model may send in place of text, and what is said of it
INSTEAD: dict[Instead, str] = {
    "empty": "The reply is empty.",
    "reasoning": UNFINISHED,
    "refusal": "The model refused to reply.",
    "tool_call": "The reply is a tool call and has no text.",
    "content_filter": "A content filter removed the reply.",
    "context_length": "The prompt is longer than the model's context.",
}


@dataclass  # not frozen, which takes three times as long to make
class Reply:
    """The reply of a policy.

    Attributes:
        text: the raw reply. Its reasoning has marks of `arena_wrappers.prompts.reasoning`; it
            begins with one if the prompt has opened the reasoning.
        prompt_ids: token ids of the prompt that the model read.
        token_ids: token ids of the reply, with its end token.
        logprobs: log-probability of each reply token under the sampling distribution.
        truncated: whether a length limit cut the reply.
        error: why there is no reply, such as a server that fails; None if there is one. An
            episode without a reply is lost, see `Episode.lost`.
        timed_out: whether there is no reply because it took too long.
        instead: why the model sent no text: `"empty"`, `"reasoning"` (nothing else), `"refusal"`,
            `"tool_call"`, `"content_filter"`, or `"context_length"` for a prompt beyond its
            context; None if it sent text. Such a reply is invalid.
        entropies: entropy of the distribution of each reply token, in nats.
        generations: the calls of models that led to it, where there were several.
        cause: the exception in this process that is the reason of `error`; `play` raises it
            unless `on_error="lose"`.
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
    cause: Exception | None = field(default=None, repr=False, compare=False)

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

    A policy with `is_person = True` plays one episode at a time. A policy may have a method
    `check_game(game)`, which raises ValueError, before play, for a game that it cannot play. A
    policy may have a method `forget_episodes()`, called when play ends: it frees what the policy
    keeps between the turns of an episode. A policy around others passes the call on.
    """

    @property
    def name(self) -> str:
        """Name in records; `as_policy` takes the name of the class for an object without one."""

    def act(self, requests: Sequence[TurnRequest]) -> Sequence[Reply]:
        """One reply for each request, in order."""


class AsyncPolicy(Policy, Protocol):
    """A policy that answers each request on its own, such as a model behind an endpoint.

    `play` and `stream_plans` do not play it in lockstep, see `arena_wrappers.play_async`. A policy whose
    attribute `act_async` is None answers many requests in one call.
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


def is_async(policy: Policy) -> TypeGuard[AsyncPolicy]:
    """Whether the policy answers each request on its own."""
    return getattr(policy, "act_async", None) is not None


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
        date=options.date,
    )


def forget_episodes(policy: object) -> None:
    """Tells a policy, or what generates for it, that the episodes in progress have ended."""
    forget = getattr(policy, "forget_episodes", None)
    if forget is not None:
        forget()


class ScoringPolicy(Policy, Protocol):
    """A policy that reports its action probabilities."""

    def action_probs(
        self, requests: Sequence[TurnRequest]
    ) -> list[tuple[list[float], float]]:
        """For each request: probabilities of `legal` (sum 1), and the illegal mass.

        The illegal mass is the probability of all replies that are not the canonical text of
        a legal action.
        """


FOUR_NUMBERS = struct.Struct("<4Q")


def turn_seed(seed: int, sample: int, turn: int, seat: int) -> int:
    """Seed of a turn: a hash of the episode's seed, its index in the group, turn and seat.

    >>> turn_seed(7, 0, 0, 1) == turn_seed(7, 0, 0, 1) != turn_seed(7, 0, 1, 1)
    True
    """
    numbers = FOUR_NUMBERS.pack(seed & (2**64 - 1), sample, turn, seat)
    return int.from_bytes(hashlib.blake2b(numbers, digest_size=8).digest()) >> 1
