"""The selector by a model that grades replies: `judged_pairs`."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from arena_envs.game import check_int
from arena_trainers.data.arguments import Policies, draw
from arena_trainers.data.built_in.questions import Asked, _asked, _teacher
from arena_trainers.data.recorded_play import facts_of, pieces_of, rules_key
from arena_trainers.data.rows import Dropped, Pair
from arena_wrappers import (
    Episode,
    Policy,
)
from arena_wrappers.policies import Reply
from arena_wrappers.policies.agents import fenced, told
from arena_wrappers.prompts import after_reasoning

GRADING = (
    "Do not act now. Grade this reply to the above:\n{}\nAdd 1 point for each that holds: it names one "
    "action; the action is allowed; it is to the point; it is better than most others; none is "
    "better. Say why in a sentence, then end with the sum, from 0 to 5."
)

_GRADE = re.compile(r"(?<![\w./])(?<!of )[0-5](?:\.\d{1,9})?(?!\.?\w)")

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
    judging, prompts = _teacher(judge), dict[Any, dict[str, Asked]]()
    found = _asked(episodes, seed, policies)
    for one in sorted(found, key=lambda one: one.request.seed):
        texts = tuple(message["content"] for message in one.turn.messages)
        key = (rules_key(one.episode), one.episode.seed, one.turn.policy, texts)
        prompts.setdefault(key, {}).setdefault(one.turn.reply, one)
    several = [list(one.values()) for one in prompts.values() if len(one) > 1]
    if same := len(prompts) - len(several):
        yield Dropped("all replies to its prompt are the same", same)
    asked = [one for replies in several for one in replies]
    grades = iter(_grades(judging, asked, seed, num_grades))
    for replies in several:
        pairs = [(next(grades), one) for one in replies]
        graded = [(g, draw(seed, o.turn.reply), o) for g, o in pairs if g is not None]
        low, _, worst = min(graded, default=(0.0, 0, None))
        high, _, best = max(graded, default=(0.0, 0, None))
        if best is None or worst is None or high == low:
            yield Dropped("the judge sees no difference, or gave no grades")
            continue
        yield Pair(
            **facts_of(best.episode, best.turn, f"graded by {judging.name}"),
            chosen=pieces_of([best.turn], lambda turn: True),
            rejected=pieces_of([worst.turn], lambda turn: True),
            margin=high - low,
        )


def _grades(
    judge: Policy, asked: Sequence[Asked], seed: int, num: int
) -> Iterator[float | None]:
    """The mean grade of the reply of each turn; None where none can be read."""
    size = max(AT_ONCE // num, 1)
    for start in range(0, len(asked), size):
        requests = []
        for one in asked[start : start + size]:
            prompt = told(GRADING.format(fenced(one.turn.reply)), one.turn.messages)
            asks = replace(one.request, messages=prompt, legal=[*"012345"])
            lots = [draw(seed, i, [m["content"] for m in prompt]) for i in range(num)]
            requests += [replace(asks, seed=lot) for lot in lots]
        read = list(map(_grade, judge.act(requests)))
        for first in range(0, len(read), num):
            known = [x for x in read[first : first + num] if x is not None]
            yield fmean(known) if known else None


def _grade(reply: Reply) -> float | None:
    """The last number from 0 to 5, as in "4 of 5"; None without one."""
    if reply.error is not None:
        raise ValueError(f"the judge gave no reply: {reply.error}")
    text = after_reasoning(reply.text)
    found = _GRADE.findall(text) if isinstance(text, str) else ()
    return float(found[-1]) if found and float(found[-1]) <= 5 else None
