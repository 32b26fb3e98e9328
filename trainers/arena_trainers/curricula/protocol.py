"""The protocol of a curriculum, and the records that it reads and returns."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from arena_envs.checks import check_known, is_number
from arena_envs.game import AnyGame
from arena_envs.registry import Registry


class Task(NamedTuple):
    """The game and length of a start; all episodes of its group play the same.

    Attributes:
        game: name of one of the run's games; None for the game that the run's own weights
            have drawn.
        max_turns: truncates episodes after so many turns of all seats together; None for the
            game's own limit, which also holds if it is lower.
    """

    game: str | None = None
    max_turns: int | None = None


class Outcome(NamedTuple):
    """The end of an episode.

    Attributes:
        game: name of the game.
        success: mean return of the seats that learn, from 0 at the game's lowest return to
            1 at its highest.
    """

    game: str
    success: float


class Stateful(Protocol):
    """What a checkpoint keeps the state of."""

    def state_dict(self) -> dict[str, Any]:
        """The changes by `update`, as JSON holds it."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state that `state_dict` gave."""
        ...


class Curriculum(Stateful, Protocol):
    """Chooses the tasks of the starts.

    Every process has a curriculum, and all of them get the same calls. So a curriculum
    depends on its options, its arguments and its state, and draws from `rng` alone.
    `BaseCurriculum` has defaults for everything but `propose`.

    Attributes:
        reads_success: whether it reads `Outcome.success`. Then training refuses games in
            which the success is the same in every episode.
    """

    reads_success: bool

    def prepare(self, games: Mapping[str, AnyGame]) -> None:
        """Called once, before the first step, with the games of the run.

        Args:
            games: the rules, by name.

        Raises:
            ValueError: games that do not fit its options.
        """
        ...

    def propose(self, step: int, rng: np.random.Generator) -> Task:
        """The task of one start.

        Args:
            step: optimizer steps so far.
            rng: follows from the seed of the run and the number of the batch.
        """
        ...

    def update(self, outcomes: Sequence[Outcome], step: int) -> None:
        """Takes the outcomes of the batch that was played at a step.

        Episodes whose success says nothing are left out: self-play of a zero-sum game.
        """
        ...


class Stateless:
    """Takes every game, and has no state."""

    def prepare(self, games: Mapping[str, AnyGame]) -> None:
        """Takes every game."""

    def state_dict(self) -> dict[str, Any]:
        """No state."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes the empty state."""


class BaseCurriculum(Stateless):
    """A curriculum for all games, without a state, for subclasses with `propose`."""

    reads_success = False

    def update(self, outcomes: Sequence[Outcome], step: int) -> None:
        """Ignores the outcomes."""


def check_games(names: Iterable[str], games: Mapping[str, AnyGame]) -> None:
    """Raises ValueError for a name that is none of the run's games."""
    for name in names:
        problem = f"the curriculum names {name!r}, which is no game of the run"
        check_known(name, games, problem)


def check_game_weights(
    subject: str, weights: Mapping[str, float], example: str
) -> None:
    """Raises ValueError for anything but weights of at least 0 with a sum above 0."""
    expected = f"want {subject} of at least 0, one of them above 0"
    if not isinstance(weights, Mapping) or not weights:
        raise ValueError(f"{expected}, got {weights!r}; write {{{example}: 1}}")
    are_valid = [is_number(weight) and weight >= 0 for weight in weights.values()]
    if not all(are_valid) or not math.fsum(weights.values()) > 0:
        raise ValueError(f"{expected}, got {dict(weights)!r}")


_HERE = "arena_trainers.curricula"
curricula: Registry[Curriculum] = Registry(
    "curriculum",
    "arena.curricula",
    {
        "band": f"{_HERE}.band:Band",
        "horizon": f"{_HERE}.horizon:Horizon",
        "stages": f"{_HERE}.stages:Stages",
        "weights": f"{_HERE}.weights:Weights",
    },
    kit=f"{_HERE}.testing:check_curriculum",
)
