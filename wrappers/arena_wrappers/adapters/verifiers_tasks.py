"""verifiers: a taskset of one seat and one reply as a source of the game `questions`.

Tasks become questions, and their own reward functions score the answers, so that the trainer and its
credit run on them.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property
from itertools import islice
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from arena_envs.game import AnyGame, check_number, of_split
from arena_envs.games.questions import Task
from arena_envs.registration import make_game
from arena_wrappers.adapters import check_version

check_version("verifiers", "verifiers", "0.4", "0.5")

import verifiers.v1 as vf  # noqa: E402
from verifiers.v1.envs.single_agent import SingleAgentEnv  # noqa: E402
from verifiers.v1.utils.loaders import (  # noqa: E402
    environment_class,
    taskset_class,
)

MAX_TASKS = 10_000
MAX_SCORES = 10_000  # that are remembered
SOURCE = "arena_wrappers.adapters.verifiers_tasks:FromVerifiers"
TURNS = "arena_wrappers.adapters.verifiers_turns:VerifiersTurns"

T = TypeVar("T")


class FromVerifiers:
    r"""A source of questions from a taskset of verifiers: `questions(source=...)`.

    A task is its prompt, with its system prompt before it; chance draws one. Half of the tasks are
    the split "test". The reply is scored by the rewards of the task that need no runtime, as
    verifiers does; their sum is cut to 0 to 1. A reward that fails on an answer scores it 0.

    Args:
        taskset: id of a taskset, as of `vf-eval`.
        answer: field of the task's data with the right answer, which must score 1.
        reply: what a reward function reads as the reply; {answer} stands for the answer of the game.
        num: most tasks that are read, 2 to 10,000.
        limit: seconds that the rewards of an answer may take.
        **config: fields of the taskset's config.

    Raises:
        ValueError: there is no such taskset or field, or a task has no prompt of text.
    """

    def __init__(
        self,
        taskset: str,
        answer: str = "answer",
        reply: str = "{answer}",
        num: int = 500,
        limit: float = 60.0,
        **config: Any,
    ) -> None:
        if "{answer}" not in reply:
            raise ValueError(
                f"want {{answer}} in reply, got {reply!r:.80}; write it where the answer stands"
            )
        if not 2 <= num <= MAX_TASKS:
            raise ValueError(f"want num from 2 to {MAX_TASKS:,}, got {num}")
        check_number("limit", limit, 0.001, 86_400.0)
        self._limit = limit
        check_installed(taskset)
        taskset_config = vf.taskset_config_type(taskset)(id=taskset, **config)
        self._taskset: Any = taskset_class(taskset)(taskset_config)
        self._answer, self._reply, self._num = answer, reply, num
        self._scores: dict[tuple[str, str], float] = {}

    @cached_property
    def _by_question(self) -> dict[str, Any]:
        """The tasks by the text of the question; the first of equal texts."""
        by_question: dict[str, Any] = {}
        for task in islice(iter(self._taskset), self._num):
            parts = [task.data.system_prompt, task.data.prompt_text]
            question = "\n\n".join(part for part in parts if part)
            if not question or not isinstance(self._right_answer(task), str):
                raise ValueError(
                    f"want a prompt of text and a text as {self._answer} in every task, got "
                    f"{task.data!r:.200}; give answer=FIELD"
                )
            by_question.setdefault(question, task)
        return by_question

    def _right_answer(self, task: Any) -> str | None:
        value = getattr(task.data, self._answer, None)
        return str(value) if isinstance(value, str | int | float) else None

    def tasks(self, split: str) -> Sequence[Task]:
        """The questions of a split."""
        tasks = [
            Task(question, str(self._right_answer(task)))
            for question, task in self._by_question.items()
        ]
        return of_split(tasks, split)

    def score(self, task: Task, answer: str) -> float:
        """The sum of the task's rewards for an answer, from 0 to 1."""
        key = (task.question, answer)
        if key not in self._scores:
            if len(self._scores) >= MAX_SCORES:
                self._scores.clear()
            self._scores[key] = self._scored(*key)
        return self._scores[key]

    def _scored(self, question: str, answer: str) -> float:
        task = self._by_question[question]
        text = self._reply.replace("{answer}", answer)
        user = {"message": {"role": "user", "content": question}}
        assistant = {
            "parent": 0,
            "message": {"role": "assistant", "content": text},
            "sampled": True,
        }
        trace = new_trace(task, [user, assistant])
        try:
            within(
                self._limit, lambda: task.score(trace), f"a reward for {answer!r:.80}"
            )
        except vf.TaskError:
            return 0.0
        return min(max(reward_of(trace), 0.0), 1.0)


def check_installed(taskset: str) -> None:
    """Raises ValueError if there is no such taskset."""
    try:
        taskset_class(taskset)
    except ModuleNotFoundError as error:
        raise ValueError(
            f"want an installed taskset, got {taskset!r:.80}: {error}"
        ) from error


def new_trace(task: Any, nodes: Sequence[Any] = ()) -> Any:
    """A trace of a task, with these messages."""
    return vf.Trace(
        task=vf.TraceTask(type=type(task).__name__, data=task.data),
        agent=vf.AgentInfo(config=vf.AgentConfig(runtime=vf.SubprocessConfig())),
        nodes=list(nodes),
    )


def reward_of(trace: Any) -> float:
    """The sum of a trace's rewards; one that is no number counts as a function that failed: 0."""
    reward = float(trace.reward)
    return reward if math.isfinite(reward) else 0.0


def within(seconds: float, run: Callable[[], Awaitable[T]], what: str) -> T:
    """Runs a coroutine of third-party code in a thread, as the caller may be in an event loop.

    Raises:
        TimeoutError: it takes longer. Its thread cannot be stopped, but does not keep the process alive.
    """
    results: SimpleQueue[tuple[T | None, BaseException | None]] = SimpleQueue()

    async def limited() -> T:
        return await asyncio.wait_for(run(), seconds)

    def work() -> None:
        try:
            results.put((asyncio.run(limited()), None))
        except BaseException as error:
            results.put((None, error))

    Thread(target=work, daemon=True).start()
    problem = (
        f"want {what} within {seconds:g} s, got none: code of the taskset waits or does not end; "
        "mend it, or give a larger limit"
    )
    try:
        value, error = results.get(timeout=seconds + 1)
    except Empty:
        raise TimeoutError(problem) from None
    if isinstance(error, TimeoutError):
        raise TimeoutError(problem) from error
    if error is not None:
        raise error
    return value  # type: ignore[return-value] # without an error it is there


def from_verifiers(taskset: str, **options: Any) -> AnyGame:
    """A taskset of verifiers as a game for one seat.

    A taskset without an environment of its own has one reply: the game `questions`. Another one has several
    turns: `arena_wrappers.adapters.verifiers_turns.VerifiersTurns`.

    Args:
        taskset: its id.
        **options: of `FromVerifiers`, or of `VerifiersTurns`.
    """
    check_installed(taskset)
    if environment_class(taskset) is not SingleAgentEnv:
        return make_game(TURNS, taskset=taskset, **options)
    values = {"taskset": taskset, **options}
    arguments = ", ".join(f"{name}={value}" for name, value in values.items())
    return make_game("questions", protocol="solo", source=f"{SOURCE}({arguments})")
