"""`GameEnv`: any game as a PettingZoo AEC environment."""

import operator
import random
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from pettingzoo import AECEnv

from arena_envs.game import CHANCE, TERMINAL, AnyGame, IllegalAction
from arena_envs.spaces import AnyText

MAX_TEXT = 20_000  # characters of an observation or of an utterance
MAX_MEMO = 20_000  # states remembered with their texts and features


class GameEnv(AECEnv[str, dict[str, Any], Any]):
    """Plays a `Game` through `agent_iter`, `last` and `step`.

    Observation: a dict of `"observation"` (float32[k]), `"action_mask"` (int8[n], ones
    where the agent may choose now) and `"text"`. Language games have no mask, and their
    actions are texts. Rewards are differences of the game's returns.

    Args:
        game: the rules.
        id: the registered id that made this environment, if one did.
        max_turns: truncates the episode after so many turns of all agents together.
        render_mode: `"ansi"` returns the text of the agent to move, `"human"` prints it.

    Raises:
        ValueError: `max_turns` below 1, or an unknown `render_mode`.
    """

    def __init__(
        self,
        game: AnyGame,
        *,
        id: str | None = None,
        max_turns: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        super().__init__()
        if max_turns is not None and max_turns < 1:
            raise ValueError(f"want max_turns of at least 1, got {max_turns}")
        if render_mode not in (None, "ansi", "human"):
            raise ValueError(
                f"want render_mode None, 'ansi' or 'human', got {render_mode!r}"
            )
        self.game = game
        self.id = id
        self.max_turns = max_turns
        self.render_mode = render_mode
        name = (id or type(game).__name__).replace("-", "_")
        self.metadata = {
            "name": name,
            "render_modes": ["ansi", "human"],
            "render_fps": 1,
            "is_parallelizable": game.simultaneous,
        }
        self.possible_agents = [f"player_{seat}" for seat in range(game.num_players)]
        self.agents = []
        self._seats = {agent: seat for seat, agent in enumerate(self.possible_agents)}
        self._memo: dict[Any, _Node] = {}
        self._rng = random.Random()
        self._chance: Iterator[Any] = iter(())
        state = game.initial_state()
        self._observation_space = self._make_observation_space(state)
        self._action_space: spaces.Space[Any] = (
            AnyText(MAX_TEXT)
            if game.num_actions is None
            else spaces.Discrete(game.num_actions)
        )
        self.observation_spaces = dict.fromkeys(
            self.possible_agents, self._observation_space
        )
        self.action_spaces = dict.fromkeys(self.possible_agents, self._action_space)
        self._start(state)

    @property
    def game_state(self) -> Any:
        """The current state of the game, hidden parts included."""
        return self._node.state

    @property
    def returns(self) -> tuple[float, ...]:
        """What each seat has been paid in this episode, a forfeit included."""
        return self._returns

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> None:
        """Starts an episode.

        Args:
            seed: starts the environment's own generator; without one it goes on.
            options: `{"chance": [...]}` gives the first chance outcomes in place of
                random ones (to set up a deal, or to replay). Other keys are ignored.

        Raises:
            ValueError: the seed is negative or no integer.
        """
        if seed is not None:
            self._rng = random.Random(checked_seed(seed))
        self._chance = iter((options or {}).get("chance", ()))
        self._start(self.game.initial_state())
        self.agents = self.possible_agents[:]
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {} for agent in self.agents}
        node, drawn = self._settle(self._node)
        self._enter(node, drawn)
        self._pay(node.returns)
        if self.render_mode == "human":
            self.render()

    def step(self, action: Any) -> None:
        """Plays for `agent_selection`; None for an agent whose episode is over.

        Raises:
            ValueError: an illegal action, or the episode is over; nothing changes.
        """
        if not self.agents:
            raise ValueError("no episode is running: call reset()")
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        if self.game.num_actions is None:
            try:
                action = self._parsed(action)
            except IllegalAction:
                self.forfeit(agent)
                return
        elif type(action) is not int or action not in self._node.legal:
            action = self._checked(agent, action)
        node = self._visit(self.game.apply(self._node.state, action))
        node, drawn = self._settle(node)
        self.actions.append(action)
        self._cumulative_rewards[agent] = 0.0
        self.num_turns += 1
        self._enter(node, drawn)
        self._pay(node.returns)
        if node.player != TERMINAL and self.num_turns == self.max_turns:
            self._end(self.truncations)
        if self.render_mode == "human":
            self.render()

    def forfeit(self, agent: str) -> None:
        """Ends the episode because this agent broke the rules.

        Pays what `Game.forfeit` says, and sets `forfeited_by` to the agent's seat.

        Raises:
            ValueError: the agent is not playing.
        """
        if not self._is_live(agent):
            raise ValueError(f"{agent!r} is not playing, so it cannot forfeit")
        self.forfeited_by = self._seats[agent]
        if agent == self.agent_selection:
            self._cumulative_rewards[agent] = 0.0
        self._pay(tuple(self.game.forfeit(self._node.state, self.forfeited_by)))
        self._end(self.terminations)

    def observe(self, agent: str) -> dict[str, Any]:
        seat = self._seats[agent]
        view = self._node.views.get(seat) or self._look(seat)
        features, mask, text = view
        if mask is None:
            return {"observation": features.copy(), "text": text}
        mask = mask.copy()
        if not self._is_live(agent):
            mask[:] = 0
        return {"observation": features.copy(), "action_mask": mask, "text": text}

    def legal_actions(self) -> Sequence[Any]:
        """Actions of `agent_selection`, ascending; empty when the episode is over."""
        live = bool(self.agents) and self._is_live(self.agent_selection)
        return self._node.legal if live else ()

    def clone(self) -> "GameEnv":
        """A copy that continues identically; it shares the spaces and the memo."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        for name in _COPIED:
            if name in self.__dict__:
                setattr(other, name, self.__dict__[name].copy())
        if "infos" in self.__dict__:
            other.infos = {agent: dict(info) for agent, info in self.infos.items()}
        pending = list(self._chance)
        self._chance, other._chance = iter(pending), iter(pending)
        other._rng = random.Random.__new__(random.Random)
        other._rng.setstate(self._rng.getstate())
        return other

    def render(self) -> str | None:
        """The text of the agent to move, returned (`"ansi"`) or printed (`"human"`)."""
        if self.render_mode is None:
            return None
        agent = self.agent_selection if self.agents else self.possible_agents[0]
        text: str = self.observe(agent)["text"]
        if self.render_mode == "ansi":
            return text
        sys.stdout.write(text + "\n")
        return None

    def close(self) -> None:
        pass

    def __getstate__(self) -> dict[str, Any]:
        chance = list(self._chance)
        self._chance = iter(chance)
        return {**self.__dict__, "_chance": chance, "_memo": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._chance = iter(state["_chance"])

    def _start(self, state: Any) -> None:
        self._node = self._visit(state)
        self._returns = (0.0,) * self.game.num_players
        self.actions: list[Any] = []  # of this episode, chance outcomes included
        self.num_turns = 0
        self.forfeited_by: int | None = None

    def _visit(self, state: Any) -> "_Node":
        node = self._memo.get(state)
        if node is None:
            if len(self._memo) >= MAX_MEMO:
                self._memo.clear()
            node = self._memo[state] = _Node(self.game, state)
        return node

    def _settle(self, node: "_Node") -> tuple["_Node", list[Any]]:
        """Plays chance until an agent is to move or the game is over."""
        drawn: list[Any] = []
        while node.player == CHANCE:
            outcome = self._draw(node)
            drawn.append(outcome)
            node = self._visit(self.game.apply(node.state, outcome))
        return node, drawn

    def _draw(self, node: "_Node") -> Any:
        outcomes = self.game.chance_outcomes(node.state)
        for given in self._chance:
            if given not in [outcome for outcome, p in outcomes if p > 0]:
                raise ValueError(f"chance outcome {given!r} is not among {outcomes}")
            return given
        threshold = self._rng.random()
        for outcome, probability in outcomes:
            threshold -= probability
            if threshold < 0:
                return outcome
        return outcomes[-1][0]  # rounding left a sliver

    def _enter(self, node: "_Node", drawn: Iterable[Any]) -> None:
        self._node = node
        self.actions.extend(drawn)
        if node.player == TERMINAL:
            self._end(self.terminations)
        else:
            self.agent_selection = self.possible_agents[node.player]

    def _end(self, flags: dict[str, bool]) -> None:
        for agent in flags:
            flags[agent] = True
        self.agent_selection = self.agents[0]

    def _pay(self, returns: tuple[float, ...]) -> None:
        if returns == self._returns:
            self.rewards = dict.fromkeys(self.agents, 0.0)
            return
        for agent, now, before in zip(
            self.agents, returns, self._returns, strict=True
        ):
            reward = float(now - before)
            self.rewards[agent] = reward
            self._cumulative_rewards[agent] += reward
        self._returns = returns

    def _is_live(self, agent: str) -> bool:
        dead = self.terminations.get(agent, True) or self.truncations[agent]
        return bool(self.agents) and not dead

    def _checked(self, agent: str, action: Any) -> int:
        legal = list(self._node.legal)
        try:
            number = operator.index(action)
        except TypeError:
            number = -1
        if isinstance(action, bool) or number not in legal:
            raise ValueError(f"{agent} played {_short(action)}; legal are {legal}")
        return number

    def _parsed(self, text: Any) -> Any:
        if not isinstance(text, str):
            raise ValueError(f"want a text as action, got {_short(text)}")
        if len(text) > MAX_TEXT:
            raise IllegalAction(f"want at most {MAX_TEXT} characters, got {len(text)}")
        return self.game.parse(self._node.state, text)

    def _look(
        self, seat: int
    ) -> tuple[NDArray[np.float32], NDArray[np.int8] | None, str]:
        game, node = self.game, self._node
        mask = None
        if game.num_actions is not None:
            mask = np.zeros(game.num_actions, np.int8)
            if node.player == seat:
                mask[list(node.legal)] = 1
        view = (game.features(node.state, seat), mask, game.observe(node.state, seat))
        node.views[seat] = view
        return view

    def _make_observation_space(self, state: Any) -> spaces.Dict:
        shape = self.game.features(state, 0).shape
        parts: dict[str, spaces.Space[Any]] = {
            "observation": spaces.Box(-np.inf, np.inf, shape, np.float32),
            "text": AnyText(MAX_TEXT),
        }
        if self.game.num_actions is not None:
            parts["action_mask"] = spaces.Box(0, 1, (self.game.num_actions,), np.int8)
        return spaces.Dict(parts)


_COPIED = (
    "actions",
    "agents",
    "rewards",
    "_cumulative_rewards",
    "terminations",
    "truncations",
)


class _Node:
    """What the environment remembers of a state."""

    __slots__ = ("legal", "player", "returns", "state", "views")

    def __init__(self, game: AnyGame, state: Any) -> None:
        self.state = state
        self.player = game.current_player(state)
        self.legal = tuple(game.legal_actions(state))
        self.returns = tuple(game.returns(state))
        self.views: dict[
            int, tuple[NDArray[np.float32], NDArray[np.int8] | None, str]
        ] = {}


def checked_seed(seed: Any) -> int:
    """The seed as an `int`.

    Raises:
        ValueError: it is negative or no integer.
    """
    try:
        number = -1 if isinstance(seed, bool) else operator.index(seed)
    except TypeError:
        number = -1
    if number < 0:
        raise ValueError(f"want a non-negative integer as seed, got {_short(seed)}")
    return number


def _short(value: Any) -> str:
    text = f"{value!r}" if not isinstance(value, str) else repr(value[:80])
    return f"{text[:80]} ({type(value).__name__})"
