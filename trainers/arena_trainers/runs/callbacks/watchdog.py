"""A watchdog, which prints what a late stage of a run waits for.

Its thread looks at the stack of the training thread, and only when a stage is late, so that nothing
has to report to it.
"""

import asyncio
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from transformers import Trainer, TrainerControl, TrainerState, TrainingArguments

from arena_trainers.runs.callbacks.callback import Callback
from arena_wrappers import Policy
from arena_wrappers.play import ask, ask_async

_BETWEEN_PROCESSES = ("torch.distributed", "deepspeed.comm")
_OURS = ("arena_trainers", "arena_wrappers", "arena_envs")


@contextmanager
def watch_stages(trainer: Trainer, seconds: float) -> Iterator["Watchdog"]:
    """Within this context a late stage of a run prints a line on stderr.

    The first stage is the start of training, which sends a server its weights. Each step of
    training is a stage. `Watchdog.begin` begins others. After training each episode of the
    evaluation is one.

    A line comes after every `seconds` that pass without the end of a stage. Every process
    prints its own: the one that the others wait for names what it waits for.

    Args:
        trainer: gets a callback.
        seconds: 0 for no lines.
    """
    watchdog = Watchdog(seconds, threading.get_ident(), trainer.args)
    watchdog.begin("start of training")
    if seconds == 0:
        yield watchdog
        return
    trainer.add_callback(watchdog)
    thread = threading.Thread(target=watchdog.watch, daemon=True)
    thread.start()
    try:
        yield watchdog
    finally:
        watchdog.ended = True
        watchdog.stage_began.set()
        thread.join()


class Watchdog(Callback):
    """Waits for the ends of stages.

    Args:
        seconds: that a stage may take.
        thread: number of the thread that trains.
        args: of the trainer.

    Attributes:
        stage_began: is set when a stage begins.
        ended: whether to stop watching at the next stage_began.
    """

    def __init__(self, seconds: float, thread: int, args: TrainingArguments) -> None:
        self.seconds, self.thread = seconds, thread
        self.stage_began, self.ended = threading.Event(), False
        self._process = f"process {args.process_index} of {args.world_size}"
        self._where = ""

    def begin(self, stage: str) -> None:
        """The stage before is over, and another one begins."""
        self._where = f"{stage}, {self._process}"
        self.stage_began.set()

    def begun(self, state: TrainerState) -> None:
        self.begin(f"step {state.global_step + 1}")

    def stepped(self, state: TrainerState, control: TrainerControl) -> None:
        self.begin(f"step {state.global_step + 1}")

    def watch(self) -> None:
        """Prints the lines, until `ended`."""
        waited = 0.0
        while not self.ended:
            if self.stage_began.wait(self.seconds):
                self.stage_began.clear()
                waited = 0.0
                continue
            waited += self.seconds
            frame = sys._current_frames().get(self.thread)
            if frame is not None:
                line = (
                    f"{self._where}: no end after {waited:g} s; {describe_wait(frame)}"
                )
                print(line, file=sys.stderr, flush=True)


def describe_wait(frame: FrameType | None) -> str:
    """Names what a thread waits for, by the calls that it is in; the innermost one counts."""
    function = url = ""
    while frame is not None:
        module, name = frame.f_globals.get("__name__", ""), frame.f_code.co_name
        itself = frame.f_locals.get("self")
        if not url:
            url = str(getattr(itself, "url", "") or "")
        if frame.f_code is ask.__code__:
            num, policy = len(frame.f_locals["requests"]), frame.f_locals["policy"]
            return _waits_for_policy(policy, num, url)
        if isinstance(itself, asyncio.AbstractEventLoop) and name == "run_forever":
            policies = _awaited_policies(itself)
            if policies:
                most = max(policies, key=len)
                return _waits_for_policy(most[0], len(most))
        if module.startswith(_BETWEEN_PROCESSES):
            return (
                "waits for the other processes: the one that prints another line than "
                "this, or none, holds them up"
            )
        if not function and module.startswith(_OURS):
            function = f"{module}.{name}"
        frame = frame.f_back
    asks = f", which asks {url}" if url else ""
    return f"is in {function}{asks}" if function else "is in no code of arena"


def _waits_for_policy(policy: Policy, num: int, url: str = "") -> str:
    url = url or getattr(policy, "url", "")
    at = f" at {url}" if url else ""
    requests = "1 request" if num == 1 else f"{num} requests"
    return f"waits for policy {policy.name!r}{at}, {requests}"


def _awaited_policies(loop: asyncio.AbstractEventLoop) -> list[list[Policy]]:
    """The policies that tasks of an event loop wait for, each as often as it is asked."""
    policies: dict[int, list[Policy]] = {}
    for task in asyncio.all_tasks(loop):
        inner: Any = task.get_coro()
        while (frame := getattr(inner, "cr_frame", None)) is not None:
            if frame.f_code is ask_async.__code__:
                policy = frame.f_locals["policy"]
                policies.setdefault(id(policy), []).append(policy)
            inner = inner.cr_await
    return list(policies.values())
