"""verifiers: a taskset of one seat and several turns as a game of language here, `VerifiersTurns`.

The environment of the taskset drives an agent: it sends messages and reads replies. The agent is played by the
replies of a state, one after the other, so a state needs no running environment. Each turn replays the
conversation from its beginning.
"""

import hashlib
import json
import random
from collections.abc import AsyncIterator, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_envs.game import CHANCE, TERMINAL, check_split, of_split, param
from arena_envs.talk import Move, TalkGame, Utterance, written
from arena_wrappers.adapters import check_version
from arena_wrappers.adapters.verifiers_tasks import (
    check_installed,
    new_trace,
    reward_of,
    within,
)

check_version("verifiers", "verifiers", "0.4", "0.5")

import verifiers.v1 as vf  # noqa: E402
from verifiers.v1.agent import Segment  # noqa: E402
from verifiers.v1.configs.env import EnvConfig  # noqa: E402
from verifiers.v1.episode import EnvInfo  # noqa: E402
from verifiers.v1.utils.generic import concrete_type  # noqa: E402
from verifiers.v1.utils.loaders import environment_class  # noqa: E402

SAY = Move("say", message="must")
NOT_DRAWN = -1
MAX_REDRAWS = 16
MAX_CORE = 20  # answers among the legal actions
MAX_TEXT = 16_000  # characters of a conversation that a text shows, the latest ones


class TurnsState(NamedTuple):
    """The number of the task that chance drew, and the replies so far."""

    task: int = NOT_DRAWN
    replies: tuple[str, ...] = ()


class Exchange(NamedTuple):
    """What an environment did with some replies.

    Attributes:
        messages: what it said before each reply, and after the last one, unless the episode ended.
        reward: the sum of all rewards; None while it waits for a reply.
    """

    messages: tuple[str, ...]
    reward: float | None


class _Waiting(BaseException):
    """The environment waits for a further reply. It is no `Exception`, as the environment may catch those."""


