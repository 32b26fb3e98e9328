"""Inspect AI: episodes of a game as the samples of a task, with a model role for each seat."""

import asyncio
from collections.abc import Sequence
from typing import Any

from arena_wrappers.adapters import check_version
from arena_wrappers.play import (
    EnvFn,
    NoReplyError,
    checked_timeout,
    forfeit_reason,
    plans_of,
    play_async,
)
from arena_wrappers.policies import Policy, Reply, TurnRequest
from arena_wrappers.prompts import Instead
from arena_wrappers.records import Episode

check_version("inspect-ai", "inspect", "0.3.285", "0.4")

from inspect_ai import Task  # noqa: E402
from inspect_ai.dataset import Sample  # noqa: E402
from inspect_ai.model import (  # noqa: E402
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    get_model,
)
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr  # noqa: E402
from inspect_ai.solver import Generate, Solver, TaskState, solver  # noqa: E402

MODEL = "model"
RECORD = "episode"
_KINDS: dict[str, Any] = {
    "system": ChatMessageSystem,
    "user": ChatMessageUser,
    "assistant": ChatMessageAssistant,
}


def game_task(
    game: EnvFn | str,
    players: Policy | str | Sequence[Policy | str] = MODEL,
    *,
    num_episodes: int = 100,
    timeout: float | None = None,
) -> Task:
    """An Inspect task: one sample for each seed 0, 1, 2 and so on.

    The model of a seat has the role `player_0`, `player_1` and so on; without
    `--model-role player_1=...` it is the task's model. The epochs of a sample share chance, and
    the policies make different choices. The score is the return of each seat. Its metadata have
    `turn_rewards` by seat, `forfeited_by`, `forfeit_reason` and the game's `measures`. An
    invalid reply forfeits, unless the prompts say otherwise. If a policy gives no reply, the
    sample is an error without a score: Inspect stops the task, unless `--fail-on-error` or
    `--retry-on-error` say otherwise. Inspect must run on asyncio, its default.

    Args:
        game: as `env_fn` of `play`.
        players: `"model"`, or a policy or a string as for `play`; one for all seats, or one
            for each.
        num_episodes: number of samples.
        timeout: seconds that one reply may take. Without it, Inspect's own `--timeout` and
            `--max-retries` hold; by default Inspect retries without end.

    Raises:
        ValueError: as for `play`, or `num_episodes` is below 1.
    """
    if num_episodes < 1:
        raise ValueError(f"want num_episodes of at least 1, got {num_episodes}")
    checked_timeout(timeout)
    (probe,) = plans_of(game, "random", [0], [0])
    single = isinstance(players, str) or not isinstance(players, Sequence)
    player_specs: Any = [players] * len(probe.policies) if single else players
    seats = [
        RoleModel(f"player_{i}") if player == MODEL else player
        for i, player in enumerate(player_specs)
    ]
    (plan,) = plans_of(probe.env_fn, seats, [0], [0])
    samples = [
        Sample(input=f"The episode of seed {seed}.", metadata={"seed": seed})
        for seed in range(num_episodes)
    ]
    play = play_episode(plan.env_fn, plan.policies, timeout)
    return Task(dataset=samples, solver=play, scorer=game_returns())


@solver  # type: ignore[untyped-decorator]  # Inspect is not installed
def play_episode(
    env_fn: EnvFn, seats: Sequence[Policy], timeout: float | None
) -> Solver:
    """Plays the episode of a sample's seed; see `game_task`."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        seed, sample = state.metadata["seed"], state.epoch - 1
        try:
            episode = await play_async(
                env_fn, seats, seed, sample, timeout=timeout, on_error="raise"
            )
        except TimeoutError:  # Inspect would take it for one of its own limits
            raise NoReplyError(f"no reply within {timeout} s") from None
        state.messages = _transcript(episode)
        state.output.completion = f"returns: {list(episode.returns)}"
        state.store.set(RECORD, _record(episode))
        return state

    return solve


@scorer(metrics={"*": [mean(), stderr()]})  # type: ignore[untyped-decorator]
def game_returns() -> Scorer:
    """The return of each seat, by its name."""

    async def score(state: TaskState, target: Target) -> Score:
        record = state.store.get(RECORD)
        if record is None:
            return Score.unscored(explanation="a limit of Inspect's ended the sample")
        returns = {
            f"player_{i}": seat_return
            for i, seat_return in enumerate(record["returns"])
        }
        return Score(value=returns, metadata=record)

    return score


class RoleModel:
    """The policy of the model that has a role; only `play_async` can ask it."""

    def __init__(self, role: str) -> None:
        self.name = role

    def act(self, requests: Sequence[TurnRequest]) -> list[Reply]:
        raise TypeError(f"policy {self.name!r} is awaited: use play_async")

    async def act_async(
        self, request: TurnRequest, timeout: float | None = None
    ) -> Reply:
        prompt = [_KINDS[m["role"]](content=m["content"]) for m in request.messages]
        async with asyncio.timeout(timeout):
            output = await get_model(role=self.name).generate(prompt)
        cut = output.stop_reason in ("max_tokens", "model_length")
        instead: Instead | None = None
        if not output.completion.strip() and not output.error:
            is_filtered = output.stop_reason == "content_filter"
            instead = "content_filter" if is_filtered else "empty"
            if output.choices and output.message.tool_calls:
                instead = "tool_call"
        return Reply(
            output.completion, truncated=cut, error=output.error, instead=instead
        )


def _record(episode: Episode) -> dict[str, Any]:
    """The metadata of the score."""
    rewards: dict[str, list[float]] = {}
    for turn in episode.turns:
        rewards.setdefault(f"player_{turn.seat}", []).append(turn.reward)
    return {
        "returns": list(episode.returns),
        "turn_rewards": rewards,
        "forfeited_by": episode.forfeited_by,
        "forfeit_reason": forfeit_reason(episode),
        "measures": dict(episode.measures),
    }


def _transcript(episode: Episode) -> list[Any]:
    """Prompt and reply of each turn; the whole prompts are in Inspect's model events."""
    messages: list[Any] = []
    for turn in episode.turns:
        metadata = {"metadata": {"agent": f"player_{turn.seat}"}}
        messages.append(
            ChatMessageUser(content=turn.messages[-1]["content"], **metadata)
        )
        messages.append(ChatMessageAssistant(content=turn.reply, **metadata))
    return messages
