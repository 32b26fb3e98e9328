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
    Seen,
    fenced,
    quoted,
    roles,
    told,
)
from arena_wrappers.policies.protocol import Reply
from arena_wrappers.prompts import InvalidReply, after_reasoning
from arena_wrappers.records import Generation


@roles("planner", "worker")
def planner_worker(seen: Seen) -> Asks:
    """The planner writes a plan in one line; the worker moves."""
    wanted = "Do not move yet. Write a plan for your next move, in one line."
    plan = yield Ask("planner", told(wanted, seen.messages))
    advice = f"Your plan: {quoted(plan.text)}\nNow move."
    move = yield Ask("worker", told(advice, seen.messages), parent=plan)
    return Reply(move.text)


@roles("reflector", "actor")
def reflect(seen: Seen, num_notes: int = 4) -> Asks:
    """The reflector notes beliefs and a lesson, which the actor reads before it moves.

    Args:
        seen: the turn.
        num_notes: number of the last notes that both read. In a match they go back over its
            earlier games.
    """
    notes = [
        quoted(one.text)
        for turn in seen.past
        for one in turn.generations
        if one.role == "reflector"
    ][-num_notes:]
    before = "".join(f"\nYour note: {note}" for note in notes)
    wanted = (
        "Do not move yet. Write two lines: what you believe about what you cannot see, and a "
        f"lesson for your next moves.{before}"
    )
    note = yield Ask("reflector", told(wanted, seen.messages))
    read = f"Your note: {quoted(note.text)}{before}\nNow move."
    move = yield Ask("actor", told(read, seen.messages), parent=note)
    return Reply(move.text)


@roles("proposer", "chooser")
def candidates(seen: Seen, num: int = 3, scorer: Scorer | str | None = None) -> Asks:
    """The proposer replies several times; the chooser names one of the legal proposals.

    Args:
        seen: the turn.
        num: number of proposals.
        scorer: picks in the chooser's place, or `"judge"`; of equal scores the first wins.
    """
    made = yield [Ask("proposer", seen.messages) for _ in range(num)]
    texts = _different(seen, [one.text for one in made])
    if scorer is not None and len(texts) > 1:
        by_text = {one.text: one for one in made}
        scores = yield from _scored(scorer, seen, [by_text[text] for text in texts])
        return Reply(texts[scores.index(max(scores))])
    if len(texts) == 1:
        return Reply(texts[0])
    listed = "\n".join(f"{i}. {quoted(text)}" for i, text in enumerate(texts, 1))
    wanted = f"Do not move yet. Which reply is best?\n{listed}\nWrite its number alone."
    choice = yield Ask("chooser", told(wanted, seen.messages), parent=made[-1])
    number = _number(choice.text)
    whole = int(number) if number is not None else 0
    return Reply(texts[whole - 1] if 1 <= whole <= len(texts) else texts[0])


@roles("proposer")
def tree_search(seen: Seen, num: int = 3, sims: int = 64) -> Asks:
    """The proposer replies several times; a search of the game picks a proposal.

    Args:
        seen: the turn.
        num: number of proposals.
        sims: simulated games, each from a state that the seat cannot tell from the true one.
    """
    made = yield [Ask("proposer", seen.messages) for _ in range(num)]
    texts = _different(seen, [one.text for one in made])
    if len(texts) == 1:
        return Reply(texts[0])
    actions, state = [seen.action(text) for text in texts], seen._request.state
    best = ISMCTS(sims).best(seen.game, state, actions, random.Random(seen.seed))
    return Reply(texts[actions.index(best)])


def by_seat(seen: Seen) -> Asks:
    """Asks the policy of the seat, such as `seat_0`, for its move."""
    said = yield Ask(f"seat_{seen.seat}", seen.messages)
    return Reply(said.text)


@roles("actor", "judge")
def verify(
    seen: Seen, tries: int = 3, least: float = 0.5, scorer: Scorer | str | None = None
) -> Asks:
    """Asks the actor again until a judge's grade, from 0 to 1, or a score reaches a bound.

    Args:
        seen: the turn.
        tries: largest number of moves; then the one with the best score is played.
        least: the bound.
        scorer: rates in the judge's place.
    """
    found: list[tuple[float, str]] = []
    while len(found) < tries and (not found or max(found)[0] < least):
        move = yield Ask("actor", seen.messages)
        (score,) = yield from _scored(scorer or JUDGE, seen, [move])
        found.append((score, move.text))
    scores = [score for score, _ in found]
    return Reply(found[scores.index(max(scores))][1])


@roles("debater")
def debate(seen: Seen, num: int = 2, rounds: int = 1) -> Asks:
    """Several debaters reply, read each other's replies, and reply again.

    The move that most of them name at the end is played; of equally many the first.

    Args:
        seen: the turn.
        num: number of debaters.
        rounds: how often each reads the others.
    """
    said = yield [Ask("debater", seen.messages) for _ in range(num)]
    for _ in range(rounds if num > 1 else 0):
        asks = []
        for me, own in enumerate(said):
            rest = [quoted(one.text) for i, one in enumerate(said) if i != me]
            others = "\n".join(f"Another player would reply: {text}" for text in rest)
            read = f"You would reply: {quoted(own.text)}\n{others}\nReply again."
            asks.append(Ask("debater", told(read, seen.messages), parent=own))
        said = yield asks
    named = [seen.action(one.text) for one in said]
    votes = Counter(repr(action) for action in named if action is not None)
    best = max(votes, key=votes.__getitem__, default=None)
    chosen = (i for i, action in enumerate(named) if repr(action) == best)
    return Reply(said[next(chosen, 0)].text)


def _scored(
    scorer: Any, seen: Seen, made: Sequence[Generation]
) -> Generator[Any, Any, list[float]]:
    """The scores of generations; a judge is asked for them."""
    if scorer != JUDGE:
        return [float(score) for score in scorer(seen, [one.text for one in made])]
    wanted = "Do not move yet. Grade this reply:\n{}\nWrite a number from 0 to 1."
    asks = (told(wanted.format(fenced(one.text)), seen.messages) for one in made)
    said = yield [Ask(JUDGE, *pair) for pair in zip(asks, made, strict=True)]
    grades = [_number(one.text) or 0.0 for one in said]
    return [grade if grade <= 1 else 0.0 for grade in grades]


def _different(seen: Seen, texts: Sequence[str]) -> list[str]:
    """The first reply for each legal action that is named; without any, the first reply."""
    found: dict[str, str] = {}
    for text in texts:
        if (action := seen.action(text)) is not None:
            found.setdefault(repr(action), text)
    return list(found.values()) or [texts[0]]


def _number(text: str) -> float | None:
    rest = after_reasoning(text)
    if isinstance(rest, InvalidReply):
        return None
    found = re.search(r"\d{1,9}(?:\.\d{1,9})?", rest[-MAX_QUOTED:])
    return float(found[0]) if found else None
