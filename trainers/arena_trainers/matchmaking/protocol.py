"""The protocol of a matchmaker, and the records that it reads and returns."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

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


class EpisodeReturns(NamedTuple):
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

    def update(self, results: Sequence[EpisodeReturns], step: int) -> None:
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

    def update(self, results: Sequence[EpisodeReturns], step: int) -> None:
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
    match = re.fullmatch(rf"{SELF}@(\d+)", name)
    return int(match[1]) if match else None


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
    available: set[int] = set()
    for step in steps:
        assignable = set(matchmaker.snapshots(step))
        if missing := assignable - available - {step}:
            return step, min(missing)
        available = assignable
    return None


def against(opponent: str, start: Start, rng: np.random.Generator) -> Seats:
    """The seats of a start in which one seat, drawn uniformly, learns against an opponent.

    >>> start = Start("kuhn_poker-v0", 2, seed=0)
    >>> against("self@40", start, np.random.default_rng(0))
    ('self@40', 'self')
    """
    learner = int(rng.integers(start.num_seats))
    return tuple(
        SELF if seat == learner else opponent for seat in range(start.num_seats)
    )
