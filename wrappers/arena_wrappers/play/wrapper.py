"""`PromptWrapper`: an environment whose observations are prompts and actions replies."""

import copy
import math
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, get_args

from gymnasium import spaces
from pettingzoo.utils.wrappers.base import BaseWrapper

from arena_envs.checks import check_known, did_you_mean
from arena_envs.env import AnyText, GameEnv
from arena_envs.game import (
    MAX_TEXT,
    AnyAction,
)
from arena_wrappers.prompts import (
    PROMPT_OPTIONS,
    HistoryMode,
    InvalidReply,
    Message,
    Parsing,
    PromptOptions,
    Seating,
    SeatOptions,
    SeatView,
    ask_again,
    author_message,
    options_by_seat,
)
from arena_wrappers.records import Turn

OnInvalid = Literal["forfeit", "retry", "random", "raise"]

MAX_REPLY = 100_000  # characters, of the action space; `step` reads longer ones, too
MAX_REFUSED = 2_000  # characters of an invalid reply that its author reads again


class ChatSpace(spaces.Sequence):
    """Lists of chat messages."""

    def __init__(self) -> None:
        text = AnyText(10 * MAX_TEXT)
        super().__init__(spaces.Dict({"role": text, "content": text}))

    def contains(self, x: Any) -> bool:
        return isinstance(x, Iterable) and super().contains(tuple(x))


def _check_words(words: dict[str, Any]) -> None:
    for name in words:
        if name not in PROMPT_OPTIONS:
            hint = did_you_mean(name, PROMPT_OPTIONS)
            raise TypeError(f"want prompt options, got {name!r}; {hint}")


def _check_env(env: GameEnv) -> None:
    if not isinstance(env, GameEnv):
        raise TypeError(
            f"want a GameEnv, got {type(env).__name__}; write "
            "PromptWrapper(arena_envs.make('kuhn_poker'))"
        )


