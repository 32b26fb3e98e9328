"""`seat_tools`: one seat of a game as an environment of TRL's."""

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from arena_envs.game import AnyGame
from arena_wrappers.play import NoReplyError, Seat, SeatEnv, make_seat_env
from arena_wrappers.policies import Policy
from arena_wrappers.prompts import InvalidReply, PromptOptions, messages, parse_reply

ENVIRONMENTS = 2**32  # most environments of a factory


class SeatTools:
    """One seat of a game as an environment of TRL's, with the tool `act`.

    `seat_tools` makes them. An illegal action raises in the tool; TRL shows the model the
    reason, the game stays as it is, and the model may act again. A conversation that ends
    before the game does forfeits.

    Args:
        env: the seat.
        sample: number of this environment, see `seat_tools`.
    """

    def __init__(self, env: SeatEnv, sample: int) -> None:
        self._env, self._sample = env, sample
        self._resets: Counter[int] = Counter()
        self._over, self._lost = True, None  # type: tuple[bool, NoReplyError | None]

    def reset(self, seed: int | None = None, **_: Any) -> str:
        """The rules and what the seat sees first; TRL appends them to the prompt.

        Raises:
            ValueError: the row of the dataset has no seed.
        """
        if seed is None:
            raise ValueError(
                "want a column 'seed' in the dataset, so that the members of a group meet "
                "the same start; add it to each row"
            )
        options = {"sample": self._sample + self._resets[seed] * ENVIRONMENTS}
        self._resets[seed] += 1
        self._let_play(lambda: self._env.reset(seed=seed, options=options))
        return f"\n\n{self._env.env.game.rules(self._env.seat)}\n\n{self._seen()}"

    def act(self, action: str) -> str:
        """Play an action in the game.

        Args:
            action: the text of a legal action

        Returns:
            What you see next, or how the game ended.
        """
        if self._over:
            raise ValueError(self._seen())
        env = self._env.env
        game, state = env.game, env.game_state
        read = parse_reply(game, state, action, "bare", env.legal_texts())
        if isinstance(read, InvalidReply):
            raise ValueError(read.detail)
        said = read if game.num_actions is not None else game.action_text(state, read)
        self._let_play(lambda: self._env.step(said))
        return self._seen()

    def get_reward(self) -> float:
        """The seat's return.

        Raises:
            NoReplyError: an opponent gave no reply, so that the episode is lost. TRL shows
                errors of a tool to the model, so `act` does not raise it.
        """
        if self._lost is not None:
            raise self._lost
        if not self._over:
            self._env.env.forfeit(self._env.agent)
            self._over = True
        return float(self._env.env.returns[self._env.seat])

    def _let_play(self, play: Callable[[], Any]) -> None:
        """Resets or steps; keeps the error of an opponent that gives no reply."""
        env, self._lost = self._env.env, None
        try:
            play()
        except NoReplyError as error:
            self._lost = error
            env.forfeit(env.agent_selection)
        agent = self._env.agent
        self._over = env.terminations[agent] or env.truncations[agent]

    def _seen(self) -> str:
        env, seat = self._env.env, self._env.seat
        if self._over:
            return f"The game is over. Your return is {env.returns[seat]:g}."
        shown = messages(env.game, env.game_state, seat, PromptOptions(rules=False))
        return shown[-1]["content"]


def seat_tools(
    game: str | AnyGame,
    seat: Seat = 0,
    opponents: str | Policy | Sequence[str | Policy] = "random",
    **params: Any,
) -> Callable[[], SeatTools]:
    """TRL's `environment_factory`: each call makes a `SeatTools`.

    Each row of the dataset needs a `seed`. Environments are numbered, and play the episode of
    the row's seed with the sample of their number: the members of a group share chance, and
    their opponents make different choices. When an environment gets a seed again, its opponents
    make new choices. Each environment counts its seeds in memory, so a resumed run counts from 0.

    Args:
        game: as for `make_seat_env`.
        seat: as for `make_seat_env`.
        opponents: as for `make_seat_env`.
        **params: as for `make_seat_env`.

    Raises:
        ValueError: as for `make_seat_env`.
    """
    numbers = itertools.count()

    def make() -> SeatTools:
        env = make_seat_env(game, seat, opponents, **params)
        return SeatTools(env, next(numbers))

    make_seat_env(game, seat, opponents, **params)  # refuses wrong arguments now
    return make
