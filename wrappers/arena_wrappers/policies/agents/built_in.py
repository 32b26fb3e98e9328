"""The agents built in, but for the one with tools."""

import random
import re
from collections import Counter
from collections.abc import Generator, Sequence
from typing import Any

from arena_envs.bots.mcts import ISMCTS
from arena_wrappers.policies.agents.protocol import (
    JUDGE,
    MAX_QUOTED,
    Ask,
    Asks,
    Scorer,
    TurnView,
    add_instruction,
    fenced,
    quoted_reply,
    roles,
)
from arena_wrappers.policies.protocol import Reply
from arena_wrappers.prompts import InvalidReply, Message, after_reasoning
from arena_wrappers.records import Generation


@roles("planner", "worker")
def planner_worker(view: TurnView) -> Asks:
    """The planner writes a plan in one line; the worker moves."""
    instruction = "Do not move yet. Write a plan for your next move, in one line."
    plan = yield Ask("planner", add_instruction(instruction, view.messages))
    advice = f"Your plan: {quoted_reply(plan.text)}\nNow move."
    move = yield Ask("worker", add_instruction(advice, view.messages), parent=plan)
    return Reply(move.text)


@roles("reflector", "actor")
def reflect(view: TurnView, num_notes: int = 4) -> Asks:
    """The reflector notes beliefs and a lesson, which the actor reads before it moves.

    Args:
        view: the turn.
        num_notes: number of the last notes that both read. In a match they go back over its
            earlier games.
    """
    notes = [
        quoted_reply(generation.text)
        for turn in view.past
        for generation in turn.generations
        if generation.role == "reflector"
    ][-num_notes:]
    note_lines = "".join(f"\nYour note: {note}" for note in notes)
    instruction = (
        "Do not move yet. Write two lines: what you believe about what you cannot see, and a "
        f"lesson for your next moves.{note_lines}"
    )
    note = yield Ask("reflector", add_instruction(instruction, view.messages))
    context = f"Your note: {quoted_reply(note.text)}{note_lines}\nNow move."
    move = yield Ask("actor", add_instruction(context, view.messages), parent=note)
    return Reply(move.text)


@roles("proposer", "chooser")
def candidates(
    view: TurnView, num: int = 3, scorer: Scorer | str | None = None
) -> Asks:
    """The proposer replies several times; the chooser names one of the legal proposals.

    Args:
        view: the turn.
        num: number of proposals.
        scorer: picks in the chooser's place, or `"judge"`; of equal scores the first wins.
    """
    proposals = yield [Ask("proposer", view.messages) for _ in range(num)]
    texts = _distinct_texts(view, [proposal.text for proposal in proposals])
    if scorer is not None and len(texts) > 1:
        by_text = {proposal.text: proposal for proposal in proposals}
        scores = yield from _score(scorer, view, [by_text[text] for text in texts])
        return Reply(texts[scores.index(max(scores))])
    if len(texts) == 1:
        return Reply(texts[0])
    numbered_texts = "\n".join(
        f"{i}. {quoted_reply(text)}" for i, text in enumerate(texts, 1)
    )
    instruction = f"Do not move yet. Which reply is best?\n{numbered_texts}\nWrite its number alone."
    choice = yield Ask(
        "chooser", add_instruction(instruction, view.messages), parent=proposals[-1]
    )
    number = _first_number(choice.text)
    whole = int(number) if number is not None else 0
    return Reply(texts[whole - 1] if 1 <= whole <= len(texts) else texts[0])


@roles("proposer")
def tree_search(view: TurnView, num: int = 3, sims: int = 64) -> Asks:
    """The proposer replies several times; a search of the game picks a proposal.

    Args:
        view: the turn.
        num: number of proposals.
        sims: simulated games, each from a state that the seat cannot tell from the true one.
    """
    proposals = yield [Ask("proposer", view.messages) for _ in range(num)]
    texts = _distinct_texts(view, [proposal.text for proposal in proposals])
    if len(texts) == 1:
        return Reply(texts[0])
    actions, state = [view.action(text) for text in texts], view._request.state
    best = ISMCTS(sims).best(view.game, state, actions, random.Random(view.seed))
    return Reply(texts[actions.index(best)])


