"""Turn trees: at which turns `play` tries several replies from the same state."""

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from arena_envs.checks import did_you_mean
from arena_envs.game import check_int
from arena_wrappers.episodes import Episode
from arena_wrappers.policies import turn_seed

Follow = Literal["best", "random", "all"]

_CANDIDATE = 2**32  # stands where the seat does in a turn's seed, above every seat


@dataclass(frozen=True)
class Branching:
    """Where episodes branch, and how they go on.

    An episode is played to its end. At the first turn that is chosen here, `num_candidates`
    more episodes start from the same state, each with a reply of its own, and are played to
    their ends, too: what a candidate is worth is what its seat was paid from then on. Those
    that are followed branch again at their next chosen turn. With T chosen turns in an
    episode and K candidates that makes 1 + TK episodes if one is followed, and
    1 + K + K² + ... + Kᵀ if all are.

    What the best candidate was paid is what it was followed for, and the others were left
    for theirs. So with `"best"` only the replies at which candidates branch are unbiased samples
    of what a seat does and is paid; their later turns are not (`is_unselected`), and credit that
    compares them can turn the gradient around. Which states branch depends on luck, too: in
    games of hidden information the followed lines are those where what is hidden was kind,
    which no choice of turns can mend. With `"random"` and `"all"` every turn is unselected.

    Candidates have the chance of the episode that they branch from as long as they draw
    alike, and their own choices of all policies from the branch on. Where the best is
    followed, its candidates share new chance instead, as its own was part of why it was.

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
        if self.follow not in get_args(Follow):
            hint = did_you_mean(str(self.follow), get_args(Follow))
            raise ValueError(f"unknown follow {self.follow!r}; {hint}")

    def is_at(self, seat: int, turn: int) -> bool:
        """Whether episodes branch at this turn of this seat."""
        return (self.turns is None or turn in self.turns) and (
            self.seats is None or seat in self.seats
        )

    def is_unselected(self, episode: Episode, place: int) -> bool:
        """Whether neither `turns[place]`, nor what it led to, was chosen for its pay."""
        return (
            self.follow != "best" or episode.branch is None or place <= episode.branch
        )

    def followed(self, candidates: Sequence[Episode], parent: Episode) -> list[int]:
        """Which of the candidates that branched from `parent` branch again."""
        if self.follow == "all":
            return list(range(len(candidates)))
        among = list(range(len(candidates)))
        if self.follow == "best":
            paid = [paid_from_branch(episode) for episode in candidates]
            among = [number for number in among if paid[number] == max(paid)]
        branch = candidates[0].branch or 0
        drawn = turn_seed(parent.seed, parent.sample, branch, _CANDIDATE - 1)
        return [random.Random(drawn).choice(among)]


def paid_from_branch(episode: Episode) -> float:
    """What the seat that branched was paid from its reply on, all parts together."""
    turns = episode.turns[episode.branch or 0 :]
    return sum(turn.reward for turn in turns if turn.seat == turns[0].seat)


def chance_seed(seed: int, sample: int, branch: int) -> int:
    """Seed of the chance of all candidates that branch from a followed one."""
    return turn_seed(seed, sample, branch, _CANDIDATE - 2)


def candidate_sample(seed: int, sample: int, branch: int, candidate: int) -> int:
    """The `sample` of a candidate: a hash of its parent's, the branch and its number."""
    return turn_seed(seed, sample, branch, _CANDIDATE + candidate)
