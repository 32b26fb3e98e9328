"""Recorded turns as questions to another policy: a solver or a judge."""

from collections.abc import Sequence
from typing import NamedTuple

from arena_trainers.data.arguments import Policies, chosen_policies, draw
from arena_trainers.data.recorded_play import games_of, rules_key
from arena_wrappers import (
    Episode,
    Policy,
    PromptOptions,
    Turn,
    TurnRequest,
    make_policy,
    turn_states,
)
from arena_wrappers.prompts import seat_options


class Asked(NamedTuple):
    """A turn of the record, as a question to the solver."""

    episode: Episode
    turn: Turn
    request: TurnRequest
    options: PromptOptions


def _teacher(solver: str | Policy) -> Policy:
    if isinstance(solver, str):
        return make_policy(solver)
    if not hasattr(solver, "act"):
        raise ValueError(f"want solver as a policy such as cfr, got {solver!r:.60}")
    return solver


def _asked(episodes: Sequence[Episode], seed: int, policies: Policies) -> list[Asked]:
    """The turns of the policies that learn, with the states in which they were taken."""
    wanted = chosen_policies(episodes, policies)
    games = games_of(episodes)
    found = []
    for number, episode in enumerate(episodes):
        game = games[rules_key(episode)]
        options = {
            turn.seat: seat_options(episode.prompt, turn.seat)
            for turn in episode.turns
            if turn.policy in wanted
        }
        if not options:
            continue
        for turn, state in zip(episode.turns, turn_states(episode, game), strict=True):
            if turn.policy not in wanted:
                continue
            facts = (seed, episode.seed, episode.sample, turn.seat, turn.index)
            request = TurnRequest(
                number,
                turn.index,
                turn.seat,
                game,
                state,
                turn.messages,
                (),
                turn.legal,
                draw(*facts),
                options[turn.seat].reply_format,
                date=options[turn.seat].date,
            )
            found.append(Asked(episode, turn, request, options[turn.seat]))
    return found
