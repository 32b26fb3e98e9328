"""Turn trees: at which turns episodes branch, and which candidates go on."""

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from arena_envs.checks import check_known
from arena_envs.game import check_int
from arena_wrappers.policies import turn_seed
from arena_wrappers.records import Episode

Follow = Literal["best", "random", "all"]

CANDIDATE = 2**32  # stands where the seat does in a turn's seed, above every seat


@dataclass(frozen=True)
class Branching:
    """A turn tree: the turns at which episodes branch, and the candidates that go on.

    An episode is played to its end. At the first turn that is chosen here, `num_candidates`
    more episodes start from the same state, each with its own reply, and are played to
    their ends. The return of a candidate is what its seat is paid from that turn on.
    Candidates that are followed branch again at their next chosen turn. With T chosen turns
    and K candidates there are

        1 + TK episodes if one candidate is followed,
        1 + K + K² + ... + Kᵀ episodes if all are.

    With `"best"`, a candidate is followed because of its return. So only the replies at
    which candidates branch are unbiased samples. Their later turns are selected by their
    return (`is_unselected` is false), and credit that compares them can have the wrong sign.
    The states that branch are selected, too: in games of hidden information, followed
    episodes are those where the hidden state was favourable, and no choice of turns removes
    this bias. With `"random"` and `"all"` every turn is unselected.

    Candidates have the chance outcomes of their parent, as long as they draw in the same
    order. From the branch on, all policies choose anew. Where the best is followed, its
    candidates share new chance outcomes, because its own are part of why it was the best.

    Args:
        num_candidates: episodes that start where one branches, K.
        turns: which turns of a seat, counted from 0; None for every turn.
        seats: whose turns; None for every seat's.
        follow: which candidates branch again. `"best"`: the one whose seat was paid most
            from the branch on, ties drawn; `"random"`: one of them; `"all"`.

    Raises:
        ValueError: a number is out of range, or `follow` is unknown.
    """

    num_candidates: int
    turns: Collection[int] | None = None
    seats: Collection[int] | None = None
    follow: Follow = "best"

    def __post_init__(self) -> None:
        check_int("num_candidates", self.num_candidates, 2, 10_000)
        for name in ("turns", "seats"):
            numbers = getattr(self, name)
            if numbers is None:
                continue
            if not isinstance(numbers, Collection) or isinstance(numbers, str):
                raise ValueError(f"want {name} as a list of integers, got {numbers!r}")
            for number in numbers:
                check_int(f"number in {name}", number, 0, 10_000)
            object.__setattr__(self, name, frozenset(numbers))
        check_known(self.follow, get_args(Follow), f"unknown follow {self.follow!r}")

    def is_at(self, seat: int, turn: int) -> bool:
        """Whether episodes branch at this turn of this seat."""
        return (self.turns is None or turn in self.turns) and (
            self.seats is None or seat in self.seats
        )

    def is_unselected(self, episode: Episode, place: int) -> bool:
        """Whether the turn `turns[place]` was kept whatever its return."""
        return (
            self.follow != "best" or episode.branch is None or place <= episode.branch
        )

    def followed(self, candidates: Sequence[Episode], parent: Episode) -> list[int]:
        """The numbers of the candidates from `parent` that branch again."""
        if self.follow == "all":
            return list(range(len(candidates)))
        numbers = list(range(len(candidates)))
        if self.follow == "best":
            returns = []  # to the seat that branched from that turn on, all parts together
            for episode in candidates:
                turns = episode.turns[episode.branch or 0 :]
                rewards = (turn.reward for turn in turns if turn.seat == turns[0].seat)
                returns.append(sum(rewards))
            numbers = [number for number in numbers if returns[number] == max(returns)]
        branch = candidates[0].branch or 0
        seed = turn_seed(parent.seed, parent.sample, branch, CANDIDATE - 1)
        return [random.Random(seed).choice(numbers)]
