"""The protocol of a matchmaker, the records that it reads and returns, and `History`.

`History` says which snapshots are taken and kept, and draws starts against them.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from arena_envs.checks import check_count
from arena_envs.doors import Door
from arena_envs.game import AnyGame
from arena_trainers.curricula.protocol import Stateful, Stateless

Floats = NDArray[np.float64]
SELF = "self"  # the policy that learns
PAST = "past:"  # of policy strings that name the snapshots of a run
Seats = tuple[str, ...]  # who plays each seat: `SELF`, `self@STEP`, or a policy string


class Start(NamedTuple):
    """A start that is to be played; all episodes of its group share its assignment.

    Attributes:
        game: name of the game, with its parameters.
        num_seats: seats of the game.
        seed: of the environment.
    """

    game: str
    num_seats: int
    seed: int


class Result(NamedTuple):
    """The outcome of one episode.

    Attributes:
        game: name of the game, with its parameters.
        seats: who played each seat.
        returns: return of each seat by the rules.
    """

    game: str
    seats: Seats
    returns: tuple[float, ...]


class Match(NamedTuple):
    """Episodes that are played for their results, and train nothing.

    Attributes:
        game: name of the game, with its parameters.
        seats: who plays each seat.
        num_episodes: how many are played, each with a seed of its own. Matches of the same
            policies in other seats have the same seeds, so that luck in the deals cancels.
    """

    game: str
    seats: Seats
    num_episodes: int


class Matchmaker(Stateful, Protocol):
    """Chooses who plays each seat of each start, and which seats learn.

    Every process has a matchmaker, and all of them get the same calls. So a matchmaker
    depends on its options, its arguments and its state, and draws from `rng` alone.
    `BaseMatchmaker` has defaults for everything but `assign`.

    Attributes:
        policies: the policy strings that it may assign besides `"self"` and snapshots.
        max_live: how many snapshots stay in memory; 0 if it assigns none.
    """

    policies: Sequence[str]
    max_live: int

    def prepare(self, games: Mapping[str, AnyGame]) -> None:
        """Called once, before the first step, with the games whose seats it assigns.

        Args:
            games: the rules, by name.

        Raises:
            ValueError: a game that it cannot match.
        """
        ...

    def snapshots(self, step: int) -> Sequence[int]:
        """The snapshots that it may assign at a step, by the steps after which they were taken.

        Each was among `snapshots` at an earlier step, or is of this step. A snapshot that is
        missing here never comes back: its file is deleted, unless a checkpoint needs it.
        """
        ...

    def matches(self, step: int) -> Sequence[Match]:
        """Matches to play before the starts of this step; `update` gets their results.

        It is asked whenever a snapshot was taken.
        """
        ...

    def assign(
        self, starts: Sequence[Start], step: int, rng: np.random.Generator
    ) -> Sequence[Seats]:
        """The players of each seat of each start; in each, at least one seat is `"self"`.

        Args:
            starts: the different starts of the batch, of all processes.
            step: optimizer steps so far.
            rng: follows from the seed of the run and the number of the batch.
        """
        ...

    def update(self, results: Sequence[Result], step: int) -> None:
        """Takes the results of the batch that was played at a step, or of matches."""
        ...


class BaseMatchmaker(Stateless):
    """A matchmaker without snapshots, matches and state, for subclasses with `assign`."""

    policies: Sequence[str] = ()
    max_live: int = 0

    def snapshots(self, step: int) -> Sequence[int]:
        """None."""
        return ()

    def matches(self, step: int) -> Sequence[Match]:
        """None."""
        return ()

    def update(self, results: Sequence[Result], step: int) -> None:
        """Ignores the results."""


def snapshot_name(step: int) -> str:
    """The name of a snapshot in assignments and records.

    >>> snapshot_name(120)
    'self@120'
    """
    return f"{SELF}@{step}"


def snapshot_step(name: str) -> int | None:
    """The step of a snapshot's name; None for any other policy string.

    >>> snapshot_step("self@120"), snapshot_step("self"), snapshot_step("random")
    (120, None, None)
    """
    found = re.fullmatch(rf"{SELF}@(\d+)", name)
    return int(found[1]) if found else None


def is_past(spec: str) -> bool:
    """True if a policy string names snapshots of a run, as `past:RUN` does."""
    return spec.startswith(PAST)


def missing_snapshot(
    matchmaker: Matchmaker, steps: Sequence[int]
) -> tuple[int, int] | None:
    """The first step at which a matchmaker wants a snapshot that was never taken or dropped.

    Returns:
        The step, and the step of the snapshot; None if there is none.
    """
    kept: set[int] = set()
    for step in steps:
        wanted = set(matchmaker.snapshots(step))
        if missing := wanted - kept - {step}:
            return step, min(missing)
        kept = wanted
    return None


_HERE = "arena_trainers.matchmaking"
matchmakers: Door[Matchmaker] = Door(
    "matchmaker",
    "arena.matchmakers",
    {
        "mixture": f"{_HERE}.built_in:Mixture",
        "past_selves": f"{_HERE}.built_in:PastSelves",
        "prioritised": f"{_HERE}.built_in:Prioritised",
        "psro": f"{_HERE}.built_in:PSRO",
    },
    kit=f"{_HERE}.testing:check_matchmaker",
)


def names_matchmaker(opponents: Any) -> bool:
    """True if `opponents` names a matchmaker: by the name of one, or by a mapping.

    >>> names_matchmaker("past_selves"), names_matchmaker("random")
    (True, False)
    """
    if isinstance(opponents, str):
        return opponents != SELF and matchmakers.knows(opponents)
    return isinstance(opponents, Mapping)


def assigns_seats(opponents: Any) -> bool:
    """True if `opponents` chooses for each start who learns: a matchmaker, or one policy.

    >>> assigns_seats("random"), assigns_seats("self"), assigns_seats(["self", "random"])
    (True, False, False)
    """
    is_policy = isinstance(opponents, str) and opponents != SELF
    return is_policy or names_matchmaker(opponents)


def matchmaker_for(opponents: str | Mapping[str, Any]) -> Matchmaker:
    """The matchmaker of `opponents`; one policy plays all seats but a drawn one that learns.

    Args:
        opponents: for which `assigns_seats` is true.

    Raises:
        ValueError, ImportError: as `make_matchmaker`.
    """
    if names_matchmaker(opponents):
        return make_matchmaker(opponents)
    return make_matchmaker({"mixture": {"weights": {opponents: 1}}})


def make_matchmaker(spec: str | Mapping[str, Any]) -> Matchmaker:
    """The matchmaker of a name with its options, such as `"past_selves(every=20)"`.

    Args:
        spec: an expression of `arena_envs.doors`, or `{NAME: {key: value}}`.

    Raises:
        ValueError: an unknown matchmaker or option, an option out of range, or a matchmaker
            that names itself or another as a policy.
        ImportError: the matchmaker's plug-in cannot be imported.

    >>> make_matchmaker("past_selves(every=10)").snapshots(25)
    [0, 10, 20]
    """
    made = matchmakers.make(spec)
    for policy in made.policies:
        if (
            policy == SELF
            or matchmakers.knows(policy)
            or snapshot_step(policy) is not None
        ):
            name = matchmakers.read(spec).name
            itself = "itself" if policy == name else repr(policy)
            raise ValueError(
                f"matchmaker {name!r} names {itself} among its policies; want policy "
                "strings such as 'random' there"
            )
    return made


@dataclass(frozen=True)
class History:
    """The snapshots of a run: one after every `every` steps, from step 0.

    Rule of deletion: with a `window`, the newest `window` snapshots are kept. Without it,
    when there are more than `max_kept`, every second one is dropped, and from then on half
    as many are taken. So those that are kept are always spread evenly over the run.

    Args:
        every: steps between snapshots.
        window: how many of the newest are kept; None for the whole history.
        max_kept: most snapshots without a window.
        max_live: how many stay in memory; the others are read from disk.

    Raises:
        ValueError: a number is no integer of at least 1.

    >>> History(every=10, max_kept=4).steps(45)  # of 0, 10, 20, 30, 40
    [0, 20, 40]
    >>> History(every=10, window=2).steps(45)
    [30, 40]
    """

    every: int = 20
    window: int | None = None
    max_kept: int = 32
    max_live: int = 4

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name != "window" or value is not None:
                check_count(name, value)

    def steps(self, step: int) -> list[int]:
        """The steps of the snapshots that are kept at a step, in ascending order."""
        taken = range(0, step + 1, self.every)
        if self.window is not None:
            return list(taken[-self.window :])
        while len(taken) > self.max_kept:
            taken = taken[::2]
        return list(taken)

    def assign(
        self,
        starts: Sequence[Start],
        step: int,
        rng: np.random.Generator,
        weights: Callable[[str, Sequence[int]], Floats | None],
    ) -> list[Seats]:
        """Each start against one snapshot.

        For each game, `max_live` snapshots (or its share of them) are drawn by weight, with
        repetition, and then one of these for each start. So a start plays each snapshot with
        exactly its weight, and few snapshots have to be in memory for one batch.

        Args:
            starts: the starts.
            step: the current step.
            rng: the source of all choices.
            weights: of the snapshots in a game, by its name and their steps; None if all
                are equal.
        """
        steps = self.steps(step)
        games = list(dict.fromkeys(start.game for start in starts))
        share = max(self.max_live // max(len(games), 1), 1)
        live = {}
        for game in games:
            live[game] = rng.choice(steps, size=share, p=weights(game, steps))
        return [
            against(snapshot_name(int(rng.choice(live[start.game]))), start, rng)
            for start in starts
        ]


def against(opponent: str, start: Start, rng: np.random.Generator) -> Seats:
    """The seats of a start in which one seat, drawn uniformly, learns against an opponent.

    >>> start = Start("kuhn_poker-v0", 2, seed=0)
    >>> against("self@40", start, np.random.default_rng(0))
    ('self@40', 'self')
    """
    learner = int(rng.integers(start.num_seats))
    return tuple(SELF if s == learner else opponent for s in range(start.num_seats))
