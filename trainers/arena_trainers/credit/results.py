"""Checks of the advantages that an estimator returned."""

import warnings

import numpy as np

from arena_trainers.credit.batch import Floats, TurnBatch
from arena_trainers.credit.pools import PoolReport


class FlatPoolWarning(UserWarning):
    """All advantages of a pool are 0: its turns do not change the policy."""


def check_finite(name: str, advantage: Floats) -> None:
    """Raises ValueError for an advantage that is not finite."""
    bad = np.flatnonzero(~np.isfinite(advantage))
    if len(bad) > 0:
        raise ValueError(
            f"want finite advantages, got {advantage[bad[0]]} for row {bad[0]} from "
            f"estimator {name!r}"
        )


def check_selected(
    name: str, turns: TurnBatch, advantage: Floats, per_token: bool
) -> None:
    """Raises ValueError for an advantage other than 0 where `unselected` is false."""
    if turns.unselected is None:
        return
    row = np.arange(len(turns.reward))
    if per_token and turns.num_tokens is not None:
        row = np.repeat(row, turns.num_tokens)
    bad = np.flatnonzero(~turns.unselected[row] & (advantage != 0))
    if len(bad) > 0:
        raise ValueError(
            "want advantages of 0 for turns that were selected by their return, got "
            f"{advantage[bad[0]]} for row {row[bad[0]]} from estimator {name!r}"
        )


def warn_of_flat_pools(name: str, report: PoolReport) -> None:
    """Warns with `FlatPoolWarning` of pools whose advantages are all 0.

    Pools within pools are only looked at if no outer pool is flat. The text is the same for
    all batches, so that Python shows it once.
    """
    found = report
    if report.within is not None and not (report.zeros == 1).any():
        found = report.within
    if (found.zeros == 1).any():
        what = (
            "the advantages are" if found is report else "a part of the advantages is"
        )
        warnings.warn(
            f"estimator {name!r}: a pool by ({', '.join(found.names)}) holds a single "
            f"value or equal values, so {what} 0 there; `report` of the result lists the "
            "pools",
            FlatPoolWarning,
            stacklevel=3,
        )
