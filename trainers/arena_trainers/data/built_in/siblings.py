"""The different replies at each branch of turn trees, with their values Q(state, reply)."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from arena_credit.pools import reply_values
from arena_trainers.data.arguments import Policies, chosen_policies, draw
from arena_trainers.data.recorded_play import (
    calls,
    have_same_prompt,
    is_legal,
    rules_key,
)
from arena_trainers.data.rows import Dropped
from arena_wrappers import (
    Episode,
    Turn,
)


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
    columns = (values.mean, values.low, values.high, values.size)
    facts = [*zip(*(column.tolist() for column in columns), strict=True)]
    numbers, merged = iter(values.of.tolist()), []
    for family in found:
        last: dict[int, _Candidate] = {}
        for one in family:
            number = next(numbers)
            last[number] = max(last.get(number, one), one, key=lambda c: c.lot)
        siblings = [Sibling._make((*facts[n], *one[1:4])) for n, one in last.items()]
        siblings.sort(key=lambda one: (one.value, one.lot), reverse=True)
        merged.append(siblings)
    return merged


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
