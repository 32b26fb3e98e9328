"""`KeptActivations`: which chunks of rows keep their activations until the backward pass of a loss."""

from collections.abc import Callable

import torch

from arena_trainers.lm.backends.memory import OF_FREE


class KeptActivations:
    """Decides which chunks run once; the others run again in the backward pass.

    Kept chunks with the one that runs may take half of the free memory. On a CPU, which other programs
    use too, the memory that is free at the moment decides. On a GPU the tokens that may be kept are
    decided once in a run, after its first loss:

        max_tokens = OF_FREE * (free memory before it - gradients and AdamW still to come) / bytes per token

    The bytes per token are those that torch's allocator counts after the forward pass of that loss; in
    that pass they are calculated.

    Args:
        bytes_per_token: of activations, calculated.
        free: bytes of memory that this process may still take, also from torch's cache.
        allocated: bytes of torch's tensors; None on a CPU.
        to_come: bytes of gradients and of AdamW's state before the first update.

    Attributes:
        max_tokens: that may be kept; None on a CPU, and before the first loss.
        is_measured: whether `max_tokens` is decided.
    """

    def __init__(
        self,
        bytes_per_token: float,
        free: Callable[[], float],
        allocated: Callable[[], float] | None = None,
        to_come: float = 0.0,
    ) -> None:
        self.bytes_per_token, self._free = bytes_per_token, free
        self._allocated, self._to_come = allocated, to_come
        self.max_tokens: int | None = None
        self.is_measured = False
        self._num_kept = 0
        self._room = self._before = 0.0

    def begin(self) -> None:
        """A loss begins."""
        self._num_kept = 0
        if self._allocated is None or self.is_measured:
            return
        self._before = self._allocated()
        self._room = OF_FREE * max(self._free() - self._to_come, 0)
        self.max_tokens = int(self._room / self.bytes_per_token)

    def fits(self, num_tokens: int, largest: int) -> bool:
        """Whether a chunk is kept; `largest`: tokens of the largest chunk of the loss."""
        if not torch.is_grad_enabled():
            return True
        if self.max_tokens is None:
            size = (num_tokens + largest) * self.bytes_per_token
            return size <= OF_FREE * self._free()
        is_kept = self._num_kept + num_tokens + largest <= self.max_tokens
        self._num_kept += num_tokens * is_kept
        return is_kept

    def end(self, last: int) -> bool:
        """The forward pass is over, with `last` tokens in its last chunk; whether this decided `max_tokens`."""
        if self._allocated is None or self.is_measured or not torch.is_grad_enabled():
            return False
        bytes_per_token = (self._allocated() - self._before) / max(
            self._num_kept + last, 1
        )
        self.bytes_per_token = max(bytes_per_token, 1.0)
        self.max_tokens = int(self._room / self.bytes_per_token)
        self.is_measured = True
        return True
