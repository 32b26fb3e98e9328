"""Lists of different lengths as arrays, with a mask."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray


def distinct_lists(
    lists: Sequence[Sequence[int]],
) -> tuple[list[tuple[int, ...]], NDArray[np.int64]]:
    """The distinct lists, and int64[B], which of them each list is.

    >>> distinct_lists([[7, 8], [5], [7, 8]])
    ([(7, 8), (5,)], array([0, 1, 0]))
    """
    places: dict[tuple[int, ...], int] = {}
    numbers = [places.setdefault(tuple(entries), len(places)) for entries in lists]
    return [*places], np.array(numbers)


def left_padded(
    rows: Sequence[Sequence[int]], pad_id: int, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and their mask, int64[B, T]; all rows end at the right edge."""
    mask = entry_mask(rows)[:, ::-1]
    # by way of numpy, which reads lists six times as fast as torch does
    ids = torch.from_numpy(padded_array(rows, mask, pad_id))
    return ids.to(device), torch.from_numpy(mask.astype(np.int64)).to(device)


def entry_mask(
    lists: Sequence[Sequence[float | None]], unit: int = 1
) -> NDArray[np.bool_]:
    """bool[B, W]: whether a list has an entry; W is a multiple of the unit."""
    sizes = np.array([len(entries) for entries in lists])
    return np.arange(-(-sizes.max() // unit) * unit) < sizes[:, None]


def padded_array(
    lists: Sequence[Sequence[float | None]], mask: NDArray[np.bool_], fill: float
) -> NDArray[Any]:
    """[B, W] with the entries of lists where the mask is true; NaN for None."""
    array = np.full(mask.shape, fill, np.array(fill).dtype)
    array[mask] = np.array([*chain.from_iterable(lists)], array.dtype)
    return array
