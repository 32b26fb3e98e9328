"""Selectors that read turn trees: `branch_pairs`, `revisions`."""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from arena_envs.game import check_bool, check_number
from arena_trainers.credit.pools import reply_values
from arena_trainers.data.rows import (
    Call,
    Completion,
    Dropped,
    Pair,
    Piece,
    Policies,
    Said,
    calls,
    check_share,
    chosen_policies,
    conversations,
    draw,
    facts_of,
    have_same_prompt,
    is_legal,
    pieces_of,
    rules_key,
    trajectories,
)
from arena_wrappers import Episode, Turn

Which = Literal["extremes", "all"]


class Sibling(NamedTuple):
    """A reply at a branch of a turn tree, and its value Q(state, reply).

    Attributes:
        value: mean of what the seat is paid from here on, over the candidates with an equal
            reply in an equal state of all trees.
        low: lower end of the interval of `value`.
        high: upper end.
        size: how many candidates these are.
        lot: decides between equal values, and which candidate stands for its reply.
        episode: the candidate that stands for them.
        turn: its turn at the branch.
    """

    value: float
    low: float
    high: float
    size: int
    lot: int
    episode: Episode
    turn: Turn


class _Candidate(NamedTuple):
    paid: float  # on average over the episodes with this candidate's reply
    lot: int
    episode: Episode
    turn: Turn
    players: tuple[tuple[int, str], ...]

    @property
    def state(self) -> tuple[Any, ...]:
        """The texts that the seat read, and who plays: states with equal ones are equal."""
        texts = tuple((m["role"], m["content"]) for m in self.turn.messages)
        return (*rules_key(self.episode), self.turn.seat, self.players, texts)

    @property
    def reply(self) -> str:
        """The action that the rules read; refused replies are equal, as in the credit."""
        return repr(self.turn.action) if is_legal(self.turn) else ""


def families(
    episodes: Sequence[Episode], seed: int, policies: Policies, level: float = 0.95
) -> list[list[Sibling]]:
    """The different replies at each branch, best first, in an order of their own.

    The episode that branched is no candidate: it may have been chosen for its return.

    Args:
        episodes: `Episode.parent` counts them from 0.
        seed: of the draws.
        policies: names of those who learn; None for all.
        level: of the intervals of values.

    Raises:
        ValueError: a parent is missing.
    """
    wanted = chosen_policies(episodes, policies)
    children: dict[int, list[int]] = {}
    for number, episode in enumerate(episodes):
        if episode.parent is None:
            continue
        if not 0 <= episode.parent < len(episodes):
            raise ValueError(
                f"want episode {episode.parent}, the parent of episode {number}, among "
                f"{len(episodes)} episodes; pass all episodes of a call of play"
            )
        children.setdefault(episode.parent, []).append(number)
    found = []
    players = _players(episodes)
    for parent, numbers in children.items():
        told = episodes, children, players[parent]
        family = [_candidate(*told, number, seed) for number in numbers]
        if family[0].turn.policy in wanted:
            found.append(sorted(family, key=lambda one: one[:2], reverse=True))

    def place(family: Sequence[_Candidate]) -> tuple[object, ...]:
        best = family[0].episode
        samples = sorted(one.episode.sample for one in family)
        return (*rules_key(best), best.seed, best.branch, samples)

    return _valued(sorted(found, key=place), level)


def _players(episodes: Sequence[Episode]) -> list[tuple[tuple[int, str], ...]]:
    """The players of each episode's tree: a short episode lacks those who had no turn."""
    roots = []
    for number, episode in enumerate(episodes):
        while episode.parent is not None:
            number, episode = episode.parent, episodes[episode.parent]
        roots.append(number)
    seats: dict[int, set[tuple[int, str]]] = {}
    for root, episode in zip(roots, episodes, strict=True):
        seats.setdefault(root, set()).update((t.seat, t.policy) for t in episode.turns)
    return [tuple(sorted(seats[root])) for root in roots]


def _candidate(
    episodes: Sequence[Episode],
    children: dict[int, list[int]],
    players: tuple[tuple[int, str], ...],
    number: int,
    seed: int,
) -> _Candidate:
    episode = episodes[number]
    place = episode.branch or 0
    turn = episode.turns[place]
    line, paid = [number], []
    for one in line:  # grows while it is read
        line += children.get(one, [])
        turns = episodes[one].turns[place:]
        paid.append(sum(t.reward for t in turns if t.seat == turn.seat))
    lot = draw(seed, episode.game, episode.seed, episode.sample, turn.reply)
    return _Candidate(sum(sorted(paid)) / len(paid), lot, episode, turn, players)


