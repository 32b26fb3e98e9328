"""Prompts with replies to imitate: random legal play, or a solver in the states it meets."""

import random
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from arena_envs.game import (
    AnyGame,
    AnyState,
)
from arena_wrappers import BotPolicy, Episode, EpisodePlan, Policy, play_plans
from arena_wrappers.play import EnvFn
from arena_wrappers.policies import Reply, TurnRequest
from arena_wrappers.prompts import Message


class Example(NamedTuple):
    """A prompt, and the reply that is to be said."""

    messages: Sequence[Message]
    reply: str


class FixedRandomBot:
    """Plays legal actions with probabilities fixed at random per information state.

    Half uniform, half drawn from the simplex: play that differs between information
    states teaches a model to read its prompt, and says nothing about good play.

    Args:
        seed: of the probabilities.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def __call__(self, game: AnyGame, state: AnyState, rng: random.Random) -> Any:
        seat, legal = game.current_player(state), game.legal_actions(state)
        state_rng = random.Random(
            f"{self.seed} {seat} {game.information_state(state, seat)!r}"
        )
        weights = [state_rng.expovariate(1.0) for _ in legal]
        total = sum(weights)
        chances = [0.5 / len(legal) + 0.5 * w / total for w in weights]
        return rng.choices(legal, chances)[0]


class Recorder:
    """Plays as one policy does, and notes what another would reply.

    Args:
        player: who plays.
        teacher: whose replies are noted.

    Attributes:
        examples: the prompts met, with the teacher's replies.
    """

    def __init__(self, player: Policy, teacher: Policy) -> None:
        self.player, self.teacher = player, teacher
        self.name = player.name
        self.examples: list[Example] = []

    def act(self, requests: Sequence[TurnRequest]) -> Sequence[Reply]:
        replies = self.teacher.act(requests)
        for request, reply in zip(requests, replies, strict=True):
            if reply.error is not None:
                raise ValueError(f"{self.teacher.name} gave no reply: {reply.error}")
            self.examples.append(Example(request.messages, reply.text))
        return self.player.act(requests)


def examples_of(episodes: Iterable[Episode]) -> list[Example]:
    """The valid replies of the episodes, in order."""
    turns = (turn for episode in episodes for turn in episode.turns)
    return [Example(t.messages, t.reply) for t in turns if t.invalid is None]


def legal_play(env_fns: Sequence[EnvFn], num_episodes: int, seed: int) -> list[Example]:
    """The turns of `FixedRandomBot`, its episodes spread evenly over the environments."""
    bot = BotPolicy(FixedRandomBot(seed), name="fixed_random")
    return examples_of(_episodes(env_fns, bot, num_episodes, seed))


def solver_examples(
    env_fns: Sequence[EnvFn], solver: Policy, num_episodes: int, seed: int
) -> list[Example]:
    """The replies of a solver in the turns of `legal_play`, which meets bad states, too."""
    player = BotPolicy(FixedRandomBot(seed), name="fixed_random")
    recorder = Recorder(player, solver)
    _episodes(env_fns, recorder, num_episodes, seed)
    return recorder.examples


def _episodes(
    env_fns: Sequence[EnvFn], policy: Policy, num_episodes: int, seed: int
) -> list[Episode]:
    """Self-play of a policy."""
    num_players = [len(env_fn().possible_agents) for env_fn in env_fns]
    plans = [
        EpisodePlan(
            env_fns[i % len(env_fns)],
            [policy] * num_players[i % len(env_fns)],
            seed * num_episodes + i,
        )
        for i in range(num_episodes)
    ]
    return play_plans(plans, batch_size=256, on_error="raise")
