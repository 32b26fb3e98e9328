"""SkyRL-Gym: one seat of a game, `env_class: arena` in rows with a `seed`."""

from typing import Any

import skyrl_gym
from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput

from arena_wrappers import SeatSession


class SeatTextEnv(BaseTextEnv):  # type: ignore[misc]
    def __init__(self, env_config: Any = None, extras: Any = None) -> None:
        super().__init__()
        row = {"game": "kuhn_poker", "seat": 0, "opponents": "cfr", **(extras or {})}
        self.seed, prompt = row.get("seed"), {"history": "transcript"}
        named = (row[name] for name in ("game", "seat", "opponents"))
        self.session = SeatSession(*named, prompt=prompt)

    def init(self, prompt: Any) -> tuple[Any, dict[str, Any]]:
        return self.session.reset(self.seed), {}

    def step(self, action: str) -> BaseTextEnvStepOutput:
        shown, reward, done, info = self.session.step(action)
        told = {"observations": [] if done else shown[-1:], "metadata": info}
        return BaseTextEnvStepOutput(reward=reward, done=done, **told)


skyrl_gym.register("arena", SeatTextEnv)
