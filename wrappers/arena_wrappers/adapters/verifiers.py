"""verifiers: games as an environment, `GameEnv`, with a named agent for each seat.

The package `environments/arena` exports the classes for `vf-eval` and trainers.
"""

import asyncio
import itertools
from collections.abc import Iterator
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Literal

import arena_envs
from arena_wrappers.adapters import check_version
from arena_wrappers.play import SeatSession, forfeit_reason
from arena_wrappers.policies import Reply, make_policy
from arena_wrappers.records import Episode

check_version("verifiers", "verifiers", "0.4", "0.5")

import verifiers.v1 as vf  # noqa: E402
from openai import AsyncOpenAI, DefaultAsyncHttpxClient  # noqa: E402
from pydantic import create_model  # noqa: E402
from verifiers.v1.dialects.chat import message_to_wire  # noqa: E402
from verifiers.v1.runtimes import provision_runtime  # noqa: E402


class GameHarness(vf.Harness[vf.HarnessConfig]):  # type: ignore[misc]
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
        system_messages = [{"role": "system", "content": system}] if system else []
        messages: Any = [
            *system_messages,
            *(message_to_wire(message) for message in prompt),
        ]
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


class GameTasksetConfig(vf.TasksetConfig):  # type: ignore[misc]
    """The game and its starts: `--env.taskset.game "leduc_poker"`."""

    game: str = "kuhn_poker"
    """As for `arena_envs.make`; parameters may follow, as in `kuhn_poker(num_players=3)`."""
    split: Literal["train", "test"] = "train"
    """Seeds from 0, or from 2**31. In small games they have the same deals."""


class GameTaskset(vf.Taskset[GameTask, GameTasksetConfig]):  # type: ignore[misc]
    """Starts without end: one for each seed."""

    INFINITE = True

    def load(self) -> Iterator[GameTask]:
        for seed in itertools.count(2**31 if self.config.split == "test" else 0):
            data = GameData(name=f"{self.config.game}#{seed}", seed=seed)
            yield GameTask(data, self.config.task)


class _Settings(vf.EnvConfig):  # type: ignore[misc]
    players: list[str] = ["model"]  # noqa: RUF012  # pydantic copies it
    """In each seat `model`, or a policy such as `cfr`; one entry is for all seats."""
    prompt: dict[str, Any] = {}  # noqa: RUF012
    """Arguments of `PromptWrapper`, such as `{"reply_format": "boxed"}`."""
    reply_timeout: float | None = None
    """Seconds that a reply may take."""


_LOCAL = vf.AgentConfig(runtime=vf.SubprocessConfig())
_AGENTS: dict[str, Any] = {
    f"player_{seat}": (vf.AgentConfig, _LOCAL) for seat in range(10)
}
GameEnvConfig: Any = create_model("GameEnvConfig", __base__=_Settings, **_AGENTS)


class GameEnv(vf.Env[GameEnvConfig]):  # type: ignore[misc]
    """A game with an agent in each seat of a model, `player_0`, `player_1` and so on.

    Policies of `players` play the other seats. An agent's trace holds the rewards `return` and,
    after invalid replies, `format`; the metric `forfeit`; and in `info` `turn_rewards`, what
    each reply was paid until the seat's next turn, and `forfeit_reason`. If an agent or a
    policy fails, the episode is an error without rewards.

    Raises:
        ValueError: as for `SeatSession`; the game has more than 10 seats.
    """

    config: Any

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self._held = AsyncExitStack()
        game, players = config.taskset.game, config.players
        num = arena_envs.make_game(game).num_players
        if num > len(_AGENTS):
            raise ValueError(f"want at most {len(_AGENTS)} seats, got {num} of {game}")
        if len(players) == 1:
            players = players * num
        self._seats = [seat for seat, name in enumerate(players) if name == "model"]
        prompt = {"penalty": 0.5, **config.prompt, "history": "transcript"}
        others = [make_policy(name) for name in players if name != "model"]
        self._new = partial(SeatSession, game, self._seats, others, prompt=prompt)
        self._new()  # wrong settings raise now

    async def start(self) -> None:
        box = provision_runtime(vf.SubprocessConfig())
        self._box = await self._held.enter_async_context(box)

    async def stop(self) -> None:
        await self._held.aclose()

    async def run(self, task: Any, agents: Any) -> None:
        session, limit = self._new(), self.config.reply_timeout
        prompt = session.reset(task.data.seed)
        async with AsyncExitStack() as stack:
            chats = {}
            for seat in self._seats:
                system_messages = [
                    m for m in session.prompt(seat) if m["role"] == "system"
                ]
                rules = system_messages[0]["content"] if system_messages else None
                agent = getattr(agents, f"player_{seat}")
                seat_task = vf.Task(vf.TaskData(idx=task.data.idx, system_prompt=rules))
                is_local = isinstance(agent.runtime_config, vf.SubprocessConfig)
                chat = agent.interaction(
                    seat_task, runtime=self._box if is_local else None
                )
                chats[seat] = await stack.enter_async_context(chat)
            while not session.done:
                answer = _answer(chats[session.seat], prompt[-1]["content"])
                try:
                    reply = await asyncio.wait_for(answer, limit)
                except TimeoutError:
                    raise TimeoutError(f"no reply within {limit} s") from None
                prompt, *_ = session.step(reply)
        for seat, chat in chats.items():
            _record(chat.trace, session.episode, seat)

    def complete(self, episode: Any) -> bool:
        """Whether the game was played to its end, which may be a forfeit."""
        return not episode.errors and len(episode.traces) == len(self._seats)


async def _answer(chat: Any, text: str) -> Reply:
    """The reply of the agent of an interaction."""
    segment = await chat.turn(text)
    if segment.terminated:
        error = chat.trace.last_error
        if error is None:  # a limit of the agent's, such as max_turns
            return Reply("", truncated=True)
        return Reply("", error=f"{error.type}: {error.message}")
    is_cut, reply_text = chat.trace.is_truncated, segment.last_reply or ""
    is_empty = not reply_text.strip() and not is_cut
    return Reply(reply_text, truncated=is_cut, instead="empty" if is_empty else None)


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
