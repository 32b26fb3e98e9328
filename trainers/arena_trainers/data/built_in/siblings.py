"""The different replies at each branch of turn trees, with their values Q(state, reply)."""

from collections.abc import Hashable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from arena_credit.pools import reply_values
from arena_trainers.data.arguments import Policies, chosen_policies, seeded_integer
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
    value: float  # the mean return from here on of the episodes with this candidate's reply
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
    learners = chosen_policies(episodes, policies)
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
    branches = []
    players = _players(episodes)
    for parent, numbers in children.items():
        family = [
            _candidate(number, episodes, children, players[parent], seed)
            for number in numbers
        ]
        if family[0].turn.policy in learners:
            family.sort(key=attrgetter("value", "lot"), reverse=True)
            branches.append(family)

    def start(family: Sequence[_Candidate]) -> tuple[object, ...]:
        best = family[0].episode
        samples = sorted(candidate.episode.sample for candidate in family)
        return (*rules_key(best), best.seed, best.branch, samples)

    return _with_values(sorted(branches, key=start), level)


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
    number: int,
    episodes: Sequence[Episode],
    children: dict[int, list[int]],
    players: tuple[tuple[int, str], ...],
    seed: int,
) -> _Candidate:
    """The candidate that an episode stands for, with the mean of its descendants' returns."""
    episode = episodes[number]
    branch = episode.branch or 0
    turn = episode.turns[branch]
    descendants, returns = [number], []
    for descendant in descendants:  # grows while it is read
        descendants += children.get(descendant, [])
        turns = episodes[descendant].turns[branch:]
        returns.append(sum(t.reward for t in turns if t.seat == turn.seat))
    lot = seeded_integer(seed, episode.game, episode.seed, episode.sample, turn.reply)
    # sorted, so that the sum does not depend on the order of the episodes
    value = sum(sorted(returns)) / len(returns)
    return _Candidate(value, lot, episode, turn, players)


def _with_values(
    branches: Sequence[Sequence[_Candidate]], level: float
) -> list[list[Sibling]]:
    """The families with their equal replies merged, each with the value of its state."""
    candidates = [candidate for family in branches for candidate in family]
    values = reply_values(
        np.array([candidate.value for candidate in candidates], float),
        _numbers([candidate.state for candidate in candidates]),
        _numbers([candidate.reply for candidate in candidates]),
        level,
    )
    pairs = iter(values.of.tolist())  # the number of each candidate's state and reply
    merged = []
    for family in branches:
        representatives: dict[int, _Candidate] = {}  # by state and reply
        for candidate in family:
            pair = next(pairs)
            representative = representatives.get(pair, candidate)
            if candidate.lot > representative.lot:
                representative = candidate
            representatives[pair] = representative
        siblings = [
            Sibling(
                value=float(values.mean[pair]),
                low=float(values.low[pair]),
                high=float(values.high[pair]),
                size=int(values.size[pair]),
                lot=candidate.lot,
                episode=candidate.episode,
                turn=candidate.turn,
            )
            for pair, candidate in representatives.items()
        ]
        siblings.sort(key=attrgetter("value", "lot"), reverse=True)
        merged.append(siblings)
    return merged


def _numbers(keys: Sequence[Hashable]) -> np.ndarray:
    """int64[N]: equal keys have equal numbers, from 0 in the order of their first ones."""
    number_of: dict[Hashable, int] = {}
    return np.array([number_of.setdefault(key, len(number_of)) for key in keys], int)


def first_difference(first: Turn, second: Turn) -> tuple[Turn, Turn] | None:
    """Two turns, or the first of their calls that differ; None where prompts differ first."""
    for first_call, second_call in zip(calls(first), calls(second), strict=False):
        if first_call.reply != second_call.reply:
            if have_same_prompt(first_call, second_call):
                return first_call, second_call
            return None
    return None


def reason_to_drop(better: Sibling, worse: Sibling, margin: float) -> Dropped | None:
    """Why two replies teach nothing, if so."""
    if better.turn.reply == worse.turn.reply:
        return Dropped("equal texts that the rules read differently")
    if not better.value - worse.value > margin:
        return Dropped(f"values of siblings differ by no more than {margin:g}")
    if not is_legal(better.turn):
        return Dropped("the better sibling was refused")
    return None
