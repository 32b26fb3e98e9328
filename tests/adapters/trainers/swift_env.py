"""ms-swift: `--use_gym_env true --gym_env arena`, with `env_config` in each row."""

from typing import Any

from swift.rollout.gym_env import Env, envs

from arena_wrappers import SeatSession


class ArenaEnv(Env):  # type: ignore[misc]
    async def reset(self, config: Any) -> tuple[str, dict[str, Any], str]:
        given = {"game": "kuhn_poker", "opponents": "cfr", **self.env_config}
        seed = given.pop("seed", None)
        given.pop("name", None)  # of this environment
        self.session = SeatSession(**given, prompt={"history": "transcript"})
        system, user = self.session.reset(seed)
        return user["content"], self.session.info(), system["content"]

    async def step(self, action: Any) -> tuple[str, float, bool, dict[str, Any]]:
        shown, reward, done, info = self.session.step(action[-1]["content"])
        return shown[-1]["content"], reward, done, info

    async def close(self) -> None:
        pass


envs["arena"] = ArenaEnv