def by_seat(view: TurnView) -> Asks:
    """Asks the policy of the seat, such as `seat_0`, for its move."""
    answer = yield Ask(f"seat_{view.seat}", view.messages)
    return Reply(answer.text)


@roles("actor", "judge")
def verify(
    view: TurnView,
    tries: int = 3,
    least: float = 0.5,
    scorer: Scorer | str | None = None,
) -> Asks:
    """Asks the actor again until a judge's grade, from 0 to 1, or a score reaches a bound.

    Args:
        view: the turn.
        tries: largest number of moves; then the one with the best score is played.
        least: the bound.
        scorer: rates in the judge's place.
    """
    scored_moves: list[tuple[float, str]] = []
    while len(scored_moves) < tries and (
        not scored_moves or max(scored_moves)[0] < least
    ):
        move = yield Ask("actor", view.messages)
        (score,) = yield from _score(scorer or JUDGE, view, [move])
        scored_moves.append((score, move.text))
    scores = [score for score, _ in scored_moves]
    return Reply(scored_moves[scores.index(max(scores))][1])


@roles("debater")
def debate(view: TurnView, num: int = 2, rounds: int = 1) -> Asks:
    """Several debaters reply, read each other's replies, and reply again.

    The move that most of them name at the end is played; of equally many the first.

    Args:
        view: the turn.
        num: number of debaters.
        rounds: how often each reads the others.
    """
    replies = yield [Ask("debater", view.messages) for _ in range(num)]
    for _ in range(rounds if num > 1 else 0):
        asks = []
        for me, own_reply in enumerate(replies):
            other_texts = [
                quoted_reply(reply.text) for i, reply in enumerate(replies) if i != me
            ]
            others = "\n".join(
                f"Another player would reply: {text}" for text in other_texts
            )
            context = f"You would reply: {quoted_reply(own_reply.text)}\n{others}\nReply again."
            asks.append(
                Ask(
                    "debater", add_instruction(context, view.messages), parent=own_reply
                )
            )
        replies = yield asks
    actions = [view.action(reply.text) for reply in replies]
    votes = Counter(repr(action) for action in actions if action is not None)
    best = max(votes, key=votes.__getitem__, default=None)
    winners = (i for i, action in enumerate(actions) if repr(action) == best)
    return Reply(replies[next(winners, 0)].text)


def _score(
    scorer: Scorer | str, view: TurnView, generations: Sequence[Generation]
) -> Generator[Any, Any, list[float]]:
    """The scores of generations; a judge is asked for them."""
    if not isinstance(scorer, str):
        return [
            float(score)
            for score in scorer(view, [generation.text for generation in generations])
        ]
    if scorer != JUDGE:
        raise ValueError(
            f"want a scorer or {JUDGE!r}, got {scorer!r}; make one by its name"
        )
    answers = yield [
        Ask(JUDGE, grading(generation.text, view.messages), generation)
        for generation in generations
    ]
    return [grade_of(generation.text) for generation in answers]


def grading(text: str, prompt: Sequence[Message]) -> list[Message]:
    """What a judge is asked about a reply to a prompt."""
    instruction = "Do not move yet. Grade this reply:\n{}\nWrite a number from 0 to 1."
    return add_instruction(instruction.format(fenced(text)), prompt)


def grade_of(text: str) -> float:
    """A judge's grade; numbers beyond 1, and none at all, count as 0."""
    grade = _first_number(text) or 0.0
    return grade if grade <= 1 else 0.0


def _distinct_texts(view: TurnView, texts: Sequence[str]) -> list[str]:
    """The first reply for each legal action that is named; without any, the first reply."""
    text_of_action: dict[str, str] = {}
    for text in texts:
        if (action := view.action(text)) is not None:
            text_of_action.setdefault(repr(action), text)
    return list(text_of_action.values()) or [texts[0]]


def _first_number(text: str) -> float | None:
    answer = after_reasoning(text)
    if isinstance(answer, InvalidReply):
        return None
    match = re.search(r"\d{1,9}(?:\.\d{1,9})?", answer[-MAX_QUOTED:])
    return float(match[0]) if match else None
