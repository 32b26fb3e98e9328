"""`SeatEnv`: one seat of a game as a Gymnasium environment."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

import arena_envs
from arena_envs.checks import checked_action
from arena_envs.env import GameEnv
from arena_envs.game import AnyGame
from arena_wrappers.formats import InvalidReply, legal_texts
from arena_wrappers.policies import Policy, TurnRequest, own_prompt
from arena_wrappers.policy_strings import make_policy
from arena_wrappers.prompts import PromptOptions, messages


class SeatEnv(gymnasium.Env[dict[str, Any], Any]):
    """One seat of a game; policies play the others.

    - Observation and action: those of `GameEnv` for this seat.
    - Reward: the sum of what the seat is paid until its next turn.
    - An illegal action forfeits, since a Gymnasium agent may sample any action of the space:
      the episode terminates with the reward of `Game.forfeit`, and
      `info["illegal_action"]` is True. `action_masks()` gives the legal actions.
    - An opponent with an invalid reply forfeits likewise.
    - If an episode ends before this seat's first turn, the first step ends it and ignores
      its action.
    - The generator of this environment seeds the other policies.

    Args:
        env_fn: makes the environment.
        seat: the seat of this environment.
        opponents: one policy for all other seats, or one per other seat in seat order.

    Raises:
        ValueError: the seat or the number of opponents does not fit the game, or an
            opponent is no policy or reads transcripts.
    """

    metadata = {"render_modes": ["ansi", "human"], "render_fps": 1}  # noqa: RUF012

    def __init__(
        self,
        env_fn: Callable[[], GameEnv],
        seat: int,
        opponents: Policy | Sequence[Policy],
    ) -> None:
        self.env = env_fn()
        num_players = self.env.game.num_players
        is_integer = isinstance(seat, int | np.integer) and not isinstance(seat, bool)
        if not is_integer or seat not in range(num_players):
            raise ValueError(f"want seat from 0 to {num_players - 1}, got {seat!r}")
        if isinstance(opponents, str) or not isinstance(opponents, Sequence):
            opponents = [opponents] * (num_players - 1)
        for opponent in opponents:
            if not callable(getattr(opponent, "act", None)):
                raise ValueError(f"want a policy as opponent, got {opponent!r:.80}")
        if len(opponents) != num_players - 1:
            raise ValueError(
                f"want {num_players - 1} opponents, one per other seat, got {len(opponents)}"
            )
        self.seat = int(seat)
        self.agent = self.env.possible_agents[self.seat]
        others = [other for other in range(num_players) if other != seat]
        self.policies = dict(zip(others, opponents, strict=True))
        self._prompts = {seat: _prompt_of(p) for seat, p in self.policies.items()}
        self._ended = True  # no episode before the first reset
        self.render_mode = self.env.render_mode
        self.observation_space = self.env.observation_space(self.agent)
        self.action_space = self.env.action_space(self.agent)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        seeds = self._np_random, self._np_random_seed
        before = copy.deepcopy(seeds) if options else seeds  # only options can fail
        super().reset(seed=seed)
        try:
            self.env.reset(seed=self._draw_seed(), options=options)
        except ValueError:  # refused options leave the running episode as it was
            self._np_random, self._np_random_seed = before
            raise
        self._turns = [0] * self.env.game.num_players
        self._ended = False
        self._let_others_play()
        return self.env.observe(self.agent), {}

    def step(
        self, action: Any
    ) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        if self._ended:
            raise ValueError("no episode is running: call reset()")
        env, before = self.env, self.env.returns[self.seat]
        if not self._is_over():
            if self._is_legal(action):
                env.step(action)
            else:
                env.forfeit(self.agent)
            self._let_others_play()
        self._ended = self._is_over()
        info = {"illegal_action": True} if env.forfeited_by == self.seat else {}
        return (
            env.observe(self.agent),
            env.returns[self.seat] - before,
            env.terminations[self.agent],
            env.truncations[self.agent],
            info,
        )

    def action_masks(self) -> NDArray[np.int8]:
        """int8[n], ones where an action is legal; all ones after the end of an episode.

        Trainers with action masks sample once more after the end, which needs a one.

        Raises:
            TypeError: a language game, whose actions cannot be enumerated.
        """
        if self.env.game.num_actions is None:
            raise TypeError(
                "a language game has no action mask, since its actions are texts; use it "
                "without masks"
            )
        if self._is_over():
            return np.ones(self.env.game.num_actions, np.int8)
        mask: NDArray[np.int8] = self.env.observe(self.agent)["action_mask"]
        return mask

    def render(self) -> Any:
        return self.env.render()

    def _is_legal(self, action: Any) -> bool:
        """Whether the environment accepts the action; a text is parsed first."""
        if self.env.game.num_actions is None:
            return isinstance(action, str)
        try:
            checked_action(action, self.env.legal_actions(), self.agent)
        except ValueError:
            return False
        return True

    def _is_over(self) -> bool:
        return self.env.terminations[self.agent] or self.env.truncations[self.agent]

    def _draw_seed(self) -> int:
        return int(self.np_random.integers(2**63))

    def _let_others_play(self) -> None:
        env = self.env
        while not self._is_over() and env.agent_selection != self.agent:
            agent = env.agent_selection
            request = self._request(agent)
            policy = self.policies[request.seat]
            (reply,) = policy.act([request])
            outcome = self._prompts[request.seat].parse(
                env.game, env.game_state, reply.text, request.legal
            )
            if reply.error or reply.truncated or isinstance(outcome, InvalidReply):
                env.forfeit(agent)
            else:
                if env.game.num_actions is None:
                    outcome = env.game.action_text(env.game_state, outcome)
                env.step(outcome)

    def _request(self, agent: str) -> TurnRequest:
        env = self.env
        game, state = env.game, env.game_state
        seat = env.possible_agents.index(agent)
        self._turns[seat] += 1
        options = self._prompts[seat]
        return TurnRequest(
            episode=0,
            turn=self._turns[seat] - 1,
            seat=seat,
            game=game,
            state=state,
            messages=messages(game, state, seat, options),
            context_ids=(),
            legal=legal_texts(game, state),
            seed=self._draw_seed(),
            reply_format=options.reply_format,
        )


def _prompt_of(opponent: Policy) -> PromptOptions:
    options = own_prompt(opponent) or PromptOptions("bare")
    if options.history != "state":
        raise ValueError(
            f"want opponents that read history='state' in a SeatEnv, got "
            f"{opponent.name!r} with {options.history!r}"
        )
    return options


def make_seat_env(
    game: str | AnyGame,
    seat: int = 0,
    opponent: str | Policy | Sequence[str | Policy] = "random",
    **params: Any,
) -> SeatEnv:
    """A `SeatEnv` of a game; the entry point of the Gymnasium ids.

    Args:
        game: id of a registered game, or the rules.
        seat: the seat of the environment.
        opponent: a policy or a string for `make_policy`, or one per other seat.
        **params: parameters for `arena_envs.make`; with rules, arguments of `GameEnv`.

    Raises:
        ValueError: as for `arena_envs.make`, `make_policy` and `SeatEnv`.
    """
    single = isinstance(opponent, str) or not isinstance(opponent, Sequence)
    named: Any = [opponent] if single else opponent
    others = [make_policy(o) if isinstance(o, str) else o for o in named]

    def make_env() -> GameEnv:
        if isinstance(game, str):
            return arena_envs.make(game, **params)
        return GameEnv(game, **params)

    return SeatEnv(make_env, seat, others[0] if single else others)