def _valued(found: Sequence[Sequence[_Candidate]], level: float) -> list[list[Sibling]]:
    """The families with their equal replies merged, each with the value of its state."""
    every = [one for family in found for one in family]
    states: dict[Any, int] = {}
    replies: dict[str, int] = {}
    values = reply_values(
        np.array([one.paid for one in every], float),
        np.array([states.setdefault(one.state, len(states)) for one in every], int),
        np.array([replies.setdefault(one.reply, len(replies)) for one in every], int),
        level,
    )
    numbers, merged = iter(values.of.tolist()), []
    for family in found:
        told: dict[int, _Candidate] = {}
        for one in family:
            number = next(numbers)
            told[number] = max(told.get(number, one), one, key=lambda c: c.lot)
        siblings = [
            Sibling(
                float(values.mean[n]),
                float(values.low[n]),
                float(values.high[n]),
                int(values.size[n]),
                *(one.lot, one.episode, one.turn),
            )
            for n, one in told.items()
        ]
        order = sorted(siblings, key=lambda one: (one.value, one.lot), reverse=True)
        merged.append(order)
    return merged


def branch_pairs(
    episodes: Sequence[Episode],
    *,
    seed: int,
    margin: float = 0.0,
    pairs: Which = "extremes",
    level: float | None = None,
    policies: Policies = None,
) -> Iterator[Pair | Dropped]:
    """Replies at a branch of a turn tree whose values Q(state, reply) differ.

    Q is the mean return of all candidates with this reply in this state, in all trees: equal
    replies are merged first, so that no pair is reversed by another one of its state.
    Replies are equal if the rules read the same action; states, if the seat read the same and
    the same policies play. `pairs="extremes"` is Optima's iDPO
    (https://arxiv.org/abs/2410.08115): the best over the worst reply of a branch. `"all"` pairs
    every two. Agent Q (https://arxiv.org/abs/2408.07199) and SPORT
    (https://arxiv.org/abs/2504.21561) also train on better and worse steps at one state.
    Differences: values are returns of played episodes, without Agent Q's critic and SPORT's
    verifying model. Trees are those of `play(branch=...)`, not of a search. Optima also asks
    for a value above a limit (0.4 of its reward for HotpotQA), and keeps the better half of
    the pairs of a task.

    Args:
        episodes: the records of trees, parents included.
        seed: of the draw among equal values, and among candidates with equal replies.
        margin: the values must differ by more than this; Optima takes 0.2 of its reward for
            HotpotQA.
        pairs: `"extremes"` or `"all"`.
        level: the intervals of both values at this level, such as 0.95, must not overlap; None
            asks for no interval.
        policies: names of those who learn; None for all.
    """
    if pairs not in get_args(Which):
        raise ValueError(f"want pairs extremes or all, got {pairs!r}")
    check_number("margin", margin, 0)
    if level is not None:
        check_share("level", level)
        if level == 1:
            raise ValueError("want level below 1, got 1; give 0.95")
    parents = {episode.parent for episode in episodes}
    alone = [n for n, e in enumerate(episodes) if e.parent is None and n not in parents]
    if alone:
        yield Dropped("an episode that did not branch", len(alone))
    for family in families(episodes, seed, policies, level or 0.95):
        if len(family) == 1:
            yield Dropped("a branch where all candidates say the same")
        better = family[:-1] if pairs == "all" else family[:1]
        for place, one in enumerate(better):
            for other in family[place + 1 :] if pairs == "all" else family[1:][-1:]:
                yield _pair(one, other, margin, level)


def _pair(
    one: Sibling, other: Sibling, margin: float, level: float | None
) -> Pair | Dropped:
    found = _why_not(one, other, margin)
    said = _different(one.turn, other.turn)
    if found is not None or said is None:
        return found or Dropped("their prompts differ before their replies do")
    if level is not None and not one.low > other.high:
        return Dropped(f"intervals of values at level {level:g} overlap")
    return Pair(
        **facts_of(one.episode, said[0], "better and worse reply of a state"),
        chosen=pieces_of([said[0]]),
        rejected=pieces_of([said[1]], lambda turn: True),
        margin=one.value - other.value,
    )


