"""Selectors by a solver in the states of the episodes: `solver_replies`, `solver_labels`."""

from collections.abc import Iterator, Sequence
from typing import Any

from arena_envs.game import AnyAction
from arena_trainers.data.arguments import Policies, check_share
from arena_trainers.data.built_in.questions import Question, policy_of, questions_of
from arena_trainers.data.recorded_play import calls, facts_of, is_legal, pieces_of
from arena_trainers.data.rows import Completion, Dropped, Label, ReplyPart
from arena_wrappers import (
    Episode,
    InvalidReply,
    Policy,
    Turn,
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
    teacher = policy_of(solver)
    questions = questions_of(episodes, seed, policies)
    requests = [addressed(question.request, teacher) for question in questions]
    replies = teacher.act(requests) if requests else ()
    for question, reply in zip(questions, replies, strict=True):
        if reply.error is not None:
            raise ValueError(f"{teacher.name} gave no reply: {reply.error}")
        if isinstance(question.action_of(reply.text), InvalidReply):
            yield Dropped("the solver's reply is no legal action")
            continue
        turn = _moving_call(question.turn)
        is_same = reply.text == question.turn.reply
        piece = ReplyPart(reply.text, turn.token_ids if is_same else None)
        facts = facts_of(question.episode, turn, f"reply of {teacher.name}")
        yield Completion(**facts, completion=[piece])


def _moving_call(turn: Turn) -> Turn:
    """The last generation of an agent's turn that was its reply, or the turn."""
    for call in reversed(calls(turn)):
        if call.reply == turn.reply:
            return call
    return turn


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
    teacher: Any = policy_of(solver)
    questions = questions_of(episodes, seed, policies)
    legal = [question for question in questions if is_legal(question.turn)]
    labels = _labels(teacher, legal, at_least) if legal else []
    label_of = {
        id(question.turn): label for question, label in zip(legal, labels, strict=True)
    }
    for question in questions:
        label = label_of.get(id(question.turn), False)
        reason = f"{teacher.name} plays it" if label else f"{teacher.name} avoids it"
        if not is_legal(question.turn):
            reason = "refused"
        for turn in calls(question.turn):
            facts = facts_of(question.episode, turn, reason)
            pieces = pieces_of([turn], lambda turn: True)
            yield Label(**facts, completion=pieces, label=label)


def _labels(
    teacher: Policy, questions: Sequence[Question], at_least: float
) -> list[bool]:
    """True for each turn whose action the solver would play."""
    requests = [addressed(question.request, teacher) for question in questions]
    labels = []
    if hasattr(teacher, "action_probs"):
        distributions = teacher.action_probs(requests)
        for question, (probs, _) in zip(questions, distributions, strict=True):
            text = _canonical(question, question.turn.action)
            prob_of = dict(zip(question.request.legal, probs, strict=True))
            labels.append(
                text in prob_of and bool(prob_of[text] >= at_least * max(probs))
            )
        return labels
    for question, reply in zip(questions, teacher.act(requests), strict=True):
        text = _canonical(question, question.turn.action)
        action = question.action_of(reply.text)
        is_action = not isinstance(action, InvalidReply)
        labels.append(is_action and text == _canonical(question, action))
    return labels


def _canonical(question: Question, action: AnyAction) -> str:
    """The canonical text of an action, which a record may already hold as text."""
    if isinstance(action, str):
        return action
    return question.request.game.action_text(question.request.state, action)
