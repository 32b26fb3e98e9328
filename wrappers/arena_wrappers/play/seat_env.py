"""`SeatEnv`: one seat of a game as a Gymnasium environment, with policies in the other seats."""

import copy
import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

import arena_envs
from arena_envs.checks import (
    checked_action,
    did_you_mean,
    install_advice,
    missing_package,
    render_modes,
    short,
)
from arena_envs.env import AnyText, GameEnv
from arena_envs.game import (
    MAX_TEXT,
    AnyGame,
)
from arena_envs.nodes import Content, action_mask
from arena_envs.registration import game_parameters
from arena_envs.transforms import stage_of
from arena_wrappers.play.asking import ask
from arena_wrappers.play.episodes import turn_of
from arena_wrappers.play.seats import (
    Opponents,
    SeatChoice,
    bot_of,
    checked_opponents,
    checked_sample,
    checked_seat,
    outcome_of,
)
from arena_wrappers.policies import Policy, TurnRequest, own_prompt, turn_seed
from arena_wrappers.prompts import InvalidReply, PromptOptions, messages, parse_reply
from arena_wrappers.records import Turn


def _prompt_of(policy: Policy) -> PromptOptions:
    options = own_prompt(policy) or PromptOptions("bare")
    if options.history != "state":
        raise ValueError(
            "want opponents that read history='state' in a SeatEnv, got "
            f"{policy.name!r} with {options.history!r}"
        )
    return options


