"""Seats of a game, with policies in the other seats.

`SeatEnv` is one seat as a Gymnasium environment, `SeatSession` one or more as messages and replies.
"""

import copy
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, cast

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

import arena_envs
from arena_envs.bots import Bot, make_bot
from arena_envs.checks import (
    check_known,
    checked_action,
    checked_seed,
    did_you_mean,
    install_advice,
    missing_package,
    render_modes,
    short,
)
from arena_envs.env import AnyText, GameEnv
from arena_envs.game import MAX_TEXT, AnyGame
from arena_envs.nodes import Content, action_mask
from arena_envs.registration import game_parameters
from arena_wrappers.play.play import (
    EnvCache,
    EnvCaches,
    EnvFn,
    EpisodePlan,
    LiveEpisode,
    NoReplyError,
    ask,
    checked_timeout,
    measures_of,
    turn_of,
)
from arena_wrappers.play.wrapper import PromptWrapper
from arena_wrappers.policies import (
    INSTEAD,
    BotPolicy,
    NoisyPolicy,
    Policy,
    RandomPolicy,
    Reply,
    ScoringBotPolicy,
    ScoringNoisyPolicy,
    ScriptedPolicy,
    TurnRequest,
    as_policy,
    make_policy,
    own_prompt,
    turn_seed,
)
from arena_wrappers.prompts import (
    InvalidReply,
    Message,
    PromptOptions,
    messages,
    parse_reply,
)
from arena_wrappers.records import Episode, Turn

OPTIONS = ("chance", "sample")  # of `reset`


def checked_seat(seat: Any, num_players: int) -> int:
    """The seat as an `int`; raises ValueError unless the game has it."""
    is_integer = isinstance(seat, int | np.integer) and not isinstance(seat, bool)
    if not is_integer or seat not in range(num_players):
        raise ValueError(
            f"want seat from 0 to {num_players - 1}, got {seat!r:.80}; 'random' draws "
            "one for each episode"
        )
    return int(seat)


def checked_sample(options: Any, seed: int | None) -> int:
    """The number `sample` among the options of `reset`; 0 without one.

    Raises:
        ValueError: an option is unknown, or `sample` is no integer of at least 0 or comes
            without a seed.
    """
    if not isinstance(options, Mapping):
        return 0  # `GameEnv.reset` refuses what is no mapping
    for name in options:
        check_known(name, OPTIONS, f"unknown option {short(name)} of reset")
    if "sample" not in options:
        return 0
    sample = options["sample"]
    if isinstance(sample, bool) or not isinstance(sample, int) or sample < 0:
        raise ValueError(
            f"want options['sample'] as an integer of at least 0, got {short(sample)}"
        )
    if seed is None:
        raise ValueError(
            "options['sample'] selects one of the episodes of a seed: pass seed, too"
        )
    return sample


Opponents = str | Policy | Sequence[str | Policy]


def checked_opponents(
    opponents: Opponents, num: int, made: dict[str, Policy]
) -> list[Policy]:
    """The policies of the other seats.

    Args:
        opponents: a policy or a string for `make_policy`, or one per other seat.
        num: number of other seats.
        made: policies by string, to which new ones are added.

    Raises:
        ValueError: a string names no policy here, or the number does not fit.
        TypeError: an opponent is neither a string nor a policy.
    """
    single = isinstance(opponents, str) or not isinstance(opponents, Sequence)
    named: Any = [opponents] * num if single else opponents
    if len(named) != num:
        raise ValueError(f"want {num} opponents, one per other seat, got {len(named)}")
    for one in named:
        if isinstance(one, str) and one == "self":
            raise ValueError(
                "opponent 'self' is the model that trains, which an environment of one "
                "seat does not know; give a policy such as 'random', or let your "
                "trainer play every seat of arena_envs.make(...)"
            )
        if isinstance(one, str) and one not in made:
            made[one] = make_policy(one)
    return [made[one] if isinstance(one, str) else as_policy(one) for one in named]


@dataclass(frozen=True)
class NoisyBot:
    """Plays a random legal action with a given probability, else the action of a bot."""

    inner: Bot
    probability: float

    def __call__(self, game: AnyGame, state: Any, rng: random.Random) -> Any:
        if rng.random() < self.probability:
            return rng.choice(game.legal_actions(state))
        return self.inner(game, state, rng)


