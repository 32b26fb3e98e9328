"""Which chunks of a loss run once: on a GPU decided once, whatever torch's allocator holds for later."""

import torch

from arena_trainers.lm.backends.memory import free_memory
from arena_trainers.train.score.kept import KeptActivations

MIB = 2**20


class Gpu:
    """Memory of 1,000 MiB under an allocator that gives nothing back, as torch's."""

    def __init__(self):
        self.allocated = self.reserved = 0

    def take(self, size):
        self.allocated += size
        self.reserved = max(self.reserved, self.allocated)

    def free(self):
        outside = 1000 * MIB - self.reserved
        return outside + self.reserved - self.allocated


def loss(kept, gpu, sizes, bytes_per_token):
    """Which chunks of a loss with these tokens are kept."""
    kept.begin()
    before, found = gpu.allocated, []
    for size in sizes[:-1]:
        found.append(kept.fits(size, max(sizes)))
        gpu.take(size * bytes_per_token * found[-1])
    gpu.take(sizes[-1] * bytes_per_token)
    kept.end(sizes[-1])
    gpu.take(before - gpu.allocated)  # the backward pass
    return found


def test_a_gpu_keeps_as_many_chunks_in_every_step():
    gpu = Gpu()
    kept = KeptActivations(2 * MIB, gpu.free, lambda: gpu.allocated, to_come=200 * MIB)
    # 400 MiB of 800 are 200 calculated tokens: one chunk beside the largest
    assert loss(kept, gpu, [90, 90, 90, 90], MIB) == [True, False, False]
    gpu.take(200 * MIB)  # gradients and AdamW
    # 400 tokens of the measured size: three chunks beside the largest
    for _ in range(3):
        assert loss(kept, gpu, [90, 90, 90, 90], MIB) == [True, True, True]
        assert loss(kept, gpu, [150, 150, 150], MIB) == [True, False]
    assert (kept.bytes_per_token, kept.max_tokens) == (MIB, 400)


def test_a_cpu_asks_for_the_memory_that_is_free_at_the_moment():
    free = [100.0]
    kept = KeptActivations(1, lambda: free[0])
    kept.begin()
    assert kept.fits(20, 30)
    free[0] = 99.0
    assert not kept.fits(20, 30)
    with torch.no_grad():
        assert kept.fits(10**9, 1)


def test_free_memory_of_a_gpu_counts_what_the_allocator_holds(monkeypatch):
    numbers = {"mem_get_info": (10, 100), "memory_reserved": 60, "memory_allocated": 25}
    for name, number in numbers.items():
        monkeypatch.setattr(torch.cuda, name, lambda device, number=number: number)
    assert free_memory(torch.device("cuda")) == 10 + 60 - 25
