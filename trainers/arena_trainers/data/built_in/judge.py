"""The selector by a model that grades replies: `judged_pairs`."""

import re
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from statistics import fmean
from typing import NamedTuple

from arena_envs.game import check_int
from arena_trainers.data.arguments import Policies, seeded_integer
from arena_trainers.data.built_in.questions import Question, policy_of, questions_of
from arena_trainers.data.recorded_play import pieces_of, row_facts, rules_key
from arena_trainers.data.rows import Dropped, Pair
from arena_wrappers import (
    Episode,
    Policy,
)
from arena_wrappers.policies import Reply
from arena_wrappers.policies.agents import add_instruction, fenced
from arena_wrappers.prompts import after_reasoning

GRADING = (
    "Do not act now. Grade this reply to the above:\n{}\nAdd 1 point for each that holds: it names one "
    "action; the action is allowed; it is to the point; it is better than most others; none is "
    "better. Say why in a sentence, then end with the sum, from 0 to 5."
)

_GRADE_FORM = re.compile(r"(?<![\w./])(?<!of )[0-5](?:\.\d{1,9})?(?!\.?\w)")

AT_ONCE = 256  # grades that a judge is asked for


def judged_pairs(
    episodes: Sequence[Episode],
    *,
    seed: int,
    judge: str | Policy,
    num_grades: int = 3,
    policies: Policies = None,
) -> Iterator[Pair | Dropped]:
    """The reply to a prompt that a judge grades best over the one that it grades worst.

    Self-Rewarding Language Models (https://arxiv.org/abs/2401.10020), whose judge is the model that
    learns: in rounds `learner`, the default there. Differences: the prompts are those of play, and
    the criteria are for actions. The judge sees what the seat saw, and no outcome. A reply may ask
    the judge for points: it is fenced, but a judge may obey.

    Args:
        episodes: the records, with several replies to a prompt: samples, or turn trees.
        seed: of the judge's draws, and of that among equal grades.
        judge: a policy or its string.
        num_grades: how often each reply is graded; the mean counts.
        policies: names of those who learn; None for all.
    """
    check_int("num_grades", num_grades, 1, 100)
    grader = policy_of(judge)
    prompts: dict[Hashable, dict[str, Question]] = {}
    questions = questions_of(episodes, seed, policies)
    for question in sorted(questions, key=attrgetter("request.seed")):
        episode, turn = question.episode, question.turn
        texts = tuple(message["content"] for message in turn.messages)
        prompt = (rules_key(episode), episode.seed, turn.policy, texts)
        prompts.setdefault(prompt, {}).setdefault(turn.reply, question)
    groups = [list(replies.values()) for replies in prompts.values()]
    groups = [group for group in groups if len(group) > 1]
    if num_alike := len(prompts) - len(groups):
        yield Dropped("all replies to its prompt are the same", num_alike)
    questions = [question for group in groups for question in group]
    grades = iter(_grades(grader, questions, seed, num_grades))
    for group in groups:
        graded = []
        for question in group:
            grade = next(grades)
            if grade is not None:
                lot = seeded_integer(seed, question.turn.reply)
                graded.append(_Graded(grade, lot, question))
        if not graded:
            yield Dropped("the judge sees no difference, or gave no grades")
            continue
        best = max(graded, key=attrgetter("grade", "lot"))
        worst = min(graded, key=attrgetter("grade", "lot"))
        if best.grade == worst.grade:
            yield Dropped("the judge sees no difference, or gave no grades")
            continue
        turn = best.question.turn
        yield Pair(
            **row_facts(best.question.episode, turn, f"graded by {grader.name}"),
            chosen=pieces_of([turn], lambda turn: True),
            rejected=pieces_of([worst.question.turn], lambda turn: True),
            margin=best.grade - worst.grade,
        )


class _Graded(NamedTuple):
    """A reply with its grade, and a draw that decides between equal grades."""

    grade: float
    lot: int
    question: Question


def _grades(
    judge: Policy, questions: Sequence[Question], seed: int, num: int
) -> Iterator[float | None]:
    """The mean grade of the reply of each turn; None where none can be read."""
    size = max(AT_ONCE // num, 1)
    for start in range(0, len(questions), size):
        requests = []
        for question in questions[start : start + size]:
            prompt = add_instruction(
                GRADING.format(fenced(question.turn.reply)), question.turn.messages
            )
            request = replace(question.request, messages=prompt, legal=[*"012345"])
            lots = [
                seeded_integer(seed, i, [m["content"] for m in prompt])
                for i in range(num)
            ]
            requests += [replace(request, seed=lot) for lot in lots]
        grades = list(map(_grade, judge.act(requests)))
        for first in range(0, len(grades), num):
            of_reply = grades[first : first + num]
            readable = [grade for grade in of_reply if grade is not None]
            yield fmean(readable) if readable else None


def _grade(reply: Reply) -> float | None:
    """The last number from 0 to 5, as in "4 of 5"; None without one."""
    if reply.error is not None:
        raise ValueError(f"the judge gave no reply: {reply.error}")
    text = after_reasoning(reply.text)
    numbers = _GRADE_FORM.findall(text) if isinstance(text, str) else ()
    return float(numbers[-1]) if numbers and float(numbers[-1]) <= 5 else None