def bot_of(policy: Policy) -> Bot | None:
    """The bot that decides for a policy; None if the policy reads text.

    A class that inherits from one of ours may reply differently, so it counts as a reader.
    """
    if type(policy) is RandomPolicy:
        return make_bot("random")
    if isinstance(policy, BotPolicy) and type(policy) in (BotPolicy, ScoringBotPolicy):
        return policy.bot
    if isinstance(policy, NoisyPolicy) and type(policy) in (
        NoisyPolicy,
        ScoringNoisyPolicy,
    ):
        inner = bot_of(policy.inner)
        return None if inner is None else NoisyBot(inner, policy.probability)
    return None


def _prompt_of(policy: Policy) -> PromptOptions:
    options = own_prompt(policy) or PromptOptions("bare")
    if options.history != "state":
        raise ValueError(
            "want opponents that read history='state' in a SeatEnv, got "
            f"{policy.name!r} with {options.history!r}"
        )
    return options


def outcome_of(env: GameEnv) -> dict[str, Any]:
    """What `info["outcome"]` holds at the end of an episode."""
    return {
        "returns": [float(paid) for paid in env.returns],
        "measures": measures_of(env.game, env.game_state),
        "forfeited_by": env.forfeited_by,
    }


Seat = int | Literal["random"]


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
        seat: Seat,
        opponents: Opponents,
        reply: Literal["action", "text"] = "action",
        part: str | None = None,
    ) -> None:
        self.env = env_fn()
        num_players = self.env.game.num_players
        others = checked_opponents(opponents, num_players - 1, {})
        self._others = [(p, bot_of(p), _prompt_of(p)) for p in others]
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
        drawn = None
        if seed is not None or not self._seeded:
            drawn = int(self.np_random.integers(2**63))
        try:
            self.env.reset(seed=drawn, options=options)
        except ValueError:
            self._np_random, self._np_random_seed = before
            raise
        self._seeded = True
        if self._draws_seat:
            self._sit(int(self.np_random.integers(self.env.game.num_players)))
        others = [a for a in self.env.possible_agents if a != self.agent]
        self._seated = dict(zip(others, self._others, strict=True))
        self._turns: list[Turn] = []  # of the opponents that read text
        if drawn is not None:  # else the generator goes on
            self._rng = random.Random(turn_seed(drawn, sample, 0, 0))
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
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.env = self.env.clone()
        for name in ("_rng", "_np_random", "observation_space", "action_space"):
            if name in self.__dict__:  # the first two after the first reset
                setattr(other, name, copy.deepcopy(self.__dict__[name]))
        if "_turns" in self.__dict__:
            other._turns = self._turns.copy()
        return other

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
            policy, bot, prompt = self._seated[mover]
            if bot is None:
                action = self._ask(policy, prompt)
            else:
                action = bot(env.game, env.game_state, self._rng)
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
        read = reply.invalid or prompt.parse(game, state, reply.text, request.legal)
        action = None if isinstance(read, InvalidReply) else read
        self._turns.append(turn_of(request, policy.name, reply, action, read))
        return read

    def _observation(self) -> Any:
        seen = self.env.observe(self.agent)
        if self._is_over() and isinstance(seen, dict) and "action_mask" in seen:
            seen["action_mask"][:] = 1
        return seen if self._part is None else seen[self._part]

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
    own = ("seat", "opponents", "observation", "reply", "max_turns", "render_mode")
    for name in params:
        if name not in (known := (*own, *of_game)):
            raise TypeError(
                f"{game} got an unexpected keyword argument {name!r}; "
                f"{did_you_mean(name, known)}"
            )


