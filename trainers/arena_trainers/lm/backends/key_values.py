"""Keys and values of tokens: those of a store, one slot a token, and those of a batch."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

ROOM = 64  # tokens by which the cache of a batch grows at least


class LayerShape(NamedTuple):
    """Heads, and numbers of a head, of a layer's keys and of its values."""

    keys: tuple[int, int]
    values: tuple[int, int]


class KeyValueShape(NamedTuple):
    """What a model keeps of a token.

    Attributes:
        layers: of the model.
        dtype: of the numbers.
    """

    layers: tuple[LayerShape, ...]
    dtype: torch.dtype

    @property
    def num_bytes(self) -> int:
        """Of a token."""
        numbers = sum(heads * size for layer in self.layers for heads, size in layer)
        return numbers * self.dtype.itemsize


class BufferedLayer(DynamicLayer):
    """A layer's keys and values of a batch, in memory with room for more tokens.

    A `DynamicLayer` copies all of them for each new token.

    Args:
        keys: [B, capacity, H, D].
        values: likewise.
        length: tokens of each row, padding included.
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
        """As `DynamicLayer.get_seq_length`; it may be 0 with memory."""
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
    """The keys and values of tokens, in slots. Slot 0 is padding.

    Args:
        shape: of a token's keys and values.
        device: where they are.
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
        # zeros, as no number that is masked may be NaN
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
        """Free slots, of which there must be enough."""
        slots, self.free = self.free[:num], self.free[num:]
        return slots

    def batch(self, slots: NDArray[np.int64], room: int) -> BatchCache:
        """A copy of the tokens in slots.

        Args:
            slots: int64[B, L]; 0 for padding.
            room: tokens that will follow in each row.
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
        """Copies tokens of a batch into slots.

        Args:
            cache: of the batch.
            rows: int64[N], the row of each token.
            places: int64[N], its place in the row.
            slots: int64[N], where it goes.
        """
        row, place, slot = (
            torch.from_numpy(numbers).to(self.device)
            for numbers in (rows, places, slots)
        )
        for tensors, layer in zip(self._tensors, cache.layers, strict=True):
            for tensor, buffer in zip(tensors, layer.buffers, strict=True):
                tensor.index_copy_(0, slot, buffer[row, place])
