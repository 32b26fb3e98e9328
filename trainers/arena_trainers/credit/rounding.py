"""The defence against rounding: differences that may be rounding alone count as 0."""

import numpy as np

from arena_trainers.credit.batch import Floats

ROUNDED = 1e-6  # of the size of the numbers; float32 rounds by at most 6e-8 of it
ZERO = 1e-9  # an advantage of at most this size is counted as 0 in reports and metrics


def beyond_rounding(spread: Floats, size: Floats | float = 1.0) -> Floats:
    """Spreads of pools, and 0 where rounding alone may have made them.

        spread if spread > 1e-6 · size, else 0

    Why: rewards may come as float32, each off by up to 6e-8 of its size. A return is a sum
    of rewards. Large rewards may cancel, but their rounding stays. So equal returns can come
    out unequal. A z-score divides by the spread, and would turn this rounding into
    advantages of ±1. A pool of spread 0 is flat: its z-scores are 0.

    The threshold has to be relative to the size of the summed numbers, not of their sum:
    `sizes_to_go` gives it. A division also needs a spread above 1e-6 in the reward's unit
    (`size` 1, as `unit_scale` has it): the usual `eps` of z-scores is as large.

    Args:
        spread: float64[P], such as a standard deviation, in the unit of the values.
        size: float64[P], root mean square of the numbers that the values of the pool were
            summed from, in the same unit.

    Returns:
        float64[P].

    >>> beyond_rounding(np.array([0.5, 0.5]), np.array([1.0, 1e6]))
    array([0.5, 0. ])
    """
    return np.where(spread > ROUNDED * size, spread, 0.0)
