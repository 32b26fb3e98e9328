"""The reward by a model that grades what another wrote: `judge`."""

import functools
import hashlib
from collections.abc import Sequence

from arena_trainers.rewards.calls import Call
from arena_wrappers import Policy, PromptOptions, TurnRequest, make_policy
from arena_wrappers.policies import own_prompt
from arena_wrappers.policies.agents import grade_of, grading


def judge(
    calls: Sequence[Call], *, policy: str | Policy, role: str = ""
) -> list[float]:
    """The grade of each call, from 0 to 1, by a policy that reads its prompt and its reply.

    Equal texts have equal grades. A reply without a number counts as 0. The judge sees what the
    model saw, and no outcome. A reply may ask for a high grade: it is fenced, but a judge may obey.

    Args:
        calls: what is graded.
        policy: the judge, or its string.
        role: grades the calls of this role alone; others are paid 0.
    """
    judging = _policy(policy) if isinstance(policy, str) else policy
    options = own_prompt(judging) or PromptOptions()
    requests: dict[int, TurnRequest] = {}
    seeds: list[int | None] = []
    for call in calls:
        if role and call.generation.role != role:
            seeds.append(None)
            continue
        messages = grading(call.generation.text, call.generation.messages)
        seed = _seed_of(str(messages))
        seeds.append(seed)
        if seed not in requests:
            requests[seed] = TurnRequest(
                episode=0,
                turn=call.turn.index,
                seat=call.turn.seat,
                game=call.game,
                state=call.state,
                messages=messages,
                context_ids=(),
                legal=call.turn.legal,
                seed=seed,
                reply_format=options.reply_format,
                date=options.date,
            )
    replies = judging.act(list(requests.values())) if requests else []
    for reply in replies:
        if reply.error is not None:
            raise ValueError(
                f"want a grade from the judge {policy!r}, got {reply.error}; mend its connection, "
                "and resume"
            )
    grades = {
        seed: grade_of(reply.text)
        for seed, reply in zip(requests, replies, strict=True)
    }
    return [0.0 if seed is None else grades[seed] for seed in seeds]


def _seed_of(text: str) -> int:
    """The judge's seed: equal texts have equal seeds, on every machine."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8)
    return int.from_bytes(digest.digest()) >> 1


@functools.cache
def _policy(spec: str) -> Policy:
    return make_policy(spec)
