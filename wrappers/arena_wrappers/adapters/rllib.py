"""RLlib: a game as a `MultiAgentEnv` with action masks, and the policies of its seats."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

import arena_envs
from arena_wrappers.adapters import check_version

check_version("ray", "rllib", "2.60", "2.61")

from ray.rllib.core.rl_module import MultiRLModuleSpec, RLModuleSpec  # noqa: E402
from ray.rllib.env.multi_agent_env import MultiAgentEnv  # noqa: E402
from ray.rllib.examples.rl_modules.classes.action_masking_rlm import (  # noqa: E402
    ActionMaskingTorchRLModule,
)


class RLlibEnv(MultiAgentEnv):  # type: ignore[misc]  # RLlib is not annotated
    """A game for RLlib's new API stack.

    - Observation: `{"observations": float32[k], "action_mask": float32[n]}` of the agent to
      move. At the end: of all agents, with masks of ones.
    - Reward: what this step pays each agent. The first step adds what was paid by `reset`.
    - An illegal action raises `ValueError` and changes nothing.

    Args:
        config: `{"game": id}`, and arguments of `arena_envs.make`.

    Raises:
        ValueError: the config has no game, the game is a language game, or as for
            `arena_envs.make`.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        params = dict(config)
        if "game" not in params:
            raise ValueError(
                "want env_config={'game': ID}, such as 'tic_tac_toe', got no game"
            )
        self.env = arena_envs.make(params.pop("game"), observation="features", **params)
        num_actions = self.env.game.num_actions
        if num_actions is None:
            raise ValueError(
                f"want a game with numbered actions, got the language game {self.env.id!r}"
            )
        self.possible_agents = self.env.possible_agents
        self.agents = self.possible_agents[:]
        seat_space = self.env.observation_space("player_0")
        mask = spaces.Box(0.0, 1.0, (num_actions,), np.float32)
        space = spaces.Dict(
            {"observations": seat_space["observation"], "action_mask": mask}  # type: ignore[index]
        )
        self.observation_spaces = dict.fromkeys(self.possible_agents, space)
        action_space = self.env.action_space("player_0")
        self.action_spaces = dict.fromkeys(self.possible_agents, action_space)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        self.env.reset(seed=seed, options=options)
        self._unpaid = dict(self.env.rewards)
        return self._observations([self.env.agent_selection]), {}

    def step(self, actions: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
        env = self.env
        env.step(actions[env.agent_selection])
        rewards = {a: reward + self._unpaid[a] for a, reward in env.rewards.items()}
        self._unpaid = dict.fromkeys(self.possible_agents, 0.0)
        ended, cut = any(env.terminations.values()), any(env.truncations.values())
        seers = self.possible_agents if ended or cut else [env.agent_selection]
        return (
            self._observations(seers),
            rewards,
            {**env.terminations, "__all__": ended},
            {**env.truncations, "__all__": cut},
            {},
        )

    def _observations(self, agents: list[str]) -> dict[str, Any]:
        observations = {}
        for agent in agents:
            observation = self.env.observe(agent)
            mask = observation["action_mask"].astype(np.float32)
            if not mask.any():  # RLlib samples after the end, too
                mask[:] = 1.0
            observations[agent] = {
                "observations": observation["observation"],
                "action_mask": mask,
            }
        return observations


def seat_policies(*names: str, frozen: Collection[str] = ()) -> dict[str, Any]:
    """Arguments of `AlgorithmConfig.multi_agent`: the policy of each seat, by name.

    Args:
        *names: of the policies of seat 0, 1 and so on; equal names share a policy.
        frozen: the policies that keep their weights.
    """
    seats = {f"player_{seat}": name for seat, name in enumerate(names)}

    def of_agent(agent: str, episode: Any, **_: Any) -> str:
        return seats[agent]

    trained = sorted({*names} - {*frozen})
    arguments = {"policies": {*names}, "policies_to_train": trained}
    return {**arguments, "policy_mapping_fn": of_agent}


def masked_modules(multi_agent: Mapping[str, Any], **model: Any) -> Any:
    """The modules of these policies: RLlib's masked network for PPO.

    Args:
        multi_agent: as `seat_policies` returns.
        **model: settings of the network, such as `head_fcnet_hiddens=[64, 64]`.
    """
    return MultiRLModuleSpec(
        rl_module_specs={
            name: RLModuleSpec(
                module_class=ActionMaskingTorchRLModule, model_config=model
            )
            for name in sorted(multi_agent["policies"])
        }
    )
