"""What an estimator has returned: numbers that cannot be are refused, zeros are told."""

import warnings

import numpy as np

from arena_trainers.credit.batch import Floats, TurnBatch
from arena_trainers.credit.pools import PoolReport


class FlatPoolWarning(UserWarning):
    """Turns of a pool teach nothing: their advantages are all 0."""


def check_finite(name: str, advantage: Floats) -> None:
    """ValueError for an advantage, of a turn or token, that is not finite."""
    bad = np.flatnonzero(~np.isfinite(advantage))
    if len(bad) > 0:
        raise ValueError(
            f"want finite advantages, got {advantage[bad[0]]} for row {bad[0]} from "
            f"estimator {name!r}"
        )


def check_unfair(
    name: str, turns: TurnBatch, advantage: Floats, per_token: bool
) -> None:
    """ValueError for an advantage other than 0 of a turn that was selected by its return."""
    if turns.unselected is None:
        return
    row = np.arange(len(turns.reward))
    if per_token and turns.num_tokens is not None:
        row = np.repeat(row, turns.num_tokens)
    bad = np.flatnonzero(~turns.unselected[row] & (advantage != 0))
    if len(bad) > 0:
        raise ValueError(
            f"want advantages of 0 for turns that were selected by their return, got {advantage[bad[0]]} "
            f"for row {row[bad[0]]} from estimator {name!r}"
        )


def warn_of_flat_pools(name: str, report: PoolReport) -> None:
    """Warns with `FlatPoolWarning` of pools whose advantages are all 0.

    One text for all batches, so that Python shows it once.

    Of pools within pools only where those around them are not flat.
    """
    found = report
    if report.within is not None and not (report.zeros == 1).any():
        found = report.within
    if (found.zeros == 1).any():
        what = (
            "all advantages are" if found is report else "a part of all advantages is"
        )
        warnings.warn(
            f"estimator {name!r}: {what} 0 in some pool by "
            f"({', '.join(found.names)}), which holds one value or equal ones; "
            "see the report",
            FlatPoolWarning,
            stacklevel=3,
        )
