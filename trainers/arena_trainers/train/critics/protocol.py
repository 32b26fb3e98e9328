"""`Critic`: what supplies values of turns or tokens."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from arena_credit import TurnBatch
from arena_trainers.train.records import TurnRecord


class Critic(Protocol):
    """Source of values; every process has the same.

    A class declares as `supplies` the columns that it gives (default `value` and `next_value`), as
    `reads` those that its records must hold, such as `features` of the seat or `features.all` of all
    seats, as `limits` the least and the largest value of its options, and with `one_process = True`
    that several are refused. Each call of an agent's turn is a turn of the batch.
    """

    def with_values(self, batch: TurnBatch, records: Sequence[TurnRecord]) -> TurnBatch:
        """The batch with the columns that the critic supplies.

        Args:
            batch: the global batch.
            records: its turns, with what the critic reads, in the order of its rows.
        """
        ...

    def after(
        self, batch: TurnBatch, records: Sequence[TurnRecord], trains: bool
    ) -> dict[str, float]:
        """Ends a batch that has values, learns from it if it is trained; returns metrics."""
        ...

    def state_dict(self) -> dict[str, Any] | None:
        """Weights for a checkpoint; None if nothing is learned."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the result of `state_dict`."""
        ...