@dataclass(frozen=True)
class VerifiersTurns(TalkGame[TurnsState, Utterance]):
    """A taskset of verifiers whose environment talks to one agent, in several turns.

    Chance draws a task; half of the tasks are the split "test". The environment runs in this process, again
    at each turn: it has to say the same to the same replies. After `max_replies` replies its agent has ended,
    as with verifiers' limit of turns. The return is the sum of its rewards, cut to 0 to 1; those that need a
    runtime do not count, and an environment that fails pays 0.

    Args:
        taskset: id of a taskset, as of `vf-eval`.
        config: fields of its config, as a mapping or as JSON.
        split: which half of the tasks.
        num_tasks: most tasks that are read.
        max_replies: most replies of an episode.
        limit: seconds that the environment may take for a turn.
        max_message: longest reply in characters.
    """

    taskset: str
    config: str | Mapping[str, Any] = "{}"
    split: Literal["train", "test"] = "train"
    num_tasks: int = param(500, 2, 10_000)
    max_replies: int = param(10, 1, 100)
    limit: float = param(60.0, 0.001, 86_400.0)
    max_message: int = param(2_000, 1, 10_000)

    num_players = 1
    kind, information = "cooperative", "imperfect"
    min_return, max_return = 0.0, 1.0
    first_state = TurnsState()

    def __post_init__(self) -> None:
        if isinstance(self.config, Mapping):
            text = json.dumps(dict(self.config), sort_keys=True)
            object.__setattr__(self, "config", text)
        super().__post_init__()
        check_split(self.split, is_drawn=True)
        self._world  # noqa: B018 # refuses what does not fit

    @property
    def _world(self) -> tuple[Any, Sequence[Any]]:
        """The environment, and the first tasks."""
        return _world(self.taskset, str(self.config), self.num_tasks)

    @property
    def max_turns(self) -> int:
        return self.max_replies

    @property
    def _tasks(self) -> Sequence[Any]:
        return self._world[1]

    @property
    def instances(self) -> Sequence[int]:
        """The numbers of the tasks of the split."""
        return of_split(range(len(self._tasks)), self.split)

    def current_player(self, state: TurnsState) -> int:
        if state.task == NOT_DRAWN:
            return CHANCE
        return 0 if self._exchange(state).reward is None else TERMINAL

    def chance_outcomes(self, state: TurnsState) -> Sequence[tuple[Any, float]]:
        if state.task != NOT_DRAWN:
            return ()
        return [(task, 1 / len(self.instances)) for task in self.instances]

    def moves_at(self, state: TurnsState) -> tuple[Move, ...]:
        return (SAY,)

    def legal_actions(self, state: TurnsState) -> Sequence[Any]:
        """Some short answers of all tasks of the split, so that they tell nothing of this one."""
        if self.current_player(state) != 0:
            return ()
        tasks = (self._tasks[number].data for number in self.instances)
        answers = {str(getattr(data, "answer", "")) for data in tasks}
        short_answers = [
            text
            for text in sorted(answers)
            # the kit writes actions in any case, and with more blanks
            if text.split() == [text.upper()] == [text.lower()] and len(text) <= 20
        ]
        texts = {"0", "1", *short_answers[:MAX_CORE]}
        return [Utterance("say", (), text) for text in sorted(texts)]

    def shown_actions(self, state: TurnsState) -> Sequence[Any]:
        """None: they would be hints."""
        return ()

    def apply(self, state: TurnsState, action: Any) -> TurnsState:
        if state.task == NOT_DRAWN:
            return TurnsState(action)
        return TurnsState(state.task, (*state.replies, action.message))

    def action_text(self, state: TurnsState, action: Utterance) -> str:
        return written(action, (SAY,))

    def returns(self, state: TurnsState) -> Sequence[float]:
        reward = None if state.task == NOT_DRAWN else self._exchange(state).reward
        return (reward or 0.0,)

    def forfeit(self, state: TurnsState, seat: int) -> Sequence[float]:
        return (0.0,)

    def information_state(self, state: TurnsState, seat: int) -> Hashable:
        return self.observe(state, seat)

    def observe(self, state: TurnsState, seat: int) -> str:
        if state.task == NOT_DRAWN:
            return "A task is being drawn."
        exchange = self._exchange(state)
        lines = []
        for number, message in enumerate(exchange.messages):
            lines.append(message)
            if number < len(state.replies):
                lines.append(f"You said: {state.replies[number]}")
        if exchange.reward is not None:
            lines.append(f"The task is over. Your score is {exchange.reward:g}.")
        # two states may have the same end of a long conversation
        lines.append(f"Replies: {len(state.replies)} of at most {self.max_replies}.")
        return "\n".join(lines)[-MAX_TEXT:]

    def features(self, state: TurnsState, seat: int) -> NDArray[np.float32]:
        """The number of replies, and the bits of a checksum of the text."""
        digest = hashlib.blake2b(self.observe(state, seat).encode(), digest_size=8)
        bits = np.unpackbits(np.frombuffer(digest.digest(), np.uint8))
        return np.array([len(state.replies), *bits], np.float32)

    def rules(self, seat: int) -> str:
        return (
            "You work on a task in one or several replies. After each reply you are told what follows. Your "
            "score is from 0 to 1."
        )

    def resample(self, state: TurnsState, seat: int, rng: random.Random) -> TurnsState:
        """Another task with which the seat would have read the same, if a few draws find one."""
        text = self.observe(state, seat)
        for _ in range(MAX_REDRAWS):
            twin = state._replace(task=rng.choice(self.instances))
            if self.observe(twin, seat) == text:
                return twin
        return state

    def _exchange(self, state: TurnsState) -> Exchange:
        env, tasks = self._world
        task = tasks[state.task]
        return _exchanged(
            _Key(env, task), state.replies, self.max_replies, self.limit, self.taskset
        )


class _Key(NamedTuple):
    """An environment and a task, compared by identity."""

    env: Any
    task: Any

    def __hash__(self) -> int:
        return hash((id(self.env), id(self.task)))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Key)
            and self.env is other.env
            and self.task is other.task
        )


@lru_cache(8)
def _world(taskset: str, config: str, num: int) -> tuple[Any, Sequence[Any]]:
    """The environment of a taskset, and its first tasks.

    Raises:
        ValueError: the config is no JSON object, or has no such field; or there are no two tasks.
    """
    try:
        fields = json.loads(config)
    except ValueError as error:
        raise ValueError(f"want config as JSON, got {config!r:.80}: {error}") from error
    if not isinstance(fields, dict):
        raise ValueError(f"want config as a JSON object, got {config!r:.80}")
    check_installed(taskset)
    env_class = environment_class(taskset)
    config_class = concrete_type(env_class, EnvConfig, origin=vf.Env) or EnvConfig
    env = env_class(config_class(taskset={"id": taskset, **fields}))
    tasks = list(islice(iter(env.taskset), num))
    if len(tasks) < 2:
        raise ValueError(
            f"want at least 2 tasks in {taskset!r}, one for each split, got {len(tasks)}"
        )
    return env, tasks


