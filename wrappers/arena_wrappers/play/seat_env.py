"""`SeatEnv`: one seat of a game as a Gymnasium environment.

`Opponents` plays the other seats.
"""

import copy
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium
import numpy as np
from numpy.typing import NDArray

import arena_envs
from arena_envs.bots import Bot, make_bot
from arena_envs.checks import (
    checked_action,
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
from arena_wrappers.play.play import ask
from arena_wrappers.policies import (
    BotPolicy,
    NoisyPolicy,
    Policy,
    RandomPolicy,
    ScoringBotPolicy,
    ScoringNoisyPolicy,
    TurnRequest,
    make_policy,
    own_prompt,
    turn_seed,
)
from arena_wrappers.prompts import (
    InvalidReply,
    PromptOptions,
    messages,
    parse_reply,
)

OPTIONS = ("chance", "sample")  # of `reset`


def checked_seat(seat: Any, num_players: int) -> int:
    """The seat as an `int`; raises ValueError unless the game has it."""
    is_integer = isinstance(seat, int | np.integer) and not isinstance(seat, bool)
    if not is_integer or seat not in range(num_players):
        raise ValueError(
            f"want seat from 0 to {num_players - 1}, got {seat!r:.80}; 'random' draws one "
            "for each episode"
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
        if name not in OPTIONS:
            hint = did_you_mean(str(name), OPTIONS)
            raise ValueError(f"unknown option {short(name)} of reset; {hint}")
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


def is_legal(action: Any, legal: Sequence[int], agent: str) -> bool:
    """Whether an action is legal.

    Raises:
        TypeError: it is a text, which no agent samples of a space of integers.
    """
    if isinstance(action, str):
        raise TypeError(
            f"want an action as an integer, got {short(action)}; make the environment with "
            "reply='text' to play texts"
        )
    if isinstance(action, InvalidReply):
        return False
    try:
        checked_action(action, legal, agent)
    except ValueError:
        return False
    return True


def checked_opponent(opponent: str | Policy) -> Policy:
    """The policy of another seat; raises ValueError for a string that names none here."""
    if not isinstance(opponent, str):
        return opponent
    if opponent == "self":
        raise ValueError(
            "opponent 'self' is the model that trains, which an environment of one seat "
            "does not know; give a policy such as 'random', or let your trainer play "
            "every seat of arena_envs.make(...)"
        )
    return make_policy(opponent)


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


class Opponents:
    """Plays the turns of all seats but one.

    A bot gets the state; nothing is rendered for it. Any other policy gets a request with
    its prompt. An invalid reply forfeits.

    Args:
        policies: one per seat that is played.

    Raises:
        ValueError: an object is no policy, or reads transcripts.
    """

    def __init__(self, policies: Sequence[Policy]) -> None:
        for policy in policies:
            if not callable(getattr(policy, "act", None)):
                raise ValueError(f"want a policy as opponent, got {policy!r:.80}")
        self._players = [(p, bot_of(p), _prompt_of(p)) for p in policies]
        self._rng = random.Random(0)  # `start` seeds it
        self._of: dict[str, Any] = {}
        self._num_turns: dict[str, int] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> "Opponents":
        """A copy with the same policies, so that models and connections are shared."""
        other = copy.copy(self)
        other._rng = copy.deepcopy(self._rng, memo)
        other._num_turns = dict(self._num_turns)
        return other

    def start(self, agents: Iterable[str], seed: int | None) -> None:
        """Begins an episode.

        Args:
            agents: whom the policies play, in order.
            seed: of all choices of the policies; None continues the generator.
        """
        self._of = dict(zip(agents, self._players, strict=True))
        self._num_turns = dict.fromkeys(self._of, 0)
        if seed is not None:
            self._rng = random.Random(seed)

    def play_turn(self, env: GameEnv) -> None:
        """Plays the turn of the agent to move, or lets it forfeit.

        Raises:
            NoReplyError: its policy gave no reply, such as an endpoint that cannot be
                reached. The environment stays as it is.
        """
        policy, bot, prompt = self._of[env.agent_selection]
        if bot is not None:
            action = bot(env.game, env.game_state, self._rng)
            env.step(said(env, action))
            return
        request = self._request(env, prompt)
        (reply,) = ask(policy, [request], None, "raise")
        outcome = prompt.parse(env.game, env.game_state, reply.text, request.legal)
        if reply.invalid or isinstance(outcome, InvalidReply):
            env.forfeit(env.agent_selection)
        else:
            env.step(said(env, outcome))

    def _request(self, env: GameEnv, prompt: PromptOptions) -> TurnRequest:
        agent, game, state = env.agent_selection, env.game, env.game_state
        seat, turn = env.possible_agents.index(agent), self._num_turns[agent]
        self._num_turns[agent] += 1
        return TurnRequest(
            episode=0,
            turn=turn,
            seat=seat,
            game=game,
            state=state,
            messages=messages(game, state, seat, prompt),
            context_ids=(),
            legal=list(env.legal_texts()),
            seed=self._rng.getrandbits(63),
            reply_format=prompt.reply_format,
        )


def said(env: GameEnv, action: Any) -> Any:
    """The action as `GameEnv.step` takes it: in language games, its canonical text."""
    if env.game.num_actions is None:
        return env.game.action_text(env.game_state, action)
    return action


def _prompt_of(policy: Policy) -> PromptOptions:
    options = own_prompt(policy) or PromptOptions("bare")
    if options.history != "state":
        raise ValueError(
            f"want opponents that read history='state' in a SeatEnv, got "
            f"{policy.name!r} with {options.history!r}"
        )
    return options


Seat = int | Literal["random"]


class SeatEnv(gymnasium.Env[Any, Any]):
    """One seat of a game; policies play the others.

    - Observation and action: those of `GameEnv` for this seat. With `reply="text"`, an
      action is the canonical text of a legal action, or a text that `Game.parse` reads.
    - Reward: the sum of what the seat is paid until its next turn. Payments before its
      first turn are in no reward; they are in `info["outcome"]["returns"]`.
    - `info` holds `"agent"`, the name of this seat; `"legal"`, the canonical texts of the
      legal actions; and, except in language games, `"action_mask"`, int8[n]. At the end,
      `info["outcome"]` holds `"returns"` of all seats, `"measures"` of the game and, after
      a forfeit, `"forfeited_by"`, a seat.
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
        opponents: one policy for all other seats, or one per other seat in seat order.
        reply: `"action"`, or `"text"` for actions as text. Language games take texts.

    Raises:
        ValueError: the seat or the number of opponents does not fit the game, an opponent
            is no policy or reads transcripts, or `reply` is unknown.
    """

    metadata = {"render_modes": render_modes(), "render_fps": 1}  # noqa: RUF012

    def __init__(
        self,
        env_fn: Callable[[], GameEnv],
        seat: Seat,
        opponents: Policy | Sequence[Policy],
        reply: Literal["action", "text"] = "action",
    ) -> None:
        self.env = env_fn()
        num_players = self.env.game.num_players
        if isinstance(opponents, str) or not isinstance(opponents, Sequence):
            opponents = [opponents] * (num_players - 1)
        self._opponents = Opponents(opponents)
        if len(opponents) != num_players - 1:
            raise ValueError(
                f"want {num_players - 1} opponents, one per other seat, got {len(opponents)}"
            )
        if reply not in ("action", "text"):
            raise ValueError(f"want reply 'action' or 'text', got {reply!r:.80}")
        self._draws_seat = isinstance(seat, str) and seat == "random"
        self._sit(0 if self._draws_seat else checked_seat(seat, num_players))
        self._ended = True  # no episode before the first reset
        self._seeded = False  # until the first reset
        self.render_mode = self.env.render_mode
        self.observation_space = self.env.observation_space(self.agent)
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
        own_seed = None if drawn is None else turn_seed(drawn, sample, 0, 0)
        self._opponents.start(others, own_seed)
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
                "a language game has no action mask, since its actions are texts; use it "
                "without masks"
            )
        if not self._seeded:
            raise ValueError("no episode is running: call reset()")
        if self._is_over():
            return np.ones(num_actions, np.int8)
        return action_mask(num_actions, tuple(self.env.legal_actions())).copy()

    def render(self) -> Any:
        from arena_envs.scenes.rendering import rendered  # play needs no pictures

        return rendered(self.env.game, self.env.game_state, self.seat, self.render_mode)

    def _sit(self, seat: int) -> None:
        self.seat, self.agent = seat, self.env.possible_agents[seat]

    def _act(self, action: Any) -> None:
        """Plays the action, or forfeits if it is not legal."""
        env, game = self.env, self.env.game
        if self._reads_text and isinstance(action, str):
            action = parse_reply(
                game, env.game_state, action, "bare", env.legal_texts()
            )
        if game.num_actions is None:
            legal = isinstance(action, str)
        else:
            legal = is_legal(action, env.legal_actions(), self.agent)
        if legal:
            env.step(action)
        else:
            env.forfeit(self.agent)

    def _is_over(self) -> bool:
        return self.env.terminations[self.agent] or self.env.truncations[self.agent]

    def _let_others_play(self) -> None:
        env, agent = self.env, self.agent
        while env.agent_selection != agent and not self._is_over():
            self._opponents.play_turn(env)

    def _observation(self) -> Any:
        seen = self.env.observe(self.agent)
        if self._is_over() and isinstance(seen, dict) and "action_mask" in seen:
            seen["action_mask"][:] = 1
        return seen

    def _info(self) -> dict[str, Any]:
        info: dict[str, Any] = {
            "agent": self.agent,
            "legal": list(self.env.legal_texts()),
        }
        if self.env.game.num_actions is not None:
            info["action_mask"] = self.action_masks()
        return info

    def _ending(self) -> dict[str, Any]:
        env = self.env
        outcome: dict[str, Any] = {
            "returns": [float(paid) for paid in env.returns],
            "measures": dict(env.game.measures(env.game_state)),
        }
        if env.forfeited_by is not None:
            outcome["forfeited_by"] = env.forfeited_by
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
    opponents: str | Policy | Sequence[str | Policy] = "random",
    observation: Content | None = None,
    reply: Literal["action", "text"] = "action",
    **params: Any,
) -> SeatEnv:
    """A `SeatEnv` of a game; the entry point of the Gymnasium ids.

    Args:
        game: id of a registered game, or the rules.
        seat: the seat of the environment, or `"random"`.
        opponents: a policy or a string for `make_policy`, or one per other seat.
        observation: as for `GameEnv`. None is `"features"`; in language games, where
            features leave out the words, it is `"all"`.
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
    single = isinstance(opponents, str) or not isinstance(opponents, Sequence)
    named: Any = [opponents] if single else opponents
    others = [checked_opponent(o) for o in named]

    def make_with(content: Content) -> GameEnv:
        if isinstance(game, str):
            return arena_envs.make(game, observation=content, **params)
        return GameEnv(game, observation=content, **params)

    def make_env() -> GameEnv:
        env = make_with(observation or "features")
        if observation is None and env.game.num_actions is None:
            return make_with("all")
        return env

    return SeatEnv(make_env, seat, others[0] if single else others, reply)