def make_seat_env(
    game: str | AnyGame,
    seat: Seat = 0,
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
    shown: Any = "features" if is_array else observation or "features"

    def make_env() -> GameEnv:
        env = make_with(shown)
        if observation is None and env.game.num_actions is None:
            return make_with("all")
        return env

    part = "observation" if is_array else None
    return SeatEnv(make_env, seat, opponents, reply, part)


Seats = int | Literal["random", "all"] | Sequence[int]

NO_EPISODE = "no episode is running: call reset()"


class SeatSession:
    """One seat of a game, or several, as messages and replies; policies play the others.

    Sessions do not depend on each other, so that many may run at once, in threads too. The
    record of an episode is that of `play` with the same replies.

    Args:
        game: id of a registered game, the rules, or a function that makes the environment, as
            for `play`.
        seat: the session's seat; `"random"` draws one for each episode; `"all"` or a list
            gives it several, whose replies `step` takes in turn.
        opponents: a policy or a string for `make_policy`, or one per other seat.
        prompt: arguments of `PromptWrapper`, such as `{"reply_format": "boxed"}`. Without a
            `penalty` an invalid reply costs what the game's forfeit costs.
        credit: a function that gives one value for each turn of an episode. At the end of an
            episode, `info["credit"]` has those of the session's turns.
        timeout: seconds that a reply of an opponent may take; None for no limit.
        name: name of the session in records.
        asks: whether the session asks the opponents. Else the caller does: `request` has what
            the seat to move is asked, whoever plays it, and `step` takes its reply.
        **params: parameters for `arena_envs.make`; with rules, arguments of `GameEnv`.

    Attributes:
        seat: the seat to move; at the end, that of the last reply.
        done: whether the episode is over.

    Raises:
        ValueError: as for `arena_envs.make`, `make_policy` and `PromptWrapper`; the seat or
            the number of opponents does not fit the game.
    """

    def __init__(
        self,
        game: str | AnyGame | EnvFn,
        seat: Seats = 0,
        opponents: Opponents = "random",
        *,
        prompt: Mapping[str, Any] | None = None,
        credit: Callable[[Episode], Sequence[Any]] | None = None,
        timeout: float | None = None,
        name: str = "session",
        asks: bool = True,
        **params: Any,
    ) -> None:
        self._asks = asks
        self._make = _maker(game, prompt, params)
        env: Any = self._make().unwrapped
        self.game: AnyGame = env.game
        self.agents: list[str] = env.possible_agents
        self._credit, self._timeout = credit, checked_timeout(timeout)
        self._own = ScriptedPolicy((), name)
        self._made: dict[str, Policy] = {}
        self._caches = EnvCaches()
        self._seed = 0
        # None: made of the seed when used; before the first seed, not of the global generator
        self._rng: random.Random | None = random.Random()
        self._live: LiveEpisode | None = None
        self._cache: EnvCache | None = None  # of these seats
        self.done, self.seat = True, 0  # until the first reset
        self._choose(seat, opponents)

    def reset(
        self,
        seed: int | None = None,
        seat: Seats | None = None,
        opponents: Opponents | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> list[Message]:
        """Starts an episode.

        If it ends before the session's first turn, `done` is true, and the first `step`
        reports the end with reward 0, whatever the reply.

        Args:
            seed: of chance, a random seat and the opponents; None draws one from the
                generator that the last given seed has started.
            seat: as for the class; None as before.
            opponents: as for the class; None as before.
            options: as for `SeatEnv.reset`.

        Returns:
            The prompt of the seat to move.

        Raises:
            NoReplyError: an opponent gave no reply. The episode is lost.
            ValueError: an argument is out of range. The running episode goes on.
        """
        sample = checked_sample(options, seed)
        if seat is not None or opponents is not None:
            self._choose(
                self.seats if seat is None else seat,
                self.opponents if opponents is None else opponents,
            )
        if seed is None:
            self._rng = self._rng or random.Random(self._seed)
            seed = self._rng.getrandbits(63)
        else:
            self._seed, self._rng = checked_seed(seed), None
        self._begin(seed, sample, options or {})
        return self._go_on(self._running())

    def step(
        self, reply: str | Reply
    ) -> tuple[list[Message], float, bool, dict[str, Any]]:
        """Plays a reply of the seat to move, then the opponents' turns.

        A `Reply` may hold tokens, or say what makes it invalid.

        Returns:
            The next prompt; what the seat was paid since its prompt before; whether the
            episode is over; and the info:

            | Key | Value |
            |---|---|
            | `agent`, `legal` | who is to move, and the texts of its legal actions |
            | `rewards` | what this step paid each of the session's agents |
            | `invalid` | why the reply was invalid; None if it was legal |
            | `truncated` | whether `max_turns` has ended the episode |
            | `outcome` | at the end: `returns` of all seats, `measures`, `forfeited_by` |
            | `turn_rewards` | at the end: what was paid for each of the session's turns |
            | `credit` | at the end, on request: see the class |

        Raises:
            NoReplyError: an opponent gave no reply, or `reply` has an error. The episode is
                lost.
            ValueError: no episode is running. A reply raises nothing.
            TypeError: the reply is no text and no `Reply`.
        """
        live, mover = self._running(), self.seat
        if not isinstance(reply, Reply):
            if not isinstance(reply, str):
                raise TypeError(f"want a text as reply, got {short(reply)}")
            reply = Reply(reply)
        before, invalid, penalty = live.base.returns, None, 0.0
        if not self.done:
            live.take(reply)
            if live.lost is not None:
                self._ended = True
                raise NoReplyError(live.lost)
            turn = live.turns[-1]
            invalid = turn.detail
            if invalid is not None:
                penalty = turn.rewards["format"]
        shown = self._go_on(live)
        info = self.info()
        rewards = info["rewards"]
        if before is not (paid := live.base.returns):
            for seat in self._seats:
                rewards[self.agents[seat]] = float(paid[seat] - before[seat])
        agent = self.agents[mover]
        if agent in rewards:
            rewards[agent] += penalty
        info["invalid"] = invalid
        if self.done:
            info |= self._ending(live)
            self._ended = True
        return shown, rewards.get(agent, 0.0), self.done, info

    def request(self) -> tuple[Policy | None, TurnRequest]:
        """The policy of the seat to move, and what it is asked; None for the session's seats."""
        live = self._running()
        return None if self._is_own(live) else live.policy, live.pending

    def read(self, reply: str) -> Any | InvalidReply:
        """The action that a reply of the seat to move names; plays nothing."""
        env = self._running().env
        options = env.options_of(self.seat)
        return options.parse(
            self.game, env.env.game_state, reply, env.legal_texts() or None
        )

    def info(self) -> dict[str, Any]:
        """The info of a prompt without a reply; see `step`."""
        live = self._running()
        agent = self.agents[self.seat]
        return {
            "agent": agent,
            "legal": [] if self.done else live.pending.legal,
            "truncated": live.base.truncations[agent],
            "rewards": dict.fromkeys(self._own_agents, 0.0),
            "invalid": None,
        }

    def prompt(self, seat: int) -> list[Message]:
        """The prompt of any seat, as it would read now."""
        return self.environment.observe(self.agents[seat])

    def plan(self, seed: int, sample: int, policy: Policy) -> EpisodePlan:
        """The episode for `play_plans`, with a policy in the session's seats."""
        seats = [policy if one is self._own else one for one in self._seated]
        return EpisodePlan(self._make, seats, seed, sample)

    @property
    def returns(self) -> list[float]:
        """What each seat was paid so far."""
        return [float(paid) for paid in self._running(even_ended=True).base.returns]

    @property
    def turns(self) -> Sequence[Turn]:
        """The turns of all seats so far."""
        return self._running(even_ended=True).turns

    @property
    def state(self) -> Any:
        """The state of the game, hidden parts included."""
        return self._running(even_ended=True).base.game_state

    @property
    def environment(self) -> PromptWrapper:
        """The environment of the episode; stepping it breaks the record."""
        return self._running(even_ended=True).env

    @property
    def episode(self) -> Episode:
        """The record of the episode so far."""
        return self._running(even_ended=True).record()

    def save(self) -> dict[str, Any]:
        """The seed and all replies, as JSON holds them; the episode may be running."""
        live = self._running(even_ended=True)
        chance = (live.plan.options or {}).get("chance")
        return {
            "seed": live.plan.seed,
            "sample": live.plan.sample,
            "seats": list(self._seats),
            **({} if chance is None else {"chance": list(chance)}),
            # with what makes a reply invalid whatever its text
            "replies": [
                [turn.reply, "overlong" if turn.truncated else turn.invalid]
                if turn.truncated or turn.invalid in INSTEAD
                else turn.reply
                for turn in live.turns
            ],
        }

    def __copy__(self) -> "SeatSession":
        raise TypeError(
            "want copy.deepcopy(session), or save() and restore() of an equal session: "
            "copy.copy would share the episode"
        )

    def restore(self, saved: Mapping[str, Any]) -> list[Message]:
        """Goes on with a saved episode of an equal session; asks no policy for old replies.

        Args:
            saved: what `save` returned.

        Returns:
            The prompt of the seat to move.

        Raises:
            NoReplyError: as for `reset`.
            ValueError: `saved` has another form, is of other seats, or has more replies than
                the episode takes. Then call `reset`.
        """
        seed, sample, seats, replies, options = _checked_save(saved)
        self._seed, self._rng = seed, None
        self._begin(seed, sample, options)
        live, self._ended = self._running(), True  # stays so after an error
        if seats != self._seats:
            raise ValueError(
                f"want a save of the seats {self._seats}, got one of {seats}; make the "
                "session with these"
            )
        for number, reply in enumerate(replies):
            if live.is_over:
                raise ValueError(
                    f"want at most {number} replies, after which the episode is over, "
                    f"got {len(replies)}; make the session with the parameters of the "
                    "save"
                )
            if self._is_own(live):
                self.seat = live.seat
            live.request()
            live.take(reply)
        self._ended = live.is_over and any(t.seat in seats for t in live.turns)
        return self._go_on(live)

    def _choose(self, seat: Seats, opponents: Opponents) -> None:
        """Checks and sets seats and opponents."""
        num_players = len(self.agents)
        self._draws = isinstance(seat, str) and seat == "random"
        if isinstance(seat, str) and seat == "all":
            seat = range(num_players)
        listed: Any = [0] if self._draws else seat
        if isinstance(listed, str) or not isinstance(listed, Sequence):
            listed = [listed]
        own = sorted({checked_seat(one, num_players) for one in listed})
        if not own:
            raise ValueError("want at least one seat, got none; give seat=0")
        num_others = num_players - len(own)
        policies = checked_opponents(opponents, num_others, self._made)
        self.seats, self.opponents = seat, policies
        self._sit(own)

    def _begin(self, seed: int, sample: int, options: Mapping[str, Any]) -> None:
        if self._draws:
            drawn = random.Random(turn_seed(seed, 0, 0, len(self.agents)))
            self._sit([drawn.randrange(len(self.agents))])
        if self._live is not None:  # its environment is free
            self._live.cache.free.append(self._live.env)
        chance = {"chance": options["chance"]} if "chance" in options else None
        plan = EpisodePlan(self._make, self._seated, seed, sample, chance)
        self._cache = self._cache or self._caches.of(plan)
        self._live = LiveEpisode((0,), plan, self._cache)
        self._ended, self.seat = False, self._seats[0]

    def _sit(self, seats: list[int]) -> None:
        """Seats the session, and the opponents in the seats that are left, in their order."""
        others = iter(self.opponents)
        self._seats, self._cache = seats, None
        self._own_agents = [self.agents[seat] for seat in seats]
        self._seated = [
            self._own if seat in seats else next(others)
            for seat in range(len(self.agents))
        ]
        self.seat = seats[0]

    def _go_on(self, live: LiveEpisode) -> list[Message]:
        """Lets the opponents play; the prompt of the session's next turn."""
        try:
            while not live.is_over and self._asks and not self._is_own(live):
                (reply,) = ask(live.policy, [live.request()], self._timeout, "raise")
                live.take(reply)
        except BaseException:
            self._ended = True  # lost
            raise
        self.done = live.is_over
        if self.done:
            return self.prompt(self.seat)
        self.seat = live.seat
        return list(live.request().messages)

    def _is_own(self, live: LiveEpisode) -> bool:
        return live.policy is self._own

    def _running(self, even_ended: bool = False) -> LiveEpisode:
        if self._live is None or (self._ended and not even_ended):
            raise ValueError(NO_EPISODE)
        return self._live

    def _ending(self, live: LiveEpisode) -> dict[str, Any]:
        own = [turn.seat in self._seats for turn in live.turns]
        found: dict[str, Any] = {
            "outcome": outcome_of(live.base),
            "turn_rewards": [t.reward for t in live.turns if t.seat in self._seats],
        }
        if self._credit is not None:
            values = zip(own, self._credit(live.record()), strict=True)
            found["credit"] = [value for is_own, value in values if is_own]
        return found


def transcript(game: Any) -> dict[str, Any] | None:
    """The prompts of an id where a seat is one conversation; a function has its own."""
    return {"history": "transcript", "penalty": 0.5} if isinstance(game, str) else None


def _maker(game: Any, prompt: Mapping[str, Any] | None, params: Any) -> EnvFn:
    if callable(game):
        if prompt or params:
            raise ValueError("want prompts and parameters in the function, got both")
        return cast(EnvFn, game)
    make: Any = arena_envs.make if isinstance(game, str) else GameEnv
    prompt = {"penalty": 0.0, **(prompt or {})}
    return lambda: PromptWrapper(make(game, observation="text", **params), **prompt)


def _checked_save(
    saved: Any,
) -> tuple[int, int, list[int], list[Reply], dict[str, Any]]:
    """Seed, sample, seats, replies and options of a save, which may come from anybody."""
    try:
        seed = checked_seed(saved["seed"])
        options = {"sample": saved.get("sample", 0)}
        sample = checked_sample(options, seed)
        if "chance" in saved:
            options["chance"] = saved["chance"]
        replies = []
        for entry in saved["replies"]:
            text, flag = (entry, None) if isinstance(entry, str) else entry
            if not isinstance(text, str) or flag not in (None, "overlong", *INSTEAD):
                raise TypeError(flag)
            is_cut = flag == "overlong"
            reply = Reply(text, truncated=is_cut, instead=None if is_cut else flag)
            replies.append(reply)
        return seed, sample, list(saved["seats"]), replies, options
    except (AttributeError, LookupError, TypeError) as error:
        raise ValueError(
            f"want what SeatSession.save returned, got {short(saved)}"
        ) from error
