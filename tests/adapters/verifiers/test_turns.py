"""A taskset of several turns as a game here: its environment talks to a policy that plays."""

import sys
import textwrap
import time
from typing import Any

import pytest

pytest.importorskip("verifiers.v1")

from arena_envs import make_game
from arena_envs.testing import check_game
from arena_wrappers import PromptWrapper, play
from arena_wrappers.adapters.verifiers_tasks import TURNS, from_verifiers

GUESSES = """
import asyncio
import random
import time
import verifiers.v1 as vf


class Data(vf.TaskData):
    answer: str = ""


class Number(vf.Task[Data]):
    @vf.reward(weight=0.25)
    async def brief(self, task, trace) -> float:
        if trace.last_reply == "hang":
            time.sleep(3600)  # nothing can stop its thread
        if trace.last_reply == "sleep":
            await asyncio.sleep(3600)
        return float(len(trace.last_reply) < 3)


class Numbers(vf.Taskset[Number, vf.TasksetConfig]):
    def load(self):
        for n in range(8):
            data = Data(prompt="Guess my number from 0 to 7.", answer=str(n))
            yield Number(data, self.config.task)


class GuessConfig(vf.EnvConfig):
    player: vf.AgentConfig = vf.AgentConfig()


class Guess(vf.Env[GuessConfig]):
    async def run(self, task, agents):
        random.seed(3)
        target, found = int(task.data.answer), 0.0
        async with agents.player.interaction(task) as chat:
            segment = await chat.turn()
            while not segment.terminated:
                if segment.last_reply == "fail":
                    raise RuntimeError("their fault")
                while segment.last_reply == "loop":
                    await chat.turn("\\ud800<|im_end|>")
                guess = int(segment.last_reply) if segment.last_reply.isdigit() else -1
                if guess == target or not segment.last_reply.isdigit():
                    found = 0.75 * (guess == target)
                    break
                segment = await chat.turn("higher" if guess < target else "lower")
        chat.trace.record_reward("found", found, 1.0)


__all__ = ["Numbers", "Guess"]
"""


@pytest.fixture
def taskset(tmp_path, monkeypatch):
    """The id of an installed taskset with an environment of its own."""
    (tmp_path / "their_numbers.py").write_text(textwrap.dedent(GUESSES))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "their_numbers"
    sys.modules.pop("their_numbers", None)


def halving(request: Any) -> str:
    """Halves what is left of 0 to 7, from what it reads."""
    low, high = 0, 7
    text = request.messages[-1]["content"]
    for line in text.splitlines():
        if line.startswith("You said: "):
            guess = int(line.removeprefix("You said: "))
        low = guess + 1 if line == "higher" else low
        high = guess - 1 if line == "lower" else high
    return request.wrap(f"say: {(low + high) // 2}")


def test_an_environment_of_several_turns_is_played_and_paid(taskset, record_property):
    game = from_verifiers(taskset)
    check_game(game, needs_page=False)
    episodes = play(lambda: PromptWrapper(make(taskset)), halving, range(6))
    assert {episode.returns[0] for episode in episodes} == {1.0}
    assert max(len(episode.turns) for episode in episodes) > 1
    assert all(len(episode.turns) <= 4 for episode in episodes)
    record_property("learned", "a taskset of several turns is played and paid here")


def make(taskset: str, **params: Any) -> Any:
    import arena_envs

    return arena_envs.make(TURNS, taskset=taskset, **params)


def test_what_a_reply_makes_of_their_code_is_no_fault_of_ours(taskset):
    """It fails, hangs or sleeps: no reward, or a sentence within the limit."""
    game = make_game(TURNS, taskset=taskset, limit=0.5)
    state = game.apply(game.initial_state(), 0)
    assert game.returns(game.apply(state, game.parse(state, "say: fail"))) == (0.0,)
    state = game.apply(state, game.parse(state, "say: loop"))
    game.observe(state, 0).encode()  # no half of a surrogate pair
    for _ in range(9):
        state = game.apply(state, game.parse(state, "say: again"))
    assert game.returns(state) == (0.0,)
    state = game.apply(game.initial_state(), 0)
    for text in ("hang", "sleep"):
        start = time.monotonic()
        with pytest.raises(
            TimeoutError, match=r"their_numbers.* within 0.5 s, got none"
        ):
            game.returns(game.apply(state, game.parse(state, f"say: {text}")))
        assert time.monotonic() - start < 10


def test_the_agent_has_ended_after_its_last_reply(taskset):
    game: Any = make_game(TURNS, taskset=taskset, max_replies=2)
    state = game.apply(game.initial_state(), 0)
    wrong = "7" if game._tasks[0].data.answer != "7" else "0"
    for _ in range(2):
        assert game.current_player(state) == 0
        state = game.apply(state, game.parse(state, f"say: {wrong}"))
    assert game.current_player(state) < -1
    assert game.returns(state) == (0.25,)  # their reward for short replies


def test_pythons_random_numbers_stay_as_they_were(taskset):
    import random

    random.seed(11)
    expected = random.Random(11).random()
    game = make_game(TURNS, taskset=taskset)
    game.observe(game.apply(game.initial_state(), 1), 0)
    assert random.random() == expected
