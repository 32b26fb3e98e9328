"""Recorded turns as questions to another policy: a solver or a judge."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from arena_trainers.data.arguments import Policies, chosen_policies, seeded_integer
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


class Question(NamedTuple):
    """A turn of the record, as a question to another policy.

    Attributes:
        episode: the record.
        turn: the turn.
        request: the prompt of the turn, in its state.
        options: how replies are read.
    """

    episode: Episode
    turn: Turn
    request: TurnRequest
    options: PromptOptions

    def action_of(self, reply: str) -> Any:
        """The action that a reply is read as, or an `InvalidReply`."""
        request = self.request
        return self.options.parse(request.game, request.state, reply, request.legal)


def policy_of(solver: str | Policy) -> Policy:
    """The policy of an option, which may be its string."""
    if isinstance(solver, str):
        return make_policy(solver)
    if not hasattr(solver, "act"):
        raise ValueError(f"want solver as a policy such as cfr, got {solver!r:.60}")
    return solver


def questions_of(
    episodes: Sequence[Episode], seed: int, policies: Policies
) -> list[Question]:
    """The turns of the policies that learn, with the states in which they were taken."""
    learners = chosen_policies(episodes, policies)
    games = games_of(episodes)
    questions = []
    for number, episode in enumerate(episodes):
        game = games[rules_key(episode)]
        options = {
            turn.seat: seat_options(episode.prompt, turn.seat)
            for turn in episode.turns
            if turn.policy in learners
        }
        if not options:
            continue
        for turn, state in zip(episode.turns, turn_states(episode, game), strict=True):
            if turn.policy not in learners:
                continue
            request = TurnRequest(
                episode=number,
                turn=turn.index,
                seat=turn.seat,
                game=game,
                state=state,
                messages=turn.messages,
                context_ids=(),
                legal=turn.legal,
                seed=seeded_integer(
                    seed, episode.seed, episode.sample, turn.seat, turn.index
                ),
                reply_format=options[turn.seat].reply_format,
                date=options[turn.seat].date,
            )
            questions.append(Question(episode, turn, request, options[turn.seat]))
    return questions
