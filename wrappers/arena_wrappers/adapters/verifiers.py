"""verifiers: a game as an environment with a named agent for each seat.

`environment` makes the classes that a module of yours exports, for `vf-eval` and trainers.
"""

import asyncio
import itertools
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

from arena_wrappers.adapters import check_version
from arena_wrappers.play import EnvFn, SeatSession, forfeit_reason, transcript
from arena_wrappers.policies import Reply
from arena_wrappers.records import Episode

check_version("verifiers", "verifiers", "0.4", "0.5")

import verifiers.v1 as vf  # noqa: E402
from openai import AsyncOpenAI, DefaultAsyncHttpxClient  # noqa: E402
from pydantic import create_model  # noqa: E402
from verifiers.v1.dialects.chat import message_to_wire  # noqa: E402
from verifiers.v1.runtimes import provision_runtime  # noqa: E402


class ChatHarness(vf.Harness[vf.HarnessConfig]):  # type: ignore[misc]
    """Asks the model from within this process: one request for each reply.

    verifiers' own chat harness starts a process for each reply.
    """

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: Any,
        trace: Any,
        runtime: Any,
        endpoint: str,
        secret: str,
        mcp_urls: Any,
        data: Any,
    ) -> Any:
        system, prompt = self.resolve_prompt(data)
        given = [{"role": "system", "content": system}] if system else []
        messages: Any = [*given, *(message_to_wire(message) for message in prompt)]
        # without TLS no certificates, which take longer to load than the request
        http = DefaultAsyncHttpxClient(verify=endpoint.startswith("https:"))
        async with AsyncOpenAI(
            base_url=endpoint, api_key=secret, http_client=http
        ) as client:
            await client.chat.completions.create(model=ctx.model, messages=messages)
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")


class GameData(vf.TaskData):  # type: ignore[misc]
    """The start of an episode."""

    seed: int


class GameTask(vf.Task[GameData]):  # type: ignore[misc]
    """One start; the rewards come from the game."""


class _Game:
    """Plays an episode with an agent in each seat."""

    config: Any
    seated: Callable[[], SeatSession]
    rules: list[str | None]

    def __init__(self, config: Any) -> None:
        super().__init__(config)  # type: ignore[call-arg]
        self._held = AsyncExitStack()

    async def start(self) -> None:
        box = provision_runtime(vf.SubprocessConfig())
        self._box = await self._held.enter_async_context(box)

    async def stop(self) -> None:
        await self._held.aclose()

    async def run(self, task: Any, agents: Any) -> None:
        session = self.seated()
        async with AsyncExitStack() as stack:
            chats = []
            for seat, rules in enumerate(self.rules):
                agent = getattr(agents, f"player_{seat}")
                own = vf.Task(vf.TaskData(idx=task.data.idx, system_prompt=rules))
                is_local = isinstance(agent.runtime_config, vf.SubprocessConfig)
                box = self._box if is_local else None
                chat = agent.interaction(own, runtime=box)
                chats.append(await stack.enter_async_context(chat))
            shown, limit = session.reset(task.data.seed), self.config.reply_timeout
            while not session.done:
                asked = _answer(chats[session.seat], shown[-1]["content"])
                try:
                    reply = await asyncio.wait_for(asked, limit)
                except TimeoutError:
                    raise TimeoutError(f"no reply within {limit} s") from None
                shown, *_ = session.step(reply)
        for seat, chat in enumerate(chats):
            _record(chat.trace, session.episode, seat)

    def complete(self, episode: Any) -> bool:
        """Whether the game was played to its end, which may be a forfeit."""
        return not episode.errors and len(episode.traces) == len(self.rules)


async def _answer(chat: Any, shown: str) -> Reply:
    """The reply of the agent of an interaction."""
    segment = await chat.turn(shown)
    if segment.terminated:
        error = chat.trace.last_error
        if error is None:  # a limit of the agent's, such as max_turns
            return Reply("", truncated=True)
        return Reply("", error=f"{error.type}: {error.message}")
    is_cut, text = chat.trace.is_truncated, segment.last_reply or ""
    is_empty = not text.strip() and not is_cut
    return Reply(text, truncated=is_cut, instead="empty" if is_empty else None)


def _record(trace: Any, episode: Episode, seat: int) -> None:
    """Writes rewards, metrics and facts of the episode into the trace of a seat."""
    turns = [turn for turn in episode.turns if turn.seat == seat]
    trace.record_reward("return", episode.returns[seat])
    penalty = sum(turn.rewards.get("format", 0.0) for turn in turns)
    if penalty:
        trace.record_reward("format", penalty)
    trace.record_metric("forfeit", float(episode.forfeited_by == seat))
    trace.info["turn_rewards"] = [turn.reward for turn in turns]
    if episode.forfeited_by == seat:
        trace.info["forfeit_reason"] = forfeit_reason(episode)


def environment(game: EnvFn | str) -> tuple[type[Any], type[Any], type[Any]]:
    """The classes of a game's environment; a module exports them by `__all__`.

    Each seat is an agent, `player_0`, `player_1` and so on. Its trace holds the rewards
    `return` and, after invalid replies, `format`; the metric `forfeit`; and in `info`
    `turn_rewards`, what each reply was paid until the seat's next turn, and `forfeit_reason`.
    If an agent fails, the episode is an error without rewards. The environment's option `reply_timeout` limits the seconds of one reply.

    Args:
        game: as `env_fn` of `play`. An id gets prompts with `history="transcript"`, which a
            function of yours must set, too: a seat is one conversation.

    Returns:
        A subclass of `vf.Env`, one of `vf.Taskset`, whose tasks are the seeds 0, 1, 2 and so
        on, and `ChatHarness`.

    Raises:
        ValueError: the game is unknown, or the prompts are no transcripts.
    """
    make = partial(SeatSession, game, "all", (), prompt=transcript(game))
    session = make()
    session.reset(seed=0)
    seats, wrapper = range(len(session.agents)), session.environment
    if any(wrapper.options_of(seat).history != "transcript" for seat in seats):
        raise ValueError(
            "want prompts that are transcripts: pass PromptWrapper(..., history='transcript')"
        )
    local = vf.AgentConfig(runtime=vf.SubprocessConfig())
    fields: dict[str, Any] = {f"player_{i}": (vf.AgentConfig, local) for i in seats}
    fields["reply_timeout"] = (float | None, None)
    config = create_model("GameEnvConfig", __base__=vf.EnvConfig, **fields)

    class GameEnv(_Game, vf.Env[config]):  # type: ignore[misc]
        seated = staticmethod(make)
        rules = [  # noqa: RUF012
            next((m["content"] for m in shown if m["role"] == "system"), None)
            for shown in map(session.prompt, seats)
        ]

    class GameTaskset(vf.Taskset[GameTask, vf.TasksetConfig]):  # type: ignore[misc]
        INFINITE = True

        def load(self) -> Iterator[GameTask]:
            for seed in itertools.count():
                name = f"{session.episode.game}#{seed}"
                yield GameTask(GameData(name=name, seed=seed), self.config.task)

    return GameEnv, GameTaskset, ChatHarness