class SeatEnv(gymnasium.Env[Any, Any]):
    """One seat of a game; policies play the others.

    - Observation and action: those of `GameEnv` for this seat. With `reply="text"`, an
      action is the canonical text of a legal action, or a text that `Game.parse` reads.
    - Reward: the sum of what the seat is paid until its next turn. Payments before its
      first turn are in no reward; they are in `info["outcome"]["returns"]`.
    - `info` holds `"agent"`, the name of this seat; `"legal"`, the canonical texts of the
      legal actions; and, except in language games, `"action_mask"`, int8[n]. At the end,
      `info["outcome"]` holds `"returns"` of all seats, `"measures"` of the game and
      `"forfeited_by"`, a seat or None.
    - Action masks are all ones after the end, also in observations, since trainers sample
      once more. `GameEnv` has zeros there.
    - An illegal action forfeits, since a Gymnasium agent may sample any action of the space:
      the agent pays what `GameEnv.forfeit` says, and at the end
      `info["illegal_action"]` is True. A text where an integer is wanted is a TypeError.
    - An opponent with an invalid reply forfeits likewise. One that gives no reply raises
      NoReplyError; then call `reset`. Nothing is rendered for opponents that are bots.
    - If an episode ends before this seat's first turn, `reset` returns the last
      observation. The first step ignores its action and reports the end, with reward 0.

    Args:
        env_fn: makes the environment.
        seat: the seat of this environment; `"random"` draws one for each episode.
        opponents: a policy or a string for `make_policy`, or one per other seat in seat order.
        reply: `"action"`, or `"text"` for actions as text. Language games take texts.
        part: of the observation that is shown alone, such as `"observation"`.

    Raises:
        ValueError: the seat or the number of opponents does not fit the game, an opponent
            is no policy or reads transcripts, or `reply` is unknown.
    """

    metadata = {"render_modes": render_modes(), "render_fps": 1}  # noqa: RUF012

    def __init__(
        self,
        env_fn: Callable[[], GameEnv],
        seat: SeatChoice,
        opponents: Opponents,
        reply: Literal["action", "text"] = "action",
        part: str | None = None,
    ) -> None:
        self.env = env_fn()
        num_players = self.env.game.num_players
        others = checked_opponents(opponents, num_players - 1, {})
        self._opponents = [(p, bot_of(p), _prompt_of(p)) for p in others]
        if reply not in ("action", "text"):
            raise ValueError(f"want reply 'action' or 'text', got {reply!r:.80}")
        self._draws_seat = isinstance(seat, str) and seat == "random"
        self._sit(0 if self._draws_seat else checked_seat(seat, num_players))
        self._ended = True  # no episode before the first reset
        self._seeded = False  # until the first reset
        self.render_mode = self.env.render_mode
        space = self.env.observation_space(self.agent)
        self._part = part if isinstance(space, spaces.Dict) else None
        self.observation_space = space if self._part is None else space[self._part]  # type: ignore[index]
        self._reads_text = reply == "text" and self.env.game.num_actions is not None
        self.action_space = self.env.action_space(self.agent)
        if self._reads_text:
            self.action_space = AnyText(MAX_TEXT)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Starts an episode.

        Args:
            seed: of chance, of a random seat and of the opponents; None continues.
            options: as for `GameEnv.reset`, and `{"sample": k}`: episodes of one seed and
                different k share the seat and the draws of chance; the opponents' choices
                differ.

        Raises:
            ValueError: as for `GameEnv.reset`; an option is unknown; `sample` is no integer
                of at least 0, or comes without a seed. The running episode goes on.
        """
        sample = checked_sample(options, seed)
        if isinstance(options, Mapping):
            options = {name: options[name] for name in options if name != "sample"}
        before = self._np_random, self._np_random_seed
        super().reset(seed=seed)
        env_seed = None
        if seed is not None or not self._seeded:
            env_seed = int(self.np_random.integers(2**63))
        try:
            self.env.reset(seed=env_seed, options=options)
        except ValueError:
            self._np_random, self._np_random_seed = before
            raise
        self._seeded = True
        if self._draws_seat:
            self._sit(int(self.np_random.integers(self.env.game.num_players)))
        others = [a for a in self.env.possible_agents if a != self.agent]
        self._opponent_of_agent = dict(zip(others, self._opponents, strict=True))
        self._turns: list[Turn] = []  # of the opponents that read text
        if env_seed is not None:  # else the generator goes on
            self._rng = random.Random(turn_seed(env_seed, sample, 0, 0))
        self._ended = True  # stays so if an opponent gives no reply
        self._let_others_play()
        self._ended = False
        return self._observation(), self._info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self._ended:
            raise ValueError("no episode is running: call reset()")
        env, before = self.env, self.env.returns[self.seat]
        if not self._is_over():
            self._act(action)
            self._ended = True  # as in `reset`
            self._let_others_play()
        self._ended = self._is_over()
        info = self._info()
        if self._ended:
            info |= self._ending()
        return (
            self._observation(),
            env.returns[self.seat] - before,
            env.terminations[self.agent],
            env.truncations[self.agent],
            info,
        )

    def action_masks(self) -> NDArray[np.int8]:
        """int8[n], ones where an action is legal; all ones after the end of an episode.

        Raises:
            TypeError: a language game, whose actions cannot be enumerated.
            ValueError: before the first reset.
        """
        num_actions = self.env.game.num_actions
        if num_actions is None:
            raise TypeError(
                "a language game has no action mask, since its actions are texts; use "
                "it without masks"
            )
        if not self._seeded:
            raise ValueError("no episode is running: call reset()")
        if self._is_over():
            return np.ones(num_actions, np.int8)
        return action_mask(num_actions, tuple(self.env.legal_actions())).copy()

    def render(self) -> Any:
        from arena_envs.scenes.rendering import rendered  # play needs no pictures

        return rendered(self.env.game, self.env.game_state, self.seat, self.render_mode)

    def __copy__(self) -> "SeatEnv":
        """An independent copy; its opponents are the same policies."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.env = self.env.clone()
        for name in ("_rng", "_np_random", "observation_space", "action_space"):
            if name in self.__dict__:  # the first two after the first reset
                setattr(twin, name, copy.deepcopy(self.__dict__[name]))
        if "_turns" in self.__dict__:
            twin._turns = self._turns.copy()
        return twin

    def _sit(self, seat: int) -> None:
        self.seat, self.agent = seat, self.env.possible_agents[seat]

    def _act(self, action: Any) -> None:
        """Plays the action, or forfeits if it is not legal."""
        env, game, is_legal = self.env, self.env.game, isinstance(action, str)
        if game.num_actions is not None:
            if is_legal and not self._reads_text:
                raise TypeError(
                    f"want an action as an integer, got {short(action)}; make the "
                    "environment with reply='text' to play texts"
                )
            if is_legal:
                legal = env.legal_texts()
                action = parse_reply(game, env.game_state, action, "bare", legal)
            is_legal = False
            with suppress(ValueError):
                checked_action(action, env.legal_actions(), self.agent)
                is_legal = True
        if is_legal:
            env.step(action)
        else:
            env.forfeit(self.agent)

    def _is_over(self) -> bool:
        return self.env.terminations[self.agent] or self.env.truncations[self.agent]

    def _let_others_play(self) -> None:
        env, agent = self.env, self.agent
        while (mover := env.agent_selection) != agent and not self._is_over():
            policy, bot, prompt = self._opponent_of_agent[mover]
            if bot is None:
                action = self._ask(policy, prompt)
            else:
                action = bot(*stage_of(env.game, env.game_state), self._rng)
            if isinstance(action, InvalidReply):
                env.forfeit(mover)
            elif env.game.num_actions is None:
                env.play(action)
            else:
                env.step(action)

    def _ask(self, policy: Policy, prompt: PromptOptions) -> Any:
        """The action that the policy of the agent to move names.

        Raises:
            NoReplyError: there is no reply, such as of an endpoint that cannot be reached.
        """
        env, agent, game = self.env, self.env.agent_selection, self.env.game
        seat, state = env.possible_agents.index(agent), env.game_state
        request = TurnRequest(
            episode=0,
            turn=sum(turn.seat == seat for turn in self._turns),
            seat=seat,
            game=game,
            state=state,
            messages=messages(game, state, seat, prompt),
            context_ids=(),
            legal=list(env.legal_texts()),
            seed=self._rng.getrandbits(63),
            reply_format=prompt.reply_format,
            turns=self._turns,
            date=prompt.date,
        )
        (reply,) = ask(policy, [request], None, "raise")
        outcome = reply.invalid or prompt.parse(game, state, reply.text, request.legal)
        action = None if isinstance(outcome, InvalidReply) else outcome
        self._turns.append(turn_of(request, policy.name, reply, action, outcome))
        return outcome

    def _observation(self) -> Any:
        observation = self.env.observe(self.agent)
        if (
            self._is_over()
            and isinstance(observation, dict)
            and "action_mask" in observation
        ):
            observation["action_mask"][:] = 1
        return observation if self._part is None else observation[self._part]

    def _info(self) -> dict[str, Any]:
        info: dict[str, Any] = {
            "agent": self.agent,
            "legal": list(self.env.legal_texts()),
        }
        if self.env.game.num_actions is not None:
            info["action_mask"] = self.action_masks()
        return info

    def _ending(self) -> dict[str, Any]:
        env, outcome = self.env, outcome_of(self.env)
        if env.forfeited_by != self.seat and not env.num_bad[self.seat]:
            return {"outcome": outcome}
        return {"outcome": outcome, "illegal_action": True}


