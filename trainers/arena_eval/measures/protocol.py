"""Measures and probes: functions of episodes, the game and a seat."""

from collections.abc import Sequence
from typing import Any, Protocol

from arena_envs.game import (
    AnyGame,
)
from arena_eval.intervals import Estimate
from arena_wrappers import Episode

Episodes = Sequence[Episode]
Estimates = dict[str, Estimate]


class Measure(Protocol):
    """Estimates of one seat's play."""

    def __call__(self, episodes: Episodes, game: AnyGame, seat: int) -> Estimates:
        """The estimates by name; names begin with that of the measure."""


class Probe(Measure, Protocol):
    """A measure that also asks a question beside each turn, which changes nothing in the episode.

    Attributes:
        name: of its answers in `Turn.probes`.
    """

    name: str

    def question(
        self, game: AnyGame, state: Any, seat: int
    ) -> tuple[str, Sequence[str]] | None:
        """The question and its possible answers; None to ask nothing in this state.

        It tells nothing that the seat to move does not know.
        """
