"""Uniform numbers hashed from a seed and a step, by numpy and by Python's integers."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Seeds = NDArray[np.uint64]


def seeds_of(seeds: Sequence[int]) -> Seeds:
    """uint64[B]: the low 64 bits of seeds."""
    return np.array([seed & _ALL for seed in seeds], np.uint64)


def uniform(seeds: Seeds, step: int) -> NDArray[np.float64]:
    """A uniform number in [0, 1) from the SplitMix64 stream of each (seed, step).

    Args:
        seeds: of any shape.
        step: which token of the reply.

    Returns:
        float64 of the same shape, multiples of 2⁻⁵³.
    """
    key = _mixed(seeds + np.uint64((step + 1) * _GOLDEN & _ALL))
    number = _mixed(key + np.uint64(_GOLDEN)) >> np.uint64(11)
    return number.astype(np.float64) * 2.0**-53


def uniform_number(seed: int, step: int) -> float:
    """`uniform` for one seed, by Python's integers, which cost less than an array.

    >>> uniform_number(7, 2) == uniform(seeds_of([7]), 2).item()
    True
    """
    key = _mix((seed + (step + 1) * _GOLDEN) & _ALL)
    return (_mix((key + _GOLDEN) & _ALL) >> 11) * 2.0**-53


def seed_after(seed: int, step: int) -> int:
    """The seed whose numbers are those of `seed` from a step on.

    >>> uniform_number(seed_after(7, 2), 1) == uniform_number(7, 3)
    True
    """
    return seed + step * _GOLDEN


_GOLDEN = 0x9E3779B97F4A7C15
_FACTORS = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_ALL = 2**64 - 1


def _mix(x: int) -> int:
    """Finaliser of SplitMix64 (Steele, Lea and Flood, 2014), modulo 2⁶⁴."""
    x = (x ^ (x >> 30)) * _FACTORS[0] & _ALL
    x = (x ^ (x >> 27)) * _FACTORS[1] & _ALL
    return x ^ (x >> 31)


def _mixed(x: Seeds) -> Seeds:
    """`_mix` of each number; numpy's integers wrap around."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(_FACTORS[0])
    x = (x ^ (x >> np.uint64(27))) * np.uint64(_FACTORS[1])
    return x ^ (x >> np.uint64(31))
