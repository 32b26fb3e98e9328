"""The protocol of policies; random, scripted, bot and noisy policies, and a person.

A policy chooses replies. One call of `act` answers all waiting turns. `make_policy` makes policies
of strings, such as `"mcts:1000"` or `"lm:PATH"`.
"""

import hashlib
import inspect
import os
import random
import re
import shutil
import struct
import sys
import textwrap
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TextIO

from arena_envs.bots import Bot, bots, make_bot
from arena_envs.checks import did_you_mean
from arena_envs.doors import Door, Expression, expression, split
from arena_envs.game import AnyGame
from arena_envs.hostile import break_markup, printable
from arena_envs.registration import games
from arena_envs.trust import require_operator
from arena_wrappers.prompts import (
    DATE,
    Instead,
    InvalidReply,
    Message,
    PromptOptions,
    messages,
    parse_reply,
    reply_format_named,
)
from arena_wrappers.prompts.formats import UNFINISHED
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
        cls, game: AnyGame, state: Any, options: PromptOptions, seed: int = 0
    ) -> "TurnRequest":
        """The request of the seat to move, whose prompt tells the state alone."""
        seat, shape = game.current_player(state), options.reply_format
        legal = [game.action_text(state, a) for a in game.legal_actions(state)]
        told = messages(game, state, seat, options)
        head = (0, 0, seat, game, state, told, (), legal, seed, shape)
        return cls(*head, date=options.date)

    def wrap(self, action_text: str) -> str:
        """The reply that names this action in the reply format."""
        return reply_format_named(self.reply_format).wrap(action_text)


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
    `check_game(game)`, which raises ValueError, before play, for a game that it cannot play.
    """

    @property
    def name(self) -> str:
        """Name in records; `as_policy` takes the name of the class for an object without one."""

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
        date=options.date,
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


def as_policy(thing: Any) -> Policy:
    """The policy that a string, an object with `act`, or a function stands for.

    An object without a `name` gets the name of its class.

    Args:
        thing: a string for `make_policy`, a policy, or a function for `FunctionPolicy`.

    Raises:
        ValueError: a string that names no policy.
        TypeError: nothing that can play.
    """
    if isinstance(thing, str):
        return make_policy(thing)
    if isinstance(thing, type):
        raise TypeError(
            f"want a policy, got the class {thing.__name__}; make an object of it: "
            f"{thing.__name__}(...)"
        )
    if hasattr(thing, "act"):
        if not hasattr(thing, "name"):
            thing.name = type(thing).__name__
        policy: Policy = thing
        return policy
    if callable(thing):
        return FunctionPolicy(thing)
    raise TypeError(
        f"want a policy, got {type(thing).__name__}; give a string such as 'random', an object "
        "with a method act, or a function of the request"
    )


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
                f"want a probability from 0 to 1 in {name!r}, such as "
                "noisy:0.2(minimax)"
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
        found = []
        for chances, illegal in inner.action_probs(requests):
            noise = self.probability / len(chances)
            kept = (1 - self.probability) * (1 - illegal)
            legal = self.probability + kept
            mixed = [(noise + kept * chance) / (legal or 1) for chance in chances]
            wrong = (1 - self.probability) * illegal
            found.append((mixed, wrong) if legal else (chances, illegal))
        return found


def refused_noise(name: str) -> str:
    """The error for noise around a person: rules for people would not see the person."""
    return f"want no person in noise, got {name!r}; write the person alone, as human"


def without_noise(policy: Policy) -> Policy:
    """The innermost policy of nested `NoisyPolicy` objects."""
    while isinstance(policy, NoisyPolicy):
        policy = policy.inner
    return policy


HINT, RULES = "?", "rules"
KIND = "human"  # of policy strings
_ONE_LINE = (  # the rules want a line break before the action, which ends what is typed
    'Type your reply in one line. A message, where the rules allow one, ends with ".", "!" or '
    '"?" before the action.'
)


def wrapped(text: str, stream: TextIO) -> str:
    """The text, printable, with long lines wrapped at words if the stream is a terminal."""
    text = printable(text)
    if not stream.isatty():
        return text
    width = shutil.get_terminal_size().columns
    wrap = textwrap.TextWrapper(width, break_long_words=False, break_on_hyphens=False)
    lines = text.split("\n")
    return "\n".join(wrap.fill(line) if len(line) > width else line for line in lines)


class HumanPolicy:
    """Asks a person for each action, until the input is a legal one.

    Shows the seat's text, with the legal actions numbered from 1; in language games they are
    examples. The person types an action or its number; `?` shows a hint of the advisor, `rules`
    the rules. Actions whose texts hold numbers, such as "guess 7", are not numbered. Each new
    game and seat begins with the rules. `play` and all that stands on it play one episode at a
    time.

    Args:
        advisor: the policy that gives hints; None for no hints.
        read: takes an input prompt, returns the line that the person typed.
        write: shows a text.
        name: name in records.
    """

    is_person = True

    def __init__(
        self,
        advisor: Policy | None = None,
        read: Callable[[str], str] = input,
        write: Callable[[str], None] = lambda text: print(wrapped(text, sys.stdout)),
        name: str = "human",
    ) -> None:
        self.advisor = advisor
        self.read, self.write = read, write
        self.name = name
        self._told: Any = None  # the game and the seat whose rules were shown last

    def act(self, requests: Sequence[TurnRequest]) -> list[Reply]:
        """One reply for each request.

        Raises:
            KeyboardInterrupt: the person closed the input, which ends all play as Ctrl-C does.
        """
        try:
            return [self._ask(request) for request in requests]
        except EOFError:
            raise KeyboardInterrupt from None

    def _ask(self, request: TurnRequest) -> Reply:
        game, state = request.game, request.state
        is_talk = game.num_actions is None
        if request.turn == 0:
            self.write(f"\nA new game. You are player_{request.seat}.")
            if self._told != (game, request.seat):  # the rules may be new
                self._told = game, request.seat
                self.write(game.rules(request.seat))
                if is_talk:
                    self.write(_ONE_LINE)
        self.write(f"\n{game.observe(state, request.seat)}")
        self.write(_listed(request))
        while True:
            typed = self.read(f"player_{request.seat}> ").strip()
            if typed == RULES:
                self.write(game.rules(request.seat))
            elif typed == HINT:
                self.write(self._hint(request))
            elif isinstance(found := _action_text(request, typed), str):
                return Reply(request.wrap(found))
            else:
                # in language games, what the rules want
                advice = found.detail if is_talk else _what_to_type(request.legal)
                self.write(f"Not a legal action: {typed[:80]!r}. {advice}")

    def _hint(self, request: TurnRequest) -> str:
        if self.advisor is None:
            return f"No hints here. {_what_to_type(request.legal)}"
        request = addressed(request, self.advisor)
        if hasattr(self.advisor, "action_probs"):
            ((chances, _),) = self.advisor.action_probs([request])
            pairs = zip(request.legal, chances, strict=True)
            return "\n".join(f"{p:6.1%}  {text}" for text, p in pairs)
        (reply,) = self.advisor.act([request])
        if reply.error is not None:
            return f"{self.advisor.name} has failed: {break_markup(reply.error)}"
        # a terminal would execute control characters
        return f"{self.advisor.name} says: {break_markup(reply.text)}"


def names_person(spec: str) -> bool:
    """Whether a policy string names a person: `"human"` or `"human:NAME"`."""
    return spec.partition(":")[0] == KIND


def person(spec: str) -> HumanPolicy:
    """The person that a policy string names, at this terminal.

    Everything is shown on stderr, so that stdout has the results alone.

    Raises:
        ValueError: there is no terminal, or this is one of several processes.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ValueError(
            f"policy {spec!r} needs a single process, got several (WORLD_SIZE is "
            f"{os.environ['WORLD_SIZE']}); start one process without torchrun"
        )
    if not sys.stdin.isatty():
        raise ValueError(
            f"policy {spec!r} is a person at a terminal, and the input of this process "
            "is none; start it in a terminal, and in the main process"
        )

    def show(text: str) -> None:
        print(wrapped(text, sys.stderr), file=sys.stderr)

    def read(prompt: str) -> str:
        print(prompt, end="", file=sys.stderr, flush=True)
        return input()

    return HumanPolicy(read=read, write=show, name=spec)


