"""Selectors that read turn trees: `branch_pairs`, `revisions`."""

import math
from collections.abc import Collection, Iterator, Sequence
from typing import Literal, NamedTuple, get_args

from arena_trainers.data.played import (
    check_number,
    chosen_policies,
    conversations,
    draw,
    facts_of,
    is_legal,
    pieces_of,
    rules_key,
    trajectories,
)
from arena_trainers.data.rows import Completion, Dropped, Pair, Piece, Said
from arena_wrappers import Episode, Turn

Policies = Collection[str] | None
Which = Literal["extremes", "all"]


class Sibling(NamedTuple):
    """A candidate of a turn tree.

    Attributes:
        value: what the seat is paid from the branch on, on average over the episodes with
            the candidate's reply.
        lot: decides between equal values.
        episode: the candidate.
        turn: its turn at the branch.
    """

    value: float
    lot: int
    episode: Episode
    turn: Turn


def families(
    episodes: Sequence[Episode], seed: int, policies: Policies
) -> list[list[Sibling]]:
    """The candidates of each branch, best first, in an order of their own.

    The episode that branched is no candidate: it may have been chosen for its return.

    Args:
        episodes: `Episode.parent` counts them from 0.
        seed: of the draw among equal values.
        policies: names of those who learn; None for all.

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
    for numbers in children.values():
        family = [_sibling(episodes, children, number, seed) for number in numbers]
        if family[0].turn.policy in wanted:
            found.append(sorted(family, key=lambda one: one[:2], reverse=True))
    return sorted(found, key=_place)


def _place(family: Sequence[Sibling]) -> tuple[object, ...]:
    best = family[0].episode
    samples = sorted(one.episode.sample for one in family)
    return (*rules_key(best), best.seed, best.branch, samples)


def _sibling(
    episodes: Sequence[Episode],
    children: dict[int, list[int]],
    number: int,
    seed: int,
) -> Sibling:
    episode = episodes[number]
    place = episode.branch or 0
    turn = episode.turns[place]
    line, paid = [number], []
    for one in line:  # grows while it is read
        line += children.get(one, [])
        turns = episodes[one].turns[place:]
        paid.append(sum(t.reward for t in turns if t.seat == turn.seat))
    lot = draw(seed, episode.game, episode.seed, episode.sample, turn.reply)
    return Sibling(sum(sorted(paid)) / len(paid), lot, episode, turn)


def branch_pairs(
    episodes: Sequence[Episode],
    *,
    seed: int,
    margin: float = 0.0,
    pairs: Which = "extremes",
    policies: Policies = None,
) -> Iterator[Pair | Dropped]:
    """Siblings of a turn tree whose values differ: the better reply over the worse one.

    `pairs="extremes"` is Optima's iDPO (https://arxiv.org/abs/2410.08115): the best over the
    worst sibling, values backed up as means. `"all"` pairs every two siblings. Agent Q
    (https://arxiv.org/abs/2408.07199) and SPORT (https://arxiv.org/abs/2504.21561) also train on
    better and worse steps at one state. Differences: values are returns of played episodes,
    without Agent Q's critic and SPORT's verifying model. Trees are those of
    `play(branch=...)`, not of a search. Optima also asks for a value above a limit (0.4 of its
    reward for HotpotQA), and keeps the better half of the pairs of a task.

    Args:
        episodes: the records of trees, parents included.
        seed: of the draw among equal values.
        margin: the values must differ by more than this; Optima takes 0.2 of its reward for
            HotpotQA.
        pairs: `"extremes"` or `"all"`.
        policies: names of those who learn; None for all.
    """
    if pairs not in get_args(Which):
        raise ValueError(f"want pairs extremes or all, got {pairs!r}")
    check_number("margin", margin, 0)
    yield from _no_trees(episodes)
    for family in families(episodes, seed, policies):
        better = family[:-1] if pairs == "all" else family[:1]
        for place, one in enumerate(better):
            for other in family[place + 1 :] if pairs == "all" else family[-1:]:
                yield _pair(one, other, margin)


def _no_trees(episodes: Sequence[Episode]) -> Iterator[Dropped]:
    """Says how many episodes are in no tree."""
    parents = {episode.parent for episode in episodes}
    alone = sum(
        episode.parent is None and number not in parents
        for number, episode in enumerate(episodes)
    )
    if alone:
        yield Dropped("an episode that did not branch", alone)


def _pair(one: Sibling, other: Sibling, margin: float) -> Pair | Dropped:
    found = _why_not(one, other, margin)
    if found is not None:
        return found
    return Pair(
        **facts_of(one.episode, one.turn, "better and worse sibling"),
        chosen=pieces_of([one.turn]),
        rejected=pieces_of([other.turn], lambda turn: True),
        margin=one.value - other.value,
    )


def _why_not(one: Sibling, other: Sibling, margin: float) -> Dropped | None:
    """Why two siblings teach nothing, if so."""
    if one.turn.reply == other.turn.reply:
        return Dropped("siblings say the same")
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
        margin: the values of the siblings must differ by more than this.
        above: the value of the best sibling must be above this; None for any value.
        note: what is said between the replies.
        good: whether the conversations of best siblings are rows, too, as in Agent-R.
        policies: names of those who learn; None for all.
    """
    check_number("margin", margin, 0)
    least = -math.inf if above is None else above
    check_number("above", least)
    if not isinstance(good, bool):
        raise ValueError(f"want good as true or false, got {good!r:.60}")
    if not isinstance(note, str):
        raise ValueError(f"want note as a text, got {note!r:.60}")
    for family in families(episodes, seed, policies):
        best, worst = family[0], family[-1]
        if not best.value > least:
            yield Dropped(f"the best sibling's value is not above {least:g}")
            continue
        why_not = _why_not(best, worst, margin)
        yield why_not or _revision(best, worst, note)
        if good and why_not is None:
            facts = facts_of(best.episode, best.turn, "best sibling")
            yield Completion(**facts, completion=_rest(best))
    for one in trajectories(episodes, policies):
        for turns in conversations(one.turns):
            first = turns[0].index
            if _is_corrected([*one.turns[max(first - 1, 0) : first], *turns]):
                facts = facts_of(one.episode, turns[0], "a refused reply, corrected")
                yield Completion(**facts, completion=pieces_of(turns))
            elif one.episode.parent is None:
                yield Dropped("nothing was refused and then corrected")


def _revision(good: Sibling, bad: Sibling, note: str) -> Completion:
    ids = bad.turn.token_ids
    if ids is not None and not bad.turn.truncated:
        ids = ids[:-1]  # without the end token
    pieces: list[Piece] = [
        Said(bad.turn.reply, ids, counts=False, ends=False),
        Said(f"\n{note}</think>", None, ends=False),
        *_rest(good),
    ]
    facts = facts_of(good.episode, bad.turn, "worst sibling, note, best sibling")
    return Completion(**facts, completion=pieces)


def _rest(one: Sibling) -> list[Piece]:
    """The conversation of a sibling from the branch on."""
    own = [turn for turn in one.episode.turns if turn.seat == one.turn.seat]
    return pieces_of(next(conversations(own[one.turn.index :])))


def _is_corrected(turns: Sequence[Turn]) -> bool:
    """Whether a refused reply is followed by a legal one in the same state."""
    return any(
        not is_legal(turns[i - 1]) and turns[i - 1].action is None and is_legal(turn)
        for i, turn in enumerate(turns)
        if i
    )
