"""`GameEnv`: any game as a PettingZoo AEC environment."""

import string
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.error import CustomSpaceError
from gymnasium.vector.utils import create_shared_memory
from pettingzoo import AECEnv

from arena_envs.checks import (
    check_env_options,
    check_render_mode,
    checked_action,
    checked_seed,
    render_modes,
    short,
)
from arena_envs.game import (
    CHANCE,
    MAX_TEXT,
    TERMINAL,
    AnyAction,
    AnyGame,
    IllegalAction,
    penalized,
)
from arena_envs.nodes import (
    Chance,
    Content,
    Node,
    check_surplus,
    given_outcomes,
    graph_of,
    parsed_action,
)


class AnyText(spaces.Text):
    """Every `str` of at most `max_length` characters, also the empty string.

    `gymnasium.spaces.Text` compares each character with a set, which takes 43 μs for 500
    characters. Here only the length is limited. `sample` draws printable ASCII.
    """

    def __init__(self, max_length: int) -> None:
        super().__init__(max_length, min_length=0, charset=string.printable)

    def contains(self, x: Any) -> bool:
        return isinstance(x, str) and len(x) <= self.max_length


@create_shared_memory.register(AnyText)
def _refuse_shared_memory(space: AnyText, n: int = 1, ctx: Any = None) -> Any:
    """Refuses: `AsyncVectorEnv` would read the text once, when made, and show it for ever.

    Raises:
        CustomSpaceError: always.
    """
    raise CustomSpaceError(
        "shared memory cannot hold the text of an observation: pass "
        "observation='features', or vector_kwargs={'shared_memory': False} to make_vec"
    )


def make_spaces(
    game: AnyGame, content: Content = "all"
) -> tuple[spaces.Space[Any], spaces.Space[Any]]:
    """The observation space and the action space of every agent of a game."""
    num_actions = game.num_actions
    action_space: spaces.Space[Any] = AnyText(MAX_TEXT)
    if num_actions is not None:
        action_space = spaces.Discrete(num_actions)
    if content == "text":
        return AnyText(MAX_TEXT), action_space
    shape = game.features(game.initial_state(), 0).shape
    parts: dict[str, spaces.Space[Any]] = {
        "observation": spaces.Box(-np.inf, np.inf, shape, np.float32)
    }
    if content == "all":
        parts["text"] = AnyText(MAX_TEXT)
    if num_actions is not None:
        parts["action_mask"] = spaces.Box(0, 1, (num_actions,), np.int8)
    return spaces.Dict(parts), action_space