def _has_numbers(legal: Sequence[str]) -> bool:
    return not any(word.isdigit() for text in legal for word in text.split())


def _what_to_type(legal: Sequence[str]) -> str:
    """A hint at what to type; actions that hold numbers have no other number."""
    number = " or its number" if _has_numbers(legal) else ""
    return f'Type a legal action{number}, or "rules". Ctrl-C stops.'


def _listed(request: TurnRequest) -> str:
    """The legal actions; in language games they are examples."""
    legal, is_talk = request.legal, request.game.num_actions is None
    head = "For example: " if is_talk else "Legal actions: "
    if not _has_numbers(legal):
        return f"{head}{', '.join(legal)}."
    shown = "  ".join(f"{number}: {text}" for number, text in enumerate(legal, 1))
    return head + shown if is_talk else shown


def _action_text(request: TurnRequest, typed: str) -> str | InvalidReply:
    """The canonical text of the action that was typed."""
    game, state, legal = request.game, request.state, request.legal
    found = parse_reply(game, state, typed, "bare", legal)
    if not isinstance(found, InvalidReply):
        return game.action_text(state, found)
    is_number = typed.isascii() and typed.isdigit() and _has_numbers(legal)
    if is_number and 1 <= int(typed[:9]) <= len(legal):
        return legal[int(typed[:9]) - 1]
    return found


