"""Keys and values of tokens: a pool with one slot per token, and the cache of a batch."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

ROOM = 64  # least number of tokens by which a cache grows


class LayerShape(NamedTuple):
    """Number of heads and size of a head, for the keys and the values of a layer."""

    keys: tuple[int, int]
    values: tuple[int, int]


class KeyValueShape(NamedTuple):
    """The shape of a model's keys and values of one token.

    Attributes:
        layers: of the model.
        dtype: of the numbers.
    """

    layers: tuple[LayerShape, ...]
    dtype: torch.dtype

    @property
    def num_bytes(self) -> int:
        """Bytes per token."""
        numbers = sum(heads * size for layer in self.layers for heads, size in layer)
        return numbers * self.dtype.itemsize


class BufferedLayer(DynamicLayer):
    """The keys and values of a batch in one layer, with preallocated room for more tokens.

    A `DynamicLayer` copies all keys and values for each new token.

    Args:
        keys: [B, capacity, H, D].
        values: likewise.
        length: number of tokens in each row, including padding.
    """

    def __init__(self, keys: torch.Tensor, values: torch.Tensor, length: int) -> None:
        super().__init__()
        self.buffers = [keys, values]
        self.dtype, self.device = keys.dtype, keys.device
        self.is_initialized = True
        self._show(length)

    def _show(self, length: int) -> None:
        self.keys, self.values = (
            buffer[:, :length].transpose(1, 2) for buffer in self.buffers
        )

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """As `DynamicLayer.update`."""
        if key_states.dtype != self.dtype:  # as under autocast
            self.dtype = key_states.dtype
            self.buffers = [buffer.to(self.dtype) for buffer in self.buffers]
        start = self.get_seq_length()
        stop = start + key_states.shape[-2]
        if stop > self.buffers[0].shape[1]:
            room = max(ROOM, stop // 4)
            self.buffers = [
                torch.nn.functional.pad(
                    buffer[:, :start], (0, 0, 0, 0, 0, stop - start + room)
                )
                for buffer in self.buffers
            ]
        for buffer, states in zip(
            self.buffers, (key_states, value_states), strict=True
        ):
            buffer[:, start:stop] = states.transpose(1, 2)
        self._show(stop)
        return self.keys, self.values  # type: ignore[return-value] # not None

    def get_seq_length(self) -> int:
        """As `DynamicLayer.get_seq_length`; may be 0 with preallocated memory."""
        return int(self.keys.shape[-2])  # type: ignore[union-attr] # not None

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        """The rows of these indices, in their order."""
        length = self.get_seq_length()
        self.buffers = [buffer.index_select(0, beam_idx) for buffer in self.buffers]
        self._show(length)


class BatchCache(DynamicCache):
    """The keys and values of a batch, one `BufferedLayer` for each layer of a model."""

    layers: list[BufferedLayer]  # type: ignore[assignment] # each of this class

    def __init__(self, layers: Sequence[BufferedLayer]) -> None:
        super().__init__()
        self.layers = list(layers)


class KeyValuePool:
    """Keys and values of tokens, one slot per token. Slot 0 is padding.

    Args:
        shape: of a token's keys and values.
        device: of the keys and values.
    """

    def __init__(self, shape: KeyValueShape, device: torch.device) -> None:
        self.shape, self.device = shape, device
        self.free: NDArray[np.int64] = np.zeros(0, np.int64)
        self.num_slots = 0
        self._tensors = [
            [self._empty(0, size) for size in layer] for layer in shape.layers
        ]
        self.grow(ROOM)
        self.free = self.free[self.free > 0]

    def _empty(self, num: int, size: tuple[int, int]) -> torch.Tensor:
        # zeros, since a masked NaN would still spread
        return torch.zeros((num, *size), dtype=self.shape.dtype, device=self.device)

    def grow(self, num: int) -> None:
        """Adds slots."""
        new = np.arange(self.num_slots, self.num_slots + num)
        self.free = np.concatenate([self.free, new])
        self.num_slots += num
        for layer, sizes in zip(self._tensors, self.shape.layers, strict=True):
            for i, size in enumerate(sizes):
                layer[i] = torch.cat([layer[i], self._empty(num, size)])

    def take(self, num: int) -> NDArray[np.int64]:
        """Takes free slots; there must be enough."""
        slots, self.free = self.free[:num], self.free[num:]
        return slots

    def batch(self, slots: NDArray[np.int64], room: int) -> BatchCache:
        """A cache with copies of the keys and values in slots.

        Args:
            slots: int64[B, L]; 0 for padding.
            room: number of tokens that will follow in each row.
        """
        num_rows, length = slots.shape
        padded = np.pad(slots, ((0, 0), (0, room)))
        index = torch.from_numpy(padded.reshape(-1)).to(self.device)
        layers = []
        for layer in self._tensors:
            keys, values = (
                tensor.index_select(0, index).unflatten(0, (num_rows, length + room))
                for tensor in layer
            )
            layers.append(BufferedLayer(keys, values, length))
        return BatchCache(layers)

    def write(
        self,
        cache: BatchCache,
        rows: NDArray[np.int64],
        places: NDArray[np.int64],
        slots: NDArray[np.int64],
    ) -> None:
        """Copies keys and values of a batch into slots.

        Args:
            cache: of the batch.
            rows: int64[N], the row of each token.
            places: int64[N], the position of each token in its row.
            slots: int64[N], the destination of each token.
        """
        row, place, slot = (
            torch.from_numpy(numbers).to(self.device)
            for numbers in (rows, places, slots)
        )
        for tensors, layer in zip(self._tensors, cache.layers, strict=True):
            for tensor, buffer in zip(tensors, layer.buffers, strict=True):
                tensor.index_copy_(0, slot, buffer[row, place].to(tensor.dtype))