class GameEnv(AECEnv[str, Any, Any]):
    """Plays a `Game` through `agent_iter`, `last` and `step`.

    An observation is a dict of `"observation"` (float32[k]), `"action_mask"` (int8[n]: 1 for
    each legal action of an agent that may choose now, else 0) and `"text"`. Language games
    have texts as actions and no mask; `step` also takes what `legal_actions()` lists. A
    reward is the change of the agent's return.

    Args:
        game: the rules.
        id: the registered id of the game, if it has one.
        max_turns: truncates the episode after this many turns, counted over all agents. A
            round in which all agents choose at the same time is played to its end.
        render_mode: what the agent to move sees: as text (`"ansi"`, and by default), printed
            (`"human"`) or as uint8[640, 640, 3] (`"rgb_array"`, with the extra `render`).
        observation: `"all"`; `"features"`, the dict without the text; or `"text"`, the text
            itself.

    Raises:
        ValueError: `max_turns` is no integer above 0, or `render_mode` or `observation` is
            unknown.
        ModuleNotFoundError: `"rgb_array"` without the extra `render`.
    """

    actions: list[Any]  # of this episode, chance outcomes included
    num_turns: int
    forfeited_by: int | None  # a seat
    num_bad: tuple[int, ...]  # bad replies by seat, in games of three or more seats

    def __init__(
        self,
        game: AnyGame,
        *,
        id: str | None = None,
        max_turns: int | None = None,
        render_mode: str | None = None,
        observation: Content = "all",
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        check_env_options(max_turns, observation)
        check_render_mode(render_mode)
        self.game = game
        self.id = id
        self.max_turns = max_turns
        self.render_mode = render_mode
        self.observation: Content = observation
        self.metadata = {
            "name": (id or type(game).__name__).replace("-", "_"),
            "render_modes": render_modes(),
            "render_fps": 1,
            "is_parallelizable": game.simultaneous,
        }
        self.possible_agents = [f"player_{seat}" for seat in range(game.num_players)]
        self._seats = {agent: seat for seat, agent in enumerate(self.possible_agents)}
        self._chance = Chance()
        self._graph = graph_of(game)
        observation_space, action_space = make_spaces(game, observation)
        self.observation_spaces = dict.fromkeys(self.possible_agents, observation_space)
        self.action_spaces = dict.fromkeys(self.possible_agents, action_space)
        self._start([], self._graph.root, [])

    @property
    def game_state(self) -> Any:
        """The current state of the game, hidden parts included."""
        return self._node.state

    @property
    def returns(self) -> tuple[float, ...]:
        """Payments to each seat so far in this episode, forfeits and penalties included."""
        return self._returns

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return self.observation_spaces[self._checked_agent(agent)]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return self.action_spaces[self._checked_agent(agent)]

    def _checked_agent(self, agent: str) -> str:
        """The agent; raises ValueError if the game has none of this name."""
        if agent not in self._seats:
            raise ValueError(
                f"want an agent among {', '.join(self.possible_agents)}, got {agent!r:.80}"
            )
        return agent

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> None:
        """Starts an episode.

        Args:
            seed: of the environment's own generator; None continues with its current state.
            options: `{"chance": [...]}` sets the first chance outcomes, for a chosen deal or
                a replay; later outcomes are drawn. Other keys are ignored.

        Raises:
            ValueError: the seed is no integer of at least 0; the chance outcomes are no list,
                impossible or too many; `"chance"` is misspelt; or `"sample"` is given, which
                `SeatEnv` takes. The environment is unchanged.
        """
        seed = None if seed is None else checked_seed(seed)
        fixed_outcomes = given_outcomes(options)
        chance = self._chance.copy() if fixed_outcomes else self._chance
        if seed is not None:
            chance.seed(seed)
        chance.given = fixed_outcomes
        node, drawn_outcomes = chance.settle(self._graph, self._graph.root)
        check_surplus(self.game, node.state, len(drawn_outcomes), len(chance.given))
        self._chance = chance
        self._start(self.possible_agents[:], node, drawn_outcomes)
        self._enter(node)
        if self.render_mode == "human":
            self.render()

    def last(
        self, observe: bool = True
    ) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Observation, reward, terminated, truncated and info of `agent_selection`.

        Raises:
            ValueError: no episode is running.
        """
        if not self.agents:
            raise ValueError("no episode is running: call reset()")
        return super().last(observe)

    def step(self, action: Any) -> None:
        """Plays an action for `agent_selection`, or None if the episode of that agent is over.

        Raises:
            ValueError: the action is illegal, or no episode is running. The environment is
                unchanged.
        """
        if not self.agents:
            raise ValueError("no episode is running: call reset()")
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._step_dead(agent, action)
            return
        if self.game.num_actions is None:
            try:
                action = parsed_action(self.game, self._node, action)
            except IllegalAction:
                self.forfeit(agent)
                return
        elif type(action) is not int or action not in self._node.legal:
            action = checked_action(action, self._node.legal, agent)
        self.play(action)

    def play(self, action: AnyAction) -> None:
        """Plays an action of the rules for `agent_selection`; unlike `step`, checks nothing."""
        here = self._node
        # without a call where the child is known
        node = here.children.get(action) or self._graph.child(here, action)
        outcomes: Sequence[Any] = ()
        if node.player == CHANCE:
            chance = self._chance.copy() if self._chance.given else self._chance
            node, outcomes = chance.settle(self._graph, node)
            self._chance = chance
        self.actions.append(action)
        self.actions.extend(outcomes)
        self.num_turns += 1
        self._cumulative_rewards[self.agent_selection] = 0.0
        self._enter(node)
        if self.max_turns is not None and self.num_turns >= self.max_turns:
            mid_round = self.game.simultaneous and node.player != 0
            if node.player != TERMINAL and not mid_round:
                self._end(self.truncations)
        if self.render_mode == "human":
            self.render()

    def forfeit(self, agent: str) -> None:
        """Makes this agent pay for breaking the rules.

        In games of one or two seats, ends the episode, pays what `Game.forfeit` returns and
        sets `forfeited_by` to the agent's seat. In larger games the agent, which has to be to
        move, plays `Game.default_action`, and returns are `penalized` from now on. As after
        `step`, the reward that `last()` has reported to the agent to move is not paid again.

        Raises:
            ValueError: the agent is not playing, or not to move.
        """
        if not self._is_live(agent):
            raise ValueError(f"{agent!r} is not playing, so it cannot forfeit")
        if self.game.num_players > 2:
            if agent != self.agent_selection:
                raise ValueError(
                    f"{agent!r} is not to move, so it cannot forfeit; "
                    f"{self.agent_selection!r} can"
                )
            seats = enumerate(self.num_bad)
            self.num_bad = tuple(n + (seat == self._seats[agent]) for seat, n in seats)
            self.play(self.game.default_action(self._node.state))
            return
        self.forfeited_by = self._seats[agent]
        self._cumulative_rewards[self.agent_selection] = 0.0
        self._pay(tuple(self.game.forfeit(self._node.state, self.forfeited_by)))
        self._end(self.terminations)

    def observe(self, agent: str) -> Any:
        seat, is_live = self._seats[self._checked_agent(agent)], self._is_live(agent)
        return self._graph.observation(self._node, seat, self.observation, is_live)

    def legal_actions(self) -> Sequence[Any]:
        """Legal actions of `agent_selection`, ascending; empty when the episode is over."""
        if self.agents and self._is_live(self.agent_selection):
            return self._node.legal
        return ()

    def legal_texts(self) -> tuple[str, ...]:
        """Canonical texts of `legal_actions()`, in their order."""
        return self._graph.legal_texts(self._node) if self.legal_actions() else ()

    def clone(self, seed: int | None = None) -> "GameEnv":
        """A copy that continues as this environment would.

        Args:
            seed: of the copy's generator, for other chance outcomes from here on.
        """
        twin = object.__new__(type(self))
        # by setattr: Python then stores the names once for all copies
        for name, value in vars(self).items():
            setattr(twin, name, value)
        twin._chance = self._chance.copy()
        if seed is not None:
            twin._chance.seed(checked_seed(seed))
        twin.actions = self.actions.copy()
        twin.agents = self.agents.copy()
        twin.rewards = self.rewards.copy()
        twin._cumulative_rewards = self._cumulative_rewards.copy()
        twin.terminations = self.terminations.copy()
        twin.truncations = self.truncations.copy()
        twin.infos = {agent: info.copy() for agent, info in self.infos.items()}
        return twin

    def __copy__(self) -> "GameEnv":
        return self.clone()

    def render(self) -> Any:
        """The scene that the agent to move sees, as text by default; None if it is printed."""
        agent = self.agent_selection if self.agents else self.possible_agents[0]
        seat = self._seats[agent]
        from arena_envs.scenes.rendering import rendered  # play needs no pictures

        return rendered(self.game, self._node.state, seat, self.render_mode)

    def close(self) -> None:
        pass

    def __getstate__(self) -> dict[str, Any]:
        attributes = self.__dict__.copy()
        del attributes["_graph"]
        return {**attributes, "_node": self._node.state}

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        self.__dict__.update(attributes)
        self._graph = graph_of(self.game)
        self._node = self._graph.visit(attributes["_node"])

    def _start(self, agents: list[str], node: Node, outcomes: list[Any]) -> None:
        self.agents = agents
        self.rewards = dict.fromkeys(agents, 0.0)
        self._cumulative_rewards = self.rewards.copy()
        self.terminations = dict.fromkeys(agents, False)
        self.truncations = self.terminations.copy()
        self.infos = {agent: {} for agent in agents}
        self._node = node
        self._returns: tuple[float, ...] = (0.0,) * self.game.num_players
        self.actions = outcomes
        self.num_turns = 0
        self.forfeited_by = None
        self.num_bad = (0,) * self.game.num_players

    def _enter(self, node: Node) -> None:
        self._node = node
        returns = node.returns
        if any(self.num_bad):
            returns = penalized(self.game, returns, self.num_bad)
        self._pay(returns)
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
        self.rewards = {}
        for agent, now, before in zip(self.agents, returns, self._returns, strict=True):
            reward = float(now - before)
            self.rewards[agent] = reward
            self._cumulative_rewards[agent] += reward
        self._returns = returns

    def _step_dead(self, agent: str, action: Any) -> None:
        """Removes an agent whose episode is over, as PettingZoo asks."""
        if action is not None:
            raise ValueError(
                f"{agent} is terminated or truncated and can only play None, "
                f"got {short(action)}"
            )
        del self.terminations[agent], self.truncations[agent], self.infos[agent]
        del self._cumulative_rewards[agent]
        self.agents.remove(agent)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        if self.agents:
            self.agent_selection = self.agents[0]

    def _is_live(self, agent: str) -> bool:
        return not (self.terminations.get(agent, True) or self.truncations[agent])