def _different(one: Turn, other: Turn) -> tuple[Turn, Turn] | None:
    """Two turns, or the first of their calls that differ; None where prompts differ first."""
    pairs = zip(calls(one), calls(other), strict=False)
    found = next((pair for pair in pairs if pair[0].reply != pair[1].reply), None)
    return found if found and have_same_prompt(*found) else None


def _why_not(one: Sibling, other: Sibling, margin: float) -> Dropped | None:
    """Why two replies teach nothing, if so."""
    if one.turn.reply == other.turn.reply:
        return Dropped("equal texts that the rules read differently")
    if not one.value - other.value > margin:
        return Dropped(f"values of siblings differ by no more than {margin:g}")
    if not is_legal(one.turn):
        return Dropped("the better sibling was refused")
    return None


def revisions(
    episodes: Sequence[Episode],
    *,
    seed: int,
    margin: float = 0.0,
    above: float | None = None,
    note: str = "No, that is a mistake. I choose again.",
    good: bool = False,
    policies: Policies = None,
) -> Iterator[Completion | Dropped]:
    r"""Mistakes and their corrections; the mistakes are read, not trained.

    From a turn tree, as in Agent-R (https://arxiv.org/abs/2501.11425): the worst sibling's reply,
    a note, then the best sibling's reply and the rest of its conversation. From `on_invalid=
    "retry"`, as in AgentRefine (https://arxiv.org/abs/2501.01702): a refused reply, the reason, the
    accepted reply. The loss of both masks wrong turns. Differences: Agent-R's agent
    finds its first error by asking itself, and waits for a turn before it goes on. Here, the
    first error is the branch, and the correction is in one reply, `BAD\nNOTE</think>GOOD`, of
    which every reply format reads what follows `</think>`. Agent-R draws from ten notes. AgentRefine
    has a strong model write its episodes.

    Args:
        episodes: the records of trees, or of play that asks again after an invalid reply.
        seed: of the draw among equal values.
        margin: the values of the replies must differ by more than this.
        above: the value of the best sibling must be above this; None for any value.
        note: what is said between the replies.
        good: whether the conversations of best siblings are rows, too, as in Agent-R.
        policies: names of those who learn; None for all.
    """
    check_number("margin", margin, 0)
    least = -math.inf if above is None else above
    check_number("above", least)
    check_bool("good", good)
    if not isinstance(note, str):
        raise ValueError(f"want note as a text, got {note!r:.60}")
    for family in families(episodes, seed, policies):
        best, worst = family[0], family[-1]
        if best is worst:
            yield Dropped("a branch where all candidates say the same")
            continue
        if not best.value > least:
            yield Dropped(f"the best sibling's value is not above {least:g}")
            continue
        why_not = _why_not(best, worst, margin)
        yield why_not or _revision(best, worst, note)
        for turn in calls(best.turn) if good and why_not is None else ():
            facts = facts_of(best.episode, turn, "best sibling")
            yield Completion(**facts, completion=_rest(best, turn))
    for one in trajectories(episodes, policies):
        for turns in conversations(one.turns):
            before = [turn for turn in one.turns if turn.index == turns[0].index - 1]
            pairs = pairwise([*before[-1:], *turns])
            corrected = [a for a, b in pairs if not is_legal(a) and is_legal(b)]
            if any(turn.action is None for turn in corrected):  # in the same state
                facts = facts_of(one.episode, turns[0], "a refused reply, corrected")
                yield Completion(**facts, completion=pieces_of(turns))
            elif one.episode.parent is None:
                yield Dropped("nothing was refused and then corrected")


def _revision(good: Sibling, bad: Sibling, note: str) -> Completion | Dropped:
    said = _different(good.turn, bad.turn)
    if said is None:
        return Dropped("their prompts differ before their replies do")
    ids = said[1].token_ids
    if ids is not None and not bad.turn.truncated:
        ids = ids[:-1]  # without the end token
    pieces: list[Piece] = [
        Said(said[1].reply, ids, counts=False, ends=False),
        Said(f"\n{note}</think>", None, ends=False),
        *_rest(good, said[0]),
    ]
    facts = facts_of(good.episode, said[1], "worst sibling, note, best sibling")
    return Completion(**facts, completion=pieces)


def _rest(one: Sibling, said: Turn) -> list[Piece]:
    """The conversation of a sibling from the branch on; a call of its turn is one of its own."""
    if isinstance(said, Call):
        return pieces_of([said])
    own = [turn for turn in one.episode.turns if turn.seat == one.turn.seat]
    return pieces_of(next(conversations(own[one.turn.index :])))