@lru_cache(10_000)
def _exchanged(
    key: _Key, replies: tuple[str, ...], max_replies: int, limit: float, taskset: str
) -> Exchange:
    """Runs an environment on a task, and gives its agent these replies."""
    agent = _Agent(replies, max_replies)

    async def run() -> float | None:
        env, task = key
        episode = vf.Episode(
            env=EnvInfo(id=env.config.env_id),
            task=vf.TraceTask(type=type(task).__name__, data=task.data),
        )
        try:
            await env.run(task, _Agents(agent))
            episode.traces.extend(agent.traces)
            await env.finalize(task, episode)
        except _Waiting:
            return None
        except Exception:  # code of the taskset, which reads what a model wrote
            return 0.0
        return sum(map(reward_of, agent.traces))

    before = random.getstate()  # environments may seed Python's own generator
    try:
        reward = within(limit, run, f"an answer of the taskset {taskset!r}")
    finally:
        random.setstate(before)
    if reward is not None:
        reward = min(max(reward, 0.0), 1.0)
    return Exchange(tuple(agent.messages), reward)


class _Agents:
    """Stands for all agents of an environment; only one is supported."""

    def __init__(self, agent: "_Agent") -> None:
        self._agent = agent
        self._name = ""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if self._name not in ("", name):
            raise ValueError(
                f"want an environment of one agent, got {self._name!r} and {name!r}"
            )
        self._name = name
        return self._agent


class _Agent:
    """Gives the replies of a state, in place of verifiers' own agent.

    Args:
        replies: of the state.
        max_replies: most replies; then its exchange is over.

    Attributes:
        messages: what the environment said before each reply.
        traces: of its runs.
    """

    runtime_config = vf.SubprocessConfig()

    def __init__(self, replies: Sequence[str], max_replies: int) -> None:
        self.replies, self.max_replies = replies, max_replies
        self.messages: list[str] = []
        self.traces: list[Any] = []

    async def run(self, task: Any, **_: Any) -> Any:
        """One reply to the task's prompt; its trace."""
        async with self.interaction(task) as chat:
            await chat.turn()
        return chat.trace

    @asynccontextmanager
    async def interaction(self, task: Any, **_: Any) -> AsyncIterator["_Interaction"]:
        chat = _Interaction(self, task)
        self.traces.append(chat.trace)
        yield chat  # scored at its end, unless it is still waiting
        await task.score(chat.trace)


class _Interaction:
    """The conversation of an agent, with the method `turn` of verifiers' interactions."""

    def __init__(self, agent: _Agent, task: Any) -> None:
        self.agent, self.task = agent, task
        self.trace = new_trace(task)
        self._is_begun = self._is_over = False

    async def turn(self, message: Any = None) -> Any:
        texts = [] if message is None else [_text_of(message)]
        if not self._is_begun:
            data = self.task.data
            texts = [data.system_prompt or "", data.prompt_text, *texts]
        self._is_begun = True
        text = "\n\n".join(part for part in texts if part)
        # half a surrogate pair cannot be written to a record
        text = text.encode("utf-8", "replace").decode("utf-8")
        agent, number = self.agent, len(self.agent.messages)
        if self._is_over:  # as in verifiers, so that no loop goes on
            raise RuntimeError("the exchange is over")
        if number >= agent.max_replies:
            self._is_over = True
            return Segment(messages=[], terminated=True)
        agent.messages.append(text)
        self._add("user", text)
        if number >= len(agent.replies):
            raise _Waiting
        node = self._add("assistant", agent.replies[number])
        return Segment(messages=[node.message])

    def _add(self, role: str, text: str) -> Any:
        nodes = self.trace.nodes
        node = vf.MessageNode.model_validate(
            {
                "parent": len(nodes) - 1 if nodes else None,
                "message": {"role": role, "content": text},
                "sampled": role == "assistant",
            }
        )
        nodes.append(node)
        return node


def _text_of(message: Any) -> str:
    """The text of what an environment sends: a text, or messages."""
    if isinstance(message, str):
        return message
    contents = (
        part["content"] if isinstance(part, dict) else part.content for part in message
    )
    return "\n\n".join(
        text if isinstance(text, str) else str(text) for text in contents
    )
