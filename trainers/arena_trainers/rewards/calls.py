"""Calls of models, as rewards that pay each call read them."""

from collections.abc import Callable
from inspect import signature
from typing import Any, NamedTuple

from arena_envs.game import AnyGame, AnyState
from arena_wrappers import Episode, Generation, Turn


class Call(NamedTuple):
    """A call of a model.

    Attributes:
        episode: the call's episode.
        turn: its turn.
        state: before the turn.
        game: the rules.
        generation: what the model read and wrote; of a turn of one call, the reply.
    """

    episode: Episode
    turn: Turn
    state: AnyState
    game: AnyGame
    generation: Generation


def calls_of(
    episode: Episode, turn: Turn, state: AnyState, game: AnyGame
) -> list[Call]:
    """The calls of a turn; a plain turn is one."""
    reply = Generation(
        "",
        turn.reply,
        turn.prompt_ids or (),
        turn.token_ids or (),
        turn.logprobs or (),
        messages=turn.messages,
    )
    generations = turn.generations or [reply]
    return [Call(episode, turn, state, game, call) for call in generations]


def reads_calls(function: Callable[..., Any]) -> bool:
    """Whether a reward pays each call: its first parameter is `calls`."""
    return next(iter(signature(function).parameters), "") == "calls"
