"""Conversion and checks of single columns of a turn batch."""

import reprlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

LARGEST = 1e100  # its square can still be summed in float64


def array_of(name: str, column: Any) -> NDArray[Any]:
    """The column as an array; raises ValueError if it is ragged."""
    try:
        return np.asarray(column)
    except ValueError:
        raise ValueError(
            f"want one number per row in {name}, got {reprlib.repr(column)}"
        ) from None


def floats(name: str, column: Any, num: int) -> NDArray[np.float64]:
    """float64[num], a copy."""
    array = _shaped(name, column, num)
    if array.dtype.kind not in "fiub":
        raise ValueError(f"want numbers in {name}, got {array.dtype}")
    return array.astype(np.float64)


def ints(name: str, column: Any, num: int) -> NDArray[np.int64]:
    """int64[num], a copy; raises ValueError for floats, whole ones too."""
    array = _shaped(name, column, num)
    if array.dtype.kind not in "iu" and num > 0:
        values = array.tolist()
        odd = [x for x in values if not isinstance(x, float) or not x.is_integer()]
        raise ValueError(f"want integers in {name}, got {(odd or values)[0]!r}")
    return array.astype(np.int64)


def bools(name: str, column: Any, num: int) -> NDArray[np.bool_]:
    """bool[num], a copy; 0 and 1 are accepted."""
    array = _shaped(name, column, num)
    odd = array[(array != 0) & (array != 1)].tolist()
    if odd:
        raise ValueError(f"want true or false in {name}, got {odd[0]!r}")
    return array.astype(np.bool_)


def parts(name: str, columns: Any, num: int) -> dict[str, NDArray[np.float64]]:
    """float64[num] each: a column of named columns."""
    if not isinstance(columns, Mapping):
        raise ValueError(
            f"want a mapping from names to columns in {name}, got "
            f"{reprlib.repr(columns)}"
        )
    return {
        part: floats(f"{name}[{part!r}]", column, num)
        for part, column in columns.items()
    }


def check_size(
    name: str, column: NDArray[np.float64], mask: NDArray[np.bool_] | None = None
) -> None:
    """Raises ValueError for a number that is not finite, or above `LARGEST`."""
    bad = ~(np.abs(column) <= LARGEST)
    if mask is not None:
        bad &= mask
    if bad.any():
        row = np.flatnonzero(bad)[0]
        wanted = (
            f"numbers up to {LARGEST:g}"
            if np.isfinite(column[row])
            else "finite numbers"
        )
        raise ValueError(f"want {wanted}, got {name}[{row}] = {column[row]}")


def check_at_least_0(name: str, column: NDArray[np.int64]) -> None:
    """Raises ValueError for a negative index or count."""
    if (column < 0).any():
        row = np.flatnonzero(column < 0)[0]
        raise ValueError(
            f"want {name} of at least 0, got {name}[{row}] = {column[row]}"
        )


def _shaped(name: str, column: Any, num: int) -> NDArray[Any]:
    array = array_of(name, column)
    if array.shape != (num,):
        raise ValueError(f"want {name} of shape ({num},), got {array.shape}")
    return array
