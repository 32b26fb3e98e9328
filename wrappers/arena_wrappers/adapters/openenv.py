"""OpenEnv: a game behind a server. `arena serve openenv GAME` starts it."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from string import Template
from typing import Any

from arena_envs.checks import did_you_mean
from arena_wrappers.adapters import check_version

check_version("openenv", "openenv", "0.10", "0.11")

from openenv.core.env_server.interfaces import Environment  # noqa: E402  # after check
from openenv.core.env_server.types import (  # noqa: E402
    Action,
    ConcurrencyConfig,
    Observation,
    State,
)

from arena_wrappers.play import Opponents, SeatChoice, SeatSession  # noqa: E402
from arena_wrappers.policies import SharedPolicy  # noqa: E402
from arena_wrappers.prompts import Message, find_reply_format  # noqa: E402


class GameAction(Action):  # type: ignore[misc]  # OpenEnv is not annotated here
    """A reply.

    Attributes:
        text: the raw text, which holds the action as the prompt asks.
    """

    text: str


class GameObservation(Observation):  # type: ignore[misc]
    """The observation of the agent to move; `done` and `reward` are inherited.

    Attributes:
        agent: the agent to move, or the agent of the served seat.
        messages: its prompt, as chat messages.
        legal_actions: canonical texts of its legal actions.
        rewards: what the last step paid, by agent; with one seat served, to that agent.
        returns: of all seats, at the end.
        truncated: whether a limit ended the episode.
        invalid_reply: why the last reply was invalid.
    """

    agent: str
    messages: list[dict[str, str]]
    legal_actions: list[str]
    rewards: dict[str, float]
    returns: list[float]
    truncated: bool = False
    invalid_reply: str | None = None


class Served(Environment):  # type: ignore[misc]
    """A `SeatSession` whose client plays one seat, or every seat in turn.

    The reward of a step is what it paid the agent that replied. An invalid reply ends the
    episode as `Game.forfeit` says. `reset(seed=..., sample=k)` gives the same deal with other
    choices of the opponents.

    Args:
        game: id of a game.
        seat: the client's seat, `"random"` for one drawn in each episode, or None for all.
        opponents: with a seat: a policy or its string, or one per other seat.
        prompt: options of prompts, as of `SeatSession`.
        **params: parameters for `arena_envs.make`.

    Raises:
        ValueError: as for `SeatSession`.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(
        self,
        game: str,
        seat: SeatChoice | None = None,
        opponents: Opponents = "random",
        prompt: Mapping[str, Any] | None = None,
        **params: Any,
    ) -> None:
        super().__init__()
        prompt = {"reply_format": "answer", **(prompt or {})}
        seat_of_client: Any = "all" if seat is None else seat
        others = () if seat is None else opponents
        self._session = SeatSession(
            game, seat_of_client, others, prompt=prompt, **params
        )
        self._wrap = find_reply_format(prompt["reply_format"]).wrap
        self._state = State()

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **options: Any
    ) -> GameObservation:
        for name in options.keys() - {"sample"}:
            advice = did_you_mean(name, ["seed", "sample", "episode_id"])
            raise ValueError(f"unknown option {name!r} of reset; {advice}")
        messages = self._session.reset(seed, options=options)
        self._state = State(episode_id=episode_id)
        return self._observation(messages, None, False, self._session.info())

    def step(self, action: GameAction, timeout_s: float | None = None) -> Any:
        step_result = self._session.step(action.text)
        self._state.step_count += 1
        return self._observation(*step_result)

    def _observation(
        self,
        messages: list[Message],
        reward: float | None,
        done: bool,
        info: dict[str, Any],
    ) -> GameObservation:
        return GameObservation(
            done=done,
            reward=reward,
            agent=info["agent"],
            messages=messages,
            legal_actions=info["legal"],
            rewards=info["rewards"],
            returns=info["outcome"]["returns"] if done else [],
            truncated=info["truncated"],
            invalid_reply=info["invalid"],
        )

    @property
    def state(self) -> State:
        return self._state

    def web_actions(self, observation: dict[str, Any]) -> list[tuple[str, Any]]:
        """A button for each legal action on the web page."""
        legal = observation["legal_actions"]
        return [(text, {"text": self._wrap(text)}) for text in legal]


MAX_SECONDS = 120.0  # that a call of an opponent waits for those of other sessions


def environment_maker(
    game: str,
    seat: SeatChoice | None = None,
    opponents: Opponents = "random",
    prompt: Mapping[str, Any] | None = None,
    **params: Any,
) -> Any:
    """A function that makes a `Served` of these arguments; bad ones raise here.

    All sessions share the opponents, so that a model is loaded once.
    """
    shared: Any = ()
    if seat is not None:
        single = isinstance(opponents, str) or not isinstance(opponents, Sequence)
        opponent_list: Any = [opponents] if single else opponents
        shared = [SharedPolicy(opponent, MAX_SECONDS) for opponent in opponent_list]
        shared = shared[0] if single else shared
    (make := partial(Served, game, seat, shared, prompt, **params))()
    return make


def export(
    folder: Path,
    game: str,
    *arguments: Any,
    sessions: int,
    timeout: float,
    **params: Any,
) -> None:
    """Writes a folder for `openenv push`: a Space of Hugging Face that serves the game.

    `arguments` and `params` are those of `environment_maker`, the others those of `make_app`.

    Raises:
        ValueError: the folder is not empty, or as for `environment_maker`.
    """
    environment_maker(game, *arguments, **params)
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(f"want a new or empty folder, got {folder}; name another")
    call = [repr(argument) for argument in (game, *arguments)]
    call += [f"{name}={value!r}" for name, value in params.items()]
    fields = {"game": game, "name": re.sub(r"\W+", "_", game).strip("_")}
    limits = {"sessions": sessions, "timeout": timeout}
    templates = Path(__file__).parent / "space"
    for template in filter(Path.is_file, templates.rglob("*.tmpl")):
        path = folder / template.relative_to(templates).with_suffix("")
        path.parent.mkdir(parents=True, exist_ok=True)
        text = Template(template.read_text("utf-8"))
        filled = text.substitute(fields, arguments=", ".join(call), **limits)
        path.write_text(filled, "utf-8")


def make_app(
    maker: Callable[[], Served],
    max_sessions: int = 64,
    session_timeout: float = 3600.0,
) -> Any:
    """A FastAPI application: sessions at `/ws`, a page for people at `/web`.

    Args:
        maker: as `environment_maker` returns it.
        max_sessions: largest number of sessions at once.
        session_timeout: seconds after which the session of a silent client ends.
    """
    from openenv.core.env_server.web_interface import create_web_interface_app

    limits = ConcurrencyConfig(
        max_concurrent_envs=max_sessions, session_timeout=session_timeout
    )
    return create_web_interface_app(
        maker, GameAction, GameObservation, "arena", concurrency_config=limits
    )