class PromptWrapper(BaseWrapper[str, Any, Any]):
    """Shows each agent a prompt of chat messages, and parses its raw reply.

    Observation: a list of chat messages (`role`, `content`). Action: any text. Reward: the
    game's, minus `penalty` for an agent whose reply is invalid; `reward_parts` holds the
    parts of the last step by name (`game`, `format`). Both spaces change.

    The `PromptOptions` of a seat are, in this order: those in `seats`; in `play`, those of
    its policy (`Policy`); those of the arguments.

    Args:
        env: the environment.
        reply_format: `"answer"`, `"boxed"`, `"bracket"` or `"bare"`, see
            `arena_wrappers.prompts.formats`.
        history: `"state"`: the prompt has the rules and the current text; `"transcript"`: it
            has the seat's whole conversation.
        rules: whether the system message has the rules and the instruction on how to reply.
        show_legal_actions: whether the prompt lists the legal actions.
        on_invalid: what follows an invalid reply. `"forfeit"`: the episode ends as
            `Game.forfeit` says; in games of three or more seats, the agent plays
            `Game.default_action` and pays for it (`GameEnv.forfeit`). `"retry"`: the agent reads its reply (of a long one the
            start and the end) and the reason, and is asked again, up to `max_retries`
            times; then it forfeits. `"random"`: a random legal action is played; in `play`
            it follows from the episode's seed and sample, the turn and the seat.
            `"raise"`: ValueError, and nothing changes.
        penalty: cost of an invalid reply for its agent, in the `format` part.
        max_retries: how often an agent is asked again at one decision.
        parsing: `"tolerant"` or `"strict"`, by the rules of `arena_wrappers.prompts.parsing`.
        seats: options of some seats, by number: `PromptOptions`, or a mapping of their
            fields. They override those of policies.
        **words: persona, language, system, turn, again, date and shuffle, as in `PromptOptions`.

    Raises:
        TypeError: `env` is not a `GameEnv`.
        ValueError: an option is unknown or out of range.
    """

    env: GameEnv

    def __init__(
        self,
        env: GameEnv,
        reply_format: str = "answer",
        history: HistoryMode = "state",
        rules: bool = True,
        show_legal_actions: bool = True,
        on_invalid: OnInvalid = "forfeit",
        penalty: float = 0.5,
        max_retries: int = 2,
        parsing: Parsing = "tolerant",
        seats: SeatOptions | None = None,
        **words: Any,
    ) -> None:
        _check_env(env)
        super().__init__(env)
        _check_words(words)
        problem = f"unknown on_invalid {on_invalid!r}"
        check_known(on_invalid, get_args(OnInvalid), problem)
        if not 0 <= penalty < math.inf:
            raise ValueError(f"want a finite penalty of at least 0, got {penalty}")
        if max_retries < 0:
            raise ValueError(f"want max_retries of at least 0, got {max_retries}")
        self.on_invalid = on_invalid
        self.penalty = penalty
        self.max_retries = max_retries
        default = PromptOptions(
            reply_format, rules, show_legal_actions, history, parsing, **words
        )
        num_players = env.game.num_players
        options_of_seat = options_by_seat(seats or {}, num_players)
        self._seating = Seating(default, options_of_seat, num_players)
        self._seed: int | None = None
        self._rng: random.Random | None = random.Random()  # None: made when used
        self._spaces = (ChatSpace(), AnyText(MAX_REPLY))
        self._attempts: list[Message] = []
        self._conversations: dict[str, list[Message]] = {}
        self._game_rewards: dict[str, float] = {}  # of the last step
        self._penalized_agent: str | None = None  # whose last reply was invalid

    def options_of(self, seat: int) -> PromptOptions:
        """The prompt options of a seat."""
        return self._seating.options[seat]

    @property
    def prompt_options(self) -> dict[str, Any]:
        """Arguments of an equal `PromptWrapper`, as JSON holds them."""
        return {
            **self._seating.as_arguments(),
            "on_invalid": self.on_invalid,
            "penalty": self.penalty,
            "max_retries": self.max_retries,
        }

    def seated(self, prompts: Sequence[PromptOptions | None]) -> "PromptWrapper":
        """A copy with the policies' own options in the seats that `seats` does not name.

        Args:
            prompts: the policy's own options by seat; None for the wrapper's default.
        """
        wrapper = self.clone()
        wrapper._seating = self._seating.with_policy_options(prompts)
        return wrapper

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> None:
        env = self.env
        env.reset(seed, options)
        if seed is not None:
            self._seed, self._rng = seed, None
        self.outcome: Any = None  # of the last reply: an action or an InvalidReply
        # the last action, as a record holds it; None if none was played
        self.played: Any = None
        self._attempts = []
        self._conversations = {}
        self._cumulative_rewards = dict.fromkeys(env.agents, 0.0)
        self._publish(env.rewards, "", None)

    @property
    def reward_parts(self) -> dict[str, dict[str, float]]:
        """The parts of each agent's reward for the last step, by name."""
        rewards = self._game_rewards
        parts = {agent: {"game": reward} for agent, reward in rewards.items()}
        if self._penalized_agent is not None:
            parts[self._penalized_agent]["format"] = -self.penalty
        return parts

    def add_rewards(self, turns: Mapping[str, Turn]) -> None:
        """Adds `reward_parts` to the rewards of the latest turn of each agent that has had one."""
        for agent, reward in self._game_rewards.items():
            if agent in turns:
                parts = turns[agent].rewards
                parts["game"] = parts.get("game", 0.0) + reward
        if self._penalized_agent is not None:
            parts = turns[self._penalized_agent].rewards
            parts["format"] = parts.get("format", 0.0) - self.penalty

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return self._spaces[0]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return self._spaces[1]

    def observe(self, agent: str) -> list[Message]:
        seat = self.env.possible_agents.index(agent)
        return self._prompt(agent, self._view(seat))

    def _prompt(self, agent: str, view: SeatView) -> list[Message]:
        prompt, conversation = view.prompt, self._conversations.get(agent)
        if conversation is not None:
            prompt = [*conversation, prompt[-1]]
        if attempts := self._attempts:
            env = self.env
            if env.agents and agent == env.agent_selection:
                prompt = [*prompt, *attempts]
        return [message.copy() for message in prompt]

    def prompt_and_legal_texts(self) -> tuple[list[Message], list[str]]:
        """What `observe` and `legal_texts` give for `agent_selection` while the episode goes on."""
        env = self.env
        agent = env.agent_selection
        view = self._view(env.possible_agents.index(agent))
        return self._prompt(agent, view), view.legal.copy()

    def legal_texts(self) -> list[str]:
        """Canonical texts of the legal actions of `agent_selection`, in their order."""
        env = self.env
        if not env.legal_actions():
            return []
        return self._view(env.possible_agents.index(env.agent_selection)).legal.copy()

    def last(
        self, observe: bool = True
    ) -> tuple[list[Message] | None, float, bool, bool, dict[str, Any]]:
        if not self.env.agents:
            raise ValueError("no episode is running: call reset()")
        return super().last(observe)

    def step(self, action: Any) -> None:
        """Plays a reply for `agent_selection`; None for an agent whose episode is over.

        Raises:
            ValueError: the action is not a text, no episode is running, or the reply is
                invalid and `on_invalid` is `"raise"`; nothing changes.
        """
        env = self.env
        agent = env.agent_selection if env.agents else ""
        if not agent or env.terminations[agent] or env.truncations[agent]:
            env.step(action)
            self._cumulative_rewards.pop(agent, None)
            self.rewards, self.infos = env.rewards, env.infos
            return
        if not isinstance(action, str):
            raise ValueError(f"want a text as reply, got {type(action).__name__}")
        self.submit(action)

    def submit(
        self,
        text: str,
        invalid: InvalidReply | None = None,
        *,
        seed: int | None = None,
        replayed_action: AnyAction = None,
    ) -> None:
        """Plays a reply.

        Args:
            text: the reply.
            invalid: the reason, if the reply is known to be invalid (cut, empty).
            seed: seed of the action that `on_invalid="random"` draws; by default the draw
                comes from a stream of the environment's seed.
            replayed_action: for a replay, the action that was drawn.

        Raises:
            ValueError: the reply is invalid and `on_invalid` is `"raise"`.
        """
        env = self.env
        agent = env.agent_selection
        seat = env.possible_agents.index(agent)
        options = self._seating.options[seat]
        outcome: Any = invalid
        if outcome is None:
            view = self._view(seat)
            outcome = view.parsed(text, options, env.game, env.game_state)
        invalid_reply = outcome if isinstance(outcome, InvalidReply) else None
        if invalid_reply is not None and self.on_invalid == "raise":
            raise ValueError(f"{agent}: {invalid_reply.reason}: {invalid_reply.detail}")
        self.outcome, self.played = outcome, None
        self._cumulative_rewards[agent] = 0.0
        if invalid_reply is not None and self._may_retry():
            reply = author_message(text, MAX_REFUSED)
            self._attempts = [*self._attempts, reply, ask_again(invalid_reply, options)]
            rewards = dict.fromkeys(env.agents, 0.0)
        else:
            if options.history == "transcript":
                message = author_message(text, MAX_REPLY)
                self._conversations[agent] = [*self.observe(agent), message]
            self._attempts = []
            self._play(agent, outcome, seed, replayed_action)
            rewards = env.rewards
        self._publish(rewards, agent, invalid_reply)

    def _may_retry(self) -> bool:
        """Whether an invalid reply of the agent to move is followed by another attempt."""
        # an attempt is a reply and a reason
        has_another = len(self._attempts) < 2 * self.max_retries
        return self.on_invalid == "retry" and has_another

    def clone(self, seed: int | None = None) -> "PromptWrapper":
        """A copy that continues identically; with a seed, with other chance outcomes."""
        wrapper = object.__new__(type(self))
        # by setattr: Python then stores the names once for all copies
        for name, value in vars(self).items():
            setattr(wrapper, name, value)
        wrapper.env = self.env.clone(seed)
        wrapper._rng = copy.copy(self._rng)
        names = ("_cumulative_rewards", "rewards", "_game_rewards", "_conversations")
        for name in names:
            if name in self.__dict__:  # after the first reset
                setattr(wrapper, name, self.__dict__[name].copy())
        if "infos" in self.__dict__:
            wrapper.infos = {agent: info.copy() for agent, info in self.infos.items()}
        return wrapper

    def __copy__(self) -> "PromptWrapper":
        return self.clone()

    def _view(self, seat: int) -> SeatView:
        env = self.env
        return self._seating.view(env.game, env.game_state, seat, self._seed or 0)

    def _play(
        self,
        agent: str,
        outcome: AnyAction | InvalidReply,
        seed: int | None,
        replayed_action: AnyAction,
    ) -> None:
        env = self.env
        if isinstance(outcome, InvalidReply):
            if self.on_invalid != "random":
                self._forfeit(agent)
                return
            outcome = self._draw(seed) if replayed_action is None else replayed_action
        game = env.game
        if game.num_actions is None:
            self.played = game.action_text(env.game_state, outcome)
            env.play(outcome)  # not `step`, which would parse the text again
        else:
            self.played = outcome
            env.step(outcome)

    def _forfeit(self, agent: str) -> None:
        env, state, num = self.env, self.env.game_state, self.env.num_turns
        env.forfeit(agent)
        if env.num_turns > num:  # the default action was played
            action = env.game.default_action(state)
            is_text = env.game.num_actions is None
            self.played = env.game.action_text(state, action) if is_text else action

    def _draw(self, seed: int | None) -> Any:
        """A random legal action for an invalid reply."""
        rng = self._rng if seed is None else random.Random(f"invalid reply {seed}")
        if rng is None:
            rng = self._rng = random.Random(f"invalid replies of {self._seed}")
        return rng.choice(self.env.legal_actions())

    def _publish(
        self, rewards: dict[str, float], actor: str, invalid: InvalidReply | None
    ) -> None:
        self._game_rewards = self.rewards = rewards
        self.infos = self.env.infos
        self._penalized_agent = actor if invalid else None
        if invalid:
            self.rewards = rewards = {**rewards, actor: rewards[actor] - self.penalty}
            info = {**self.infos[actor], "invalid_reply": invalid.reason}
            self.infos = {**self.infos, actor: info}
        for agent, reward in rewards.items():
            if reward:
                self._cumulative_rewards[agent] += reward