Maker = Callable[..., Policy]


def of_bot(*_: str, spec: str, **__: Any) -> Policy:
    """The policy of a bot, whose own door reads the string."""
    bot = make_bot(spec)
    scores = hasattr(bot, "action_probs")
    return (ScoringBotPolicy if scores else BotPolicy)(bot, name=spec)


def noisy(
    probability: float, policy: str, *, make: Callable[[str], Policy], spec: str
) -> Policy:
    """The policy of `noisy:P(STRING)`."""
    if names_person(policy):
        raise ValueError(refused_noise(spec))
    inner = make(policy)
    kind = NoisyPolicy
    if hasattr(inner, "act_async"):
        kind = AsyncNoisyPolicy
    elif hasattr(inner, "action_probs"):
        kind = ScoringNoisyPolicy
    return kind(inner, probability, spec)


policies: Door[Policy] = Door(
    "policy",
    "arena.policies",
    {
        **dict.fromkeys(bots.built_in, of_bot),
        "random": RandomPolicy,
        KIND: person,
        "noisy": noisy,
        "api": "arena_wrappers.policies.api:load",
        "array": "arena_wrappers.policies.arrays:load",
        "agent": "arena_wrappers.policies.agents:load",
    },
    given=("make", "spec"),
    trusted={
        "agent": "call models by name",
        "api": "open a connection",
        "array": "open a file",
        "best_of": "call models by name",
        "lm": "load a model",
        "vllm": "open a connection",
    },
    max_number=10_000,
)
_ELSEWHERE = {
    "past": "past:RUN works in arena eval, arena tournament and arena play; elsewhere give "
    "lm:PATH, or the policies of arena_trainers.matchmaking.snapshots.past_policies",
    "reward": "a reward model scores replies and gives none; write "
    "best_of:4(POLICY, reward:PATH)",
}


