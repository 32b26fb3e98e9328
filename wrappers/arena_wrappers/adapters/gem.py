r"""GEM: one seat of a game as a `gem.Env`.

Importing this module registers every game: `gem.make("arena:tic_tac_toe-v0", seat=1)`.
"""

import random
from functools import partial
from typing import Any

import arena_envs
from arena_wrappers.adapters import check_version

check_version("gem-llm", "gem", "0.1", "0.2")

from gem.core import Env  # noqa: E402  # after the check
from gem.envs.registration import register  # noqa: E402

from arena_wrappers.play import Opponents, SeatChoice, SeatSession  # noqa: E402
from arena_wrappers.prompts import find_reply_format  # noqa: E402


class GemEnv(Env):  # type: ignore[misc]  # GEM is not annotated
    r"""One seat of a game; policies play the others.

    - Observation: a text. The first of an episode starts with the rules and the reply format.
      Later ones hold the state and the legal actions, as in GEM's own games, whose observation
      wrappers join them.
    - Action: a reply with the action in `\boxed{...}`.
    - Reward and info: those of `SeatSession`. An invalid reply ends the episode as
      `Game.forfeit` says.

    Args:
        game: id of a game.
        seat: the seat, or `"random"`.
        opponents: a policy string, or one per other seat.
        reply_format: see `arena_wrappers.prompts.formats`.
        seed: of the first episode, unless `reset` gets a seed. `gem.make_vec` passes it.
        **params: parameters for `arena_envs.make`.

    Raises:
        ValueError: as for `SeatSession`.
    """

    def __init__(
        self,
        game: str,
        seat: SeatChoice = 0,
        opponents: Opponents = "random",
        reply_format: str = "boxed",
        seed: int | None = None,
        **params: Any,
    ) -> None:
        super().__init__()
        arguments = {"opponents": opponents, "reply_format": reply_format, **params}
        self._again = partial(GemEnv, game=game, seat=seat, **arguments)
        prompt = {"reply_format": reply_format}
        self._session = SeatSession(game, seat, opponents, prompt=prompt, **params)
        self._wrap = find_reply_format(reply_format).wrap
        self._seed = seed
        self._rng = random.Random(seed)

    def reset(self, seed: int | None = None) -> tuple[str, dict[str, Any]]:
        # the base class would seed Python's and numpy's global generators
        seed = self._seed if seed is None else seed
        self._seed = None
        if seed is not None:
            self._rng = random.Random(seed)
        prompt = self._session.reset(seed)
        text = "\n\n".join(message["content"] for message in prompt)
        return text, self._session.info()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        prompt, reward, done, info = self._session.step(action)
        truncated = info["truncated"]
        return prompt[-1]["content"], reward, done and not truncated, truncated, info

    def sample_random_action(self) -> str:
        """A reply with a random legal action.

        An empty one where the episode ended before the seat's first turn: `step` reports this,
        whatever the reply.
        """
        return self._wrap(self._rng.choice(self._session.info()["legal"] or [""]))

    def spawn(self, same_state: bool = False, **kwargs: Any) -> "GemEnv":
        """Another environment of these arguments; with `same_state`, a copy that goes on.

        The copy shares the opponents' policies, such as models and connections.

        Raises:
            ValueError: `same_state` with other arguments.
        """
        if not same_state:
            return self._again(**kwargs)
        if kwargs:
            raise ValueError(
                f"want no new arguments with same_state=True, got {sorted(kwargs)}"
            )
        twin = self._again(opponents=self._session.opponents)
        twin._session.restore(self._session.save())
        twin._rng.setstate(self._rng.getstate())
        return twin


for _info in arena_envs.game_infos():
    register(f"arena:{_info.id}", GemEnv, game=_info.id)
