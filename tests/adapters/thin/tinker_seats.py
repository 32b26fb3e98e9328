"""Tinker's cookbook: a group of episodes with the same deal; one builder for each seat."""

from dataclasses import dataclass
from typing import Any

from tinker_cookbook.rl.types import Env, EnvGroupBuilder, StepResult

from arena_wrappers import SeatSession


class SeatTokens(Env):  # type: ignore[misc]
    def __init__(self, session: SeatSession, renderer: Any, *start: int) -> None:
        self.session, self.renderer, self.start = session, renderer, start

    def _prompt(self, shown: Any) -> tuple[Any, Any]:
        prompt = self.renderer.build_generation_prompt(shown)
        prompt = prompt[0] if isinstance(prompt, tuple) else prompt
        return prompt, self.renderer.get_stop_sequences()

    async def initial_observation(self) -> tuple[Any, Any]:
        seed, sample = self.start
        return self._prompt(self.session.reset(seed, options={"sample": sample}))

    async def step(self, action: Any, *, extra: Any = None) -> StepResult:
        message, _ = self.renderer.parse_response(action)
        shown, reward, done, _ = self.session.step(message["content"])
        return StepResult(reward, done, *self._prompt(shown))


@dataclass(frozen=True)
class SeatGroup(EnvGroupBuilder):  # type: ignore[misc]
    game: str
    seat: int
    seed: int
    renderer: Any
    opponents: str = "cfr"
    size: int = 8

    async def make_envs(self) -> list[SeatTokens]:
        made = []
        for sample in range(self.size):
            session = SeatSession(self.game, self.seat, self.opponents)
            made.append(SeatTokens(session, self.renderer, self.seed, sample))
        return made

    def logging_tags(self) -> list[str]:
        return [self.game, f"player_{self.seat}"]
