"""`OpenMasks`: action masks that are never all zeros."""

from typing import Any

from pettingzoo.utils import BaseWrapper


class OpenMasks(BaseWrapper[str, Any, Any]):
    """A `GameEnv` that observes masks, with masks of ones for agents that may not act.

    In a `GameEnv` such masks are all zeros. Frameworks that sample an action for every agent
    in every step, such as TorchRL, fail then. The actions sampled for these agents are never
    played.

    - Observation: `"action_mask"` is all ones where it was all zeros.
    - Actions, rewards and spaces pass through.

    >>> import arena_envs
    >>> env = OpenMasks(arena_envs.make("tic_tac_toe", observation="features"))
    >>> env.reset(seed=0)
    >>> env.observe("player_1")["action_mask"].tolist()
    [1, 1, 1, 1, 1, 1, 1, 1, 1]
    """

    def observe(self, agent: str) -> Any:
        seen: Any = super().observe(agent)
        if not seen["action_mask"].any():
            seen["action_mask"][:] = 1
        return seen
