"""Uniform numbers hashed from a seed and a step, by torch and by Python's integers."""

from typing import TypeVar

import torch


def uniform(seeds: torch.Tensor, step: int) -> torch.Tensor:
    """A uniform number in [0, 1) from the SplitMix64 stream of each (seed, step).

    Args:
        seeds: int64[B, 1].
        step: which token of the reply.

    Returns:
        float64[B, 1], multiples of 2⁻⁵³.
    """
    key = _mix(seeds + signed_int64((step + 1) * _GOLDEN))
    return _shift(_mix(key + signed_int64(_GOLDEN)), 11).double() * 2.0**-53


def uniform_number(seed: int, step: int) -> float:
    """`uniform` for one seed, by Python's integers, which cost less than a tensor.

    >>> uniform_number(7, 2) == uniform(torch.tensor([[7]]), 2).item()
    True
    """
    key = _mix(seed + (step + 1) * _GOLDEN)  # the low 64 bits are those of int64
    return _shift(_mix(key + _GOLDEN), 11) * 2.0**-53


def seed_after(seed: int, step: int) -> int:
    """The seed whose numbers are those of `seed` from a step on.

    >>> uniform_number(seed_after(7, 2), 1) == uniform_number(7, 3)
    True
    """
    return seed + step * _GOLDEN


_GOLDEN = 0x9E3779B97F4A7C15

_Int = TypeVar("_Int", int, torch.Tensor)


def signed_int64(number: int) -> int:
    """The int64 with the same 64 low bits; torch has no unsigned arithmetic."""
    return ((number + 2**63) % 2**64) - 2**63


def _shift(x: _Int, bits: int) -> _Int:
    return (x >> bits) & ((1 << (64 - bits)) - 1)  # logical, not arithmetic


def _mix(x: _Int) -> _Int:
    """Finaliser of SplitMix64 (Steele, Lea and Flood, 2014)."""
    x = (x ^ _shift(x, 30)) * signed_int64(0xBF58476D1CE4E5B9)
    x = (x ^ _shift(x, 27)) * signed_int64(0x94D049BB133111EB)
    return x ^ _shift(x, 31)