def make_policy(spec: str, makers: Mapping[str, Maker] | None = None) -> Policy:
    """The policy that an expression of `arena_envs.doors` names, such as `"mcts:100"`.

    | String | Policy |
    |---|---|
    | `"random"`, or a bot of `arena_envs.bots` | built in; a bot gets its game when it first plays |
    | `"human"`, `"human:NAME"` | a person at the terminal of this process |
    | `"lm:PATH"` | a language model in a folder |
    | `"api:MODEL"`, `"api:MODEL@URL"` | a language model behind an OpenAI-compatible endpoint |
    | `"vllm:URL"` | the model of a vLLM server, with the prompts of its folder |
    | `"array:FORMAT:PATH"` | a numeric agent, see `arena_wrappers.policies.arrays.load` |
    | `"noisy:P(STRING)"` | any of these but a person, with a random legal action at probability P |
    | `"best_of:N(STRING, reward:PATH)"` | the best of N replies of any of these but a person or an endpoint, by a reward model or another scorer of agents |
    | `"agent:NAME(STRING)"` | an agent of `arena_wrappers.policies.agents`, whose turn takes several calls of these |
    | a name of the entry-point group `arena.policies`, or `module:name` | its function or class, called with the argument and options; a function whose only parameter is `request` plays itself |

    Options may follow the name or the URL of an endpoint:
    `"api:MODEL@http://localhost:8000/v1#reply_format=boxed#temperature=0.7"`. They
    are those of `PromptOptions`, and `max_tokens`, `temperature`, `max_concurrent`, `timeout`,
    `max_retries` and `send_seed` of `ChatAPIPolicy`; any other name is that of a field of
    requests, as in `#top_p=0.9`. `arena_wrappers.policies.endpoints.key_for` finds the key.

    Args:
        spec: the string.
        makers: functions that replace others by name, also inside `noisy` and `best_of`. One
            with a parameter `make` or `spec` gets `make_policy` with these, or the string.

    Raises:
        ValueError: unknown kind, the kind does not take the argument, or a person has no
            terminal here.
        ImportError: the policy's module cannot be imported.

    >>> make_policy("mcts:1000").name
    'mcts:1000'
    """
    if names_person(spec):
        require_operator("policy", spec, "read from this terminal")
        return person(spec)
    one = expression(spec)
    if (hint := _ELSEWHERE.get(one.name)) and one.name not in (makers or {}):
        raise ValueError(f"no policy {spec!r:.200}; {hint}")
    door = replace(policies, built_in={**policies.built_in, **(makers or {})})
    if spec.endswith(".py"):
        raise ValueError(f"no policy {spec!r:.200}; {_advice_on(spec, one.name)}")
    try:
        door.read(spec)
    except ValueError:
        if advice := _advice_on(spec, one.name):
            raise ValueError(f"no policy {spec!r:.200}; {advice}") from None
        raise
    _warn_of_folder(spec, one)
    if one.name not in door.names() and (function := _function_of(door, spec)):
        return FunctionPolicy(function, name=spec)
    made: Any = door.make(spec, make=partial(make_policy, makers=makers), spec=spec)
    if not hasattr(made, "act"):
        raise ValueError(
            f"policy {spec!r:.200} lacks a method act, got {type(made).__name__}; define it, or "
            "name a function with one parameter, request, which returns the reply"
        )
    if not hasattr(made, "name"):
        made.name = spec
    policy: Policy = made
    return policy


_MODEL_FILES = ("config.json", "adapter_config.json")  # of a folder with a model


def _has_model(folder: Path) -> bool:
    return any((folder / name).is_file() for name in _MODEL_FILES)


def _advice_on(spec: str, name: str) -> str:
    """What to write in place of a string that names no policy; "" if unknown."""
    folder = Path(spec)
    if games.knows(spec) and ":" not in spec:
        return "it is a game, and here a policy is wanted, such as random or cfr"
    if folder.is_dir():
        if _has_model(folder / "model"):
            return f"write lm:{folder / 'model'} for the model of this run"
        if _has_model(folder):
            return f"write lm:{spec} for the model in this folder"
        return f"a model in a folder is lm:PATH, and {spec!r:.200} has no config.json"
    if spec.endswith(".py"):
        module = spec.removesuffix(".py").replace("/", ".").lstrip(".")
        return f"write {module}:NAME with the name of a function or class in the file"
    if re.match("https?://", spec):
        return f"write api:MODEL@{spec} for a model behind an endpoint"
    if split(spec)[1:]:
        return (
            "want one policy; write several with spaces between, or repeat the option"
        )
    if "/" in spec:
        return f"write lm:{spec} for a model in a folder or on the Hugging Face hub"
    is_module = re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", spec)
    if not is_module and not did_you_mean(name, policies.names()).endswith("?"):
        known = ", ".join(policies.names())
        return (
            f"known are {known}; a model in a folder is lm:PATH, one behind an endpoint "
            "api:MODEL@URL, and one of your own module:name"
        )
    return ""


def check_names_game(name: str) -> None:
    """Raises ValueError if a string that should name a game names a policy."""
    if policies.knows(name) and not games.knows(name):
        raise ValueError(
            f"want a game, got {name!r:.80}, which is a policy; give the id of a game, such as "
            "kuhn_poker"
        )


def _warn_of_folder(spec: str, one: Expression) -> None:
    """Warns where a built-in name is also that of a folder with a model."""
    if spec == one.name and _has_model(Path(spec)):
        warnings.warn(
            f"{spec!r} is the built-in policy of this name; write lm:./{spec} for the model in "
            "the folder",
            stacklevel=3,
        )


def _function_of(
    door: Door[Policy], spec: str
) -> Callable[[TurnRequest], str | Reply] | None:
    """The function of `module:name` if it plays itself: its only parameter is `request`."""
    function: Any = door.find(door.read(spec).name)
    if not inspect.isfunction(function):
        return None
    return (
        function if [*inspect.signature(function).parameters] == ["request"] else None
    )
