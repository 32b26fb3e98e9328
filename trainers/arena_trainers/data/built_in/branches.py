"""The selector of better and worse replies at the branches of turn trees: `branch_pairs`."""

from collections.abc import Iterator, Sequence
from typing import Literal

from arena_envs.game import check_number
from arena_trainers.data.arguments import Policies, check_share
from arena_trainers.data.built_in.siblings import (
    Sibling,
    _different,
    _why_not,
    families,
)
from arena_trainers.data.recorded_play import facts_of, pieces_of
from arena_trainers.data.rows import Dropped, Pair
from arena_wrappers import (
    Episode,
)


def branch_pairs(
    episodes: Sequence[Episode],
    *,
    seed: int,
    margin: float = 0.0,
    pairs: Literal["extremes", "all"] = "extremes",
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
    if pairs not in ("extremes", "all"):
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
                yield _of_siblings(one, other, margin, level)


def _of_siblings(
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
