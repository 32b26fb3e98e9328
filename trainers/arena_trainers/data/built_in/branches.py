"""The selector of better and worse replies at the branches of turn trees: `branch_pairs`."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Literal

from arena_envs.game import check_number
from arena_trainers.data.arguments import Policies, check_share
from arena_trainers.data.built_in.siblings import (
    Sibling,
    families,
    first_difference,
    reason_to_drop,
)
from arena_trainers.data.recorded_play import pieces_of, row_facts
from arena_trainers.data.rows import Dropped, Pair
from arena_wrappers import Episode


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
    num_alone = 0
    for number, episode in enumerate(episodes):
        if episode.parent is None and number not in parents:
            num_alone += 1
    if num_alone:
        yield Dropped("an episode that did not branch", num_alone)
    for family in families(episodes, seed, policies, level or 0.95):
        if len(family) == 1:
            yield Dropped("a branch where all candidates say the same")
        elif pairs == "all":
            for better, worse in combinations(family, 2):
                yield _pair(better, worse, margin, level)
        else:
            yield _pair(family[0], family[-1], margin, level)


def _pair(
    better: Sibling, worse: Sibling, margin: float, level: float | None
) -> Pair | Dropped:
    dropped = reason_to_drop(better, worse, margin)
    if dropped is not None:
        return dropped
    turns = first_difference(better.turn, worse.turn)
    if turns is None:
        return Dropped("their prompts differ before their replies do")
    if level is not None and not better.low > worse.high:
        return Dropped(f"intervals of values at level {level:g} overlap")
    return Pair(
        **row_facts(better.episode, turns[0], "better and worse reply of a state"),
        chosen=pieces_of([turns[0]]),
        rejected=pieces_of([turns[1]], lambda turn: True),
        margin=better.value - worse.value,
    )