def _check_names(game: str, params: Mapping[str, Any]) -> None:
    """Refuses unknown arguments as a call does: TorchRL then goes on without `frameskip`."""
    if (of_game := game_parameters(game)) is None:
        return
    own_names = (
        "seat",
        "opponents",
        "observation",
        "reply",
        "max_turns",
        "render_mode",
    )
    for name in params:
        if name not in (all_names := (*own_names, *of_game)):
            raise TypeError(
                f"{game} got an unexpected keyword argument {name!r}; "
                f"{did_you_mean(name, all_names)}"
            )


def make_seat_env(
    game: str | AnyGame,
    seat: SeatChoice = 0,
    opponents: Opponents = "random",
    observation: Content | Literal["array"] | None = None,
    reply: Literal["action", "text"] = "action",
    **params: Any,
) -> SeatEnv:
    """A `SeatEnv` of a game; the entry point of the Gymnasium ids.

    Args:
        game: id of a registered game, or the rules.
        seat: the seat of the environment, or `"random"`.
        opponents: as for `SeatEnv`.
        observation: as for `GameEnv`. None is `"features"`; in language games, where
            features leave out the words, it is `"all"`. `"array"` are the features alone, as
            buffers of arrays want them; the mask is in `info`.
        reply: as for `SeatEnv`.
        **params: parameters for `arena_envs.make`; with rules, arguments of `GameEnv`.

    Raises:
        ValueError: as for `arena_envs.make`, `make_policy` and `SeatEnv`.
        TypeError: an unknown argument, or `render_mode` is `"rgb_array"` without the extra
            `render`.
    """
    if isinstance(game, str):
        _check_names(game, params)
    if params.get("render_mode") == "rgb_array" and missing_package():
        # Stable-Baselines3's `make_vec_env` asks for pictures, and after a TypeError without
        raise TypeError(f"'rgb_array' needs resvg-py; {install_advice('render')}")

    def make_with(content: Content) -> GameEnv:
        if isinstance(game, str):
            return arena_envs.make(game, observation=content, **params)
        return GameEnv(game, observation=content, **params)

    is_array = observation == "array"
    content_of_env: Any = "features" if is_array else observation or "features"

    def make_env() -> GameEnv:
        env = make_with(content_of_env)
        if observation is None and env.game.num_actions is None:
            return make_with("all")
        return env

    part = "observation" if is_array else None
    return SeatEnv(make_env, seat, opponents, reply, part)
