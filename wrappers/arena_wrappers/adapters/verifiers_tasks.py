"""verifiers: a taskset of one seat and one reply as a source of the game `questions`.

Tasks become questions, and their own reward functions score the answers, so that the trainer and its
credit run on them.
"""

import asyncio
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import islice
from typing import Any

from arena_envs.game import AnyGame, of_split
from arena_envs.games.questions import Task
from arena_envs.registration import make_game
from arena_wrappers.adapters import check_version

check_version("verifiers", "verifiers", "0.4", "0.5")

import verifiers.v1 as vf  # noqa: E402
from verifiers.v1.utils.loaders import taskset_class  # noqa: E402

MAX_TASKS = 10_000
MAX_SCORES = 10_000  # that are remembered
SOURCE = "arena_wrappers.adapters.verifiers_tasks:FromVerifiers"


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
        **config: Any,
    ) -> None:
        if "{answer}" not in reply:
            raise ValueError(
                f"want {{answer}} in reply, got {reply!r:.80}; write it where the answer stands"
            )
        if not 2 <= num <= MAX_TASKS:
            raise ValueError(f"want num from 2 to {MAX_TASKS:,}, got {num}")
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
        trace = vf.Trace(
            task=vf.TraceTask(type=type(task).__name__, data=task.data),
            agent=vf.AgentInfo(config=vf.AgentConfig(runtime=vf.SubprocessConfig())),
            nodes=[user, assistant],
        )
        # in a thread, as the caller may be within an event loop
        with ThreadPoolExecutor(1) as executor:
            try:
                executor.submit(asyncio.run, task.score(trace)).result()
            except vf.TaskError:
                return 0.0
        reward = float(trace.reward)
        # a reward that is no number counts as one whose function failed
        return min(max(reward, 0.0), 1.0) if math.isfinite(reward) else 0.0


def from_verifiers(taskset: str, **options: Any) -> AnyGame:
    """A taskset of verifiers as the game `questions` for one seat.

    Args:
        taskset: its id.
        **options: of `FromVerifiers`.
    """
    values = {"taskset": taskset, **options}
    arguments = ", ".join(f"{name}={value}" for name, value in values.items())
    return make_game("questions", protocol="solo", source=f"{SOURCE}({arguments})")
