"""Selectors by a solver in the states of the episodes: `solver_replies`, `solver_labels`."""

from collections.abc import Iterator, Sequence
from typing import Any

from arena_trainers.data.arguments import Policies, check_share
from arena_trainers.data.built_in.questions import Asked, _asked, _teacher
from arena_trainers.data.recorded_play import calls, facts_of, is_legal, pieces_of
from arena_trainers.data.rows import Completion, Dropped, Label, Said
from arena_wrappers import (
    Episode,
    InvalidReply,
    Policy,
)
from arena_wrappers.policies import addressed


def solver_replies(
    episodes: Sequence[Episode],
    *,
    seed: int,
    solver: str | Policy,
    policies: Policies = None,
) -> Iterator[Completion | Dropped]:
    """The replies of a solver in the states that a policy visited.

    DAgger (https://arxiv.org/abs/1011.0686): an expert labels the states of the learner.
    Kickstarting (https://arxiv.org/abs/1803.03835) compares with a teacher in these states. The cold
    start of DGPO (https://arxiv.org/abs/2508.20324) learns the teacher's own play: pass episodes of
    the solver. Differences: DAgger plays a mixture of expert and learner; mix the episodes for
    that. Kickstarting and DGPO then keep the teacher in the loss of reinforcement learning, which
    no data set holds. Of a solver that draws its actions, a row has one draw.

    Args:
        episodes: the records.
        seed: of the solver's draws.
        solver: a policy or its string, such as `"cfr"` or `"minimax"`.
        policies: names of those who learn; None for all.

    Raises:
        ValueError: the solver gives no reply.
    """
    teacher = _teacher(solver)
    asked = _asked(episodes, seed, policies)
    told = [addressed(one.request, teacher) for one in asked]
    for one, reply in zip(asked, teacher.act(told) if told else (), strict=True):
        if reply.error is not None:
            raise ValueError(f"{teacher.name} gave no reply: {reply.error}")
        game, state = one.request.game, one.request.state
        read = one.options.parse(game, state, reply.text, one.request.legal)
        if isinstance(read, InvalidReply):
            yield Dropped("the solver's reply is no legal action")
            continue
        # of an agent, the generation that moved
        moved = (call for call in calls(one.turn)[::-1] if call.reply == one.turn.reply)
        turn, same = next(moved, one.turn), reply.text == one.turn.reply
        said = Said(reply.text, turn.token_ids if same else None)
        facts = facts_of(one.episode, turn, f"reply of {teacher.name}")
        yield Completion(**facts, completion=[said])


def solver_labels(
    episodes: Sequence[Episode],
    *,
    seed: int,
    solver: str | Policy,
    at_least: float = 0.1,
    policies: Policies = None,
) -> Iterator[Label | Dropped]:
    """Every turn with a solver's verdict: good if the solver would play it.

    StepAgent (https://arxiv.org/abs/2411.03817) compares the agent's action with an expert's in each step;
    STEVE (https://arxiv.org/abs/2503.12532) labels steps for KTO. Differences: StepAgent turns the
    comparison into a reward, implicit or by inverse reinforcement learning. Here it is a label.
    Refused replies are bad. In language games the message is part of the action.

    Args:
        episodes: the records.
        seed: of the draws of a solver without action probabilities.
        solver: a policy or its string, such as `"cfr"` or `"minimax"`.
        at_least: an action is good if the solver plays it with this share, or more, of the
            probability of its most likely action, 0 to 1. A solver that reports no
            probabilities must take the same action.
        policies: names of those who learn; None for all.
    """
    check_share("at_least", at_least)
    teacher: Any = _teacher(solver)
    asked = _asked(episodes, seed, policies)
    legal = [one for one in asked if is_legal(one.turn)]
    good = _good(teacher, legal, at_least) if legal else []
    verdicts = {id(one.turn): label for one, label in zip(legal, good, strict=True)}
    for one in asked:
        label = verdicts.get(id(one.turn), False)
        reason = f"{teacher.name} plays it" if label else f"{teacher.name} avoids it"
        if not is_legal(one.turn):
            reason = "refused"
        for turn in calls(one.turn):
            facts = facts_of(one.episode, turn, reason)
            said = pieces_of([turn], lambda turn: True)
            yield Label(**facts, completion=said, label=label)


def _good(teacher: Any, asked: Sequence[Asked], at_least: float) -> list[bool]:
    """True for each turn whose action the solver would play."""
    told = [addressed(one.request, teacher) for one in asked]
    played = [_canonical(one, one.turn.action) for one in asked]
    if hasattr(teacher, "action_probs"):
        found = teacher.action_probs(told)
        return [
            text in one.request.legal
            and probs[list(one.request.legal).index(text)] >= at_least * max(probs)
            for one, text, (probs, _) in zip(asked, played, found, strict=True)
        ]
    same = []
    for one, text, reply in zip(asked, played, teacher.act(told), strict=True):
        game, state, legal = one.request.game, one.request.state, one.request.legal
        read = one.options.parse(game, state, reply.text, legal)
        is_action = not isinstance(read, InvalidReply)
        same.append(is_action and text == _canonical(one, read))
    return same


def _canonical(one: Asked, action: Any) -> str:
    """The canonical text of an action, which a record may already hold as text."""
    if isinstance(action, str):
        return action
    return one.request.game.action_text(one.request.state, action)
