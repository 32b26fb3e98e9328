"""`Opponents`: the policies of the seats that a `SeatEnv` leaves to others."""

import copy
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from arena_envs import GameEnv
from arena_envs.bots import Bot, make_bot
from arena_envs.game import AnyGame
from arena_wrappers.asking import ask
from arena_wrappers.formats import InvalidReply
from arena_wrappers.noisy import NoisyPolicy, ScoringNoisyPolicy
from arena_wrappers.policies import (
    BotPolicy,
    Policy,
    RandomPolicy,
    ScoringBotPolicy,
    TurnRequest,
    own_prompt,
)
from arena_wrappers.prompts import PromptOptions, messages


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
