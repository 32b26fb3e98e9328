"""A late step says what it waits for."""

import asyncio
import sys
import threading
import types

import pytest
from transformers import TrainerControl, TrainerState

import arena_envs
from arena_trainers.lm.backends.server import JSONServer
from arena_trainers.runs.callbacks.watchdog import watch_stages
from arena_wrappers import PromptWrapper, RandomPolicy, play


class Stalling(RandomPolicy):
    """Replies when it is allowed to."""

    url = "http://localhost:8000"

    def __init__(self, go):
        super().__init__()
        self.name, self.go = "slow", go

    def act(self, requests):
        assert self.go.wait(20)
        return super().act(requests)


class Trainer:
    """What a watchdog uses of a trainer."""

    args = types.SimpleNamespace(process_index=0, world_size=1)

    def add_callback(self, callback):
        self.callback = callback

    def end_step(self, step):
        state = TrainerState(global_step=step)
        self.callback.on_step_end(self.args, state, TrainerControl())


class Lines(list):
    """Takes the place of stderr; lets the policy go on after some lines."""

    def __init__(self, go, most):
        super().__init__()
        self.go, self.most = go, most

    def write(self, text):
        self.append(text)
        if "".join(self).count("\n") >= self.most:
            self.go.set()

    def flush(self):
        pass


@pytest.mark.parametrize(("num", "asked"), [(1, "1 request"), (3, "3 requests")])
def test_a_late_step_names_the_policy_and_its_address(monkeypatch, num, asked):
    trainer, go = Trainer(), threading.Event()
    lines = Lines(go, 2)
    monkeypatch.setattr(sys, "stderr", lines)
    with watch_stages(trainer, 0.05):
        trainer.end_step(6)
        env = PromptWrapper(arena_envs.make("kuhn_poker"), rules=False)
        play(lambda: env, Stalling(go), range(num))
    one, two, *_ = "".join(lines).splitlines()
    where = "step 7, process 0 of 1: no end after"
    what = f"waits for policy 'slow' at http://localhost:8000, {asked}"
    assert one == f"{where} 0.05 s; {what}"
    assert two == f"{where} 0.1 s; {what}"


class Asynchronous(Stalling):
    """Replies to one request at a time, when it is allowed to."""

    async def act_async(self, request, timeout=None):
        while not self.go.is_set():
            await asyncio.sleep(0.01)
        return RandomPolicy().act([request])[0]


@pytest.mark.parametrize("begins", ["start of training", "evaluation after training"])
def test_other_stages_are_watched_and_endpoints_named(monkeypatch, begins):
    """Before the first step a server gets weights; after the last one, endpoints may play."""
    go = threading.Event()
    lines = Lines(go, 1)
    monkeypatch.setattr(sys, "stderr", lines)
    with watch_stages(Trainer(), 0.05) as watchdog:
        if begins != "start of training":
            watchdog.begin(begins)
        play("kuhn_poker", Asynchronous(go), range(3))
    assert "".join(lines).splitlines()[0] == (
        f"{begins}, process 0 of 1: no end after 0.05 s; waits for policy 'slow' at "
        "http://localhost:8000, 3 requests"
    )


def test_a_late_step_names_the_other_processes(monkeypatch):
    """A wait in a module of torch.distributed, as `gather_object` waits."""
    trainer, go = Trainer(), threading.Event()
    lines = Lines(go, 1)
    monkeypatch.setattr(sys, "stderr", lines)
    module = types.ModuleType("torch.distributed.pretended")
    exec("def gather(go):\n    assert go.wait(20)", vars(module))
    with watch_stages(trainer, 0.05):
        trainer.end_step(0)
        module.gather(go)
    assert (
        "step 1, process 0 of 1: no end after 0.05 s; waits for the other" in lines[0]
    )


def test_a_late_step_names_a_server_that_does_not_answer(monkeypatch):
    trainer, go = Trainer(), threading.Event()
    lines = Lines(go, 1)
    monkeypatch.setattr(sys, "stderr", lines)
    server = JSONServer("http://localhost:8000")
    monkeypatch.setattr(server, "_ask", lambda *_: go.wait(20))
    with watch_stages(trainer, 0.05):
        trainer.end_step(0)
        server.post("/pause")
    assert (
        "is in arena_trainers.lm.backends.server.post_all, which asks http://lo"
        in lines[0]
    )


@pytest.mark.parametrize("seconds", [0.0, 30.0])
def test_steps_in_time_say_nothing(capsys, seconds):
    """And the thread ends with the context, however long it would wait."""
    before, trainer = threading.active_count(), Trainer()
    with watch_stages(trainer, seconds):
        assert threading.active_count() == before + (seconds > 0)
        if seconds:
            trainer.end_step(1)
    assert threading.active_count() == before
    assert capsys.readouterr().err == ""
