"""Replies token by token: equal rows share a forward pass, and rows that have ended leave it.

Lockstep play asks the same prompt many times: samples of one seed start alike, and a small
game has few prompts. Rows share a forward pass as long as they are equal, prompt and reply.
Each draws its own next token.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import DynamicCache, PreTrainedModel

from arena_trainers.lm.backends import Sampling
from arena_trainers.lm.backends.cached_steps import forward_with_cache
from arena_trainers.lm.backends.sampling import SeededSampler

KEEP = 0.75  # of the rows of a cache have to be open, else the others are cut out

Integers = NDArray[np.int64]


class StartedBatch(Protocol):
    """Distinct prompts after their forward pass; as `PrefilledBatch`."""

    @property
    def logits(self) -> torch.Tensor:
        """[R, V], of the next token."""
        ...

    @property
    def mask(self) -> torch.Tensor:
        """int64[R, L], 0 at padding."""
        ...

    @property
    def cache(self) -> DynamicCache | None:
        """Of the prompts; None where replies have one token."""
        ...


class EndedReply(NamedTuple):
    """A reply that has ended.

    Attributes:
        reply: its number.
        row: in the cache, which holds all its tokens but the last.
        tokens: of the reply.
    """

    reply: int
    row: int
    tokens: Integers


EndObserver = Callable[[Sequence[EndedReply]], None]


def generate_replies(
    model: PreTrainedModel,
    batch: StartedBatch,
    row_of: Integers,
    sampler: SeededSampler,
    sampling: Sampling,
    on_end: EndObserver | None = None,
) -> Integers:
    """The tokens of replies to prompts.

    Args:
        model: a causal language model.
        batch: the distinct prompts.
        row_of: int64[B], the prompt of each reply.
        sampler: draws the tokens of all replies.
        sampling: how long replies are, and what ends them.
        on_end: called before the rows of replies that have ended leave the cache.

    Returns:
        int64[B, T]; anything after a reply's end.
    """
    logits, mask, cache = batch.logits, batch.mask, batch.cache
    device = logits.device
    row_of = row_of.copy()
    is_open = np.ones(len(row_of), dtype=bool)
    ended: list[EndedReply] = []  # and still in the cache
    tokens = np.zeros((len(row_of), sampling.max_new_tokens), np.int64)
    for step in range(sampling.max_new_tokens):
        replies = np.flatnonzero(is_open)
        drawn = sampler.draw(logits, row_of[replies], replies).cpu().numpy()
        tokens[replies, step] = drawn
        ends = np.isin(drawn, sampling.end_ids)
        if step + 1 == sampling.max_new_tokens:
            ends[:] = True
        is_open[replies[ends]] = False
        ended += [
            EndedReply(int(reply), int(row_of[reply]), tokens[reply, : step + 1])
            for reply in replies[ends]
        ]
        if ends.all():
            break
        replies, drawn = replies[~ends], drawn[~ends]
        rows = len(logits)
        pairs = np.stack([row_of[replies], drawn])
        (parents, ids), place = np.unique(pairs, axis=1, return_inverse=True)
        if len(np.unique(parents)) == len(parents) >= KEEP * rows:
            row_ids = np.zeros(rows, np.int64)  # any token where a reply has ended
            row_ids[parents] = ids
        else:
            if on_end is not None:
                on_end(ended)
            ended = []
            index = torch.from_numpy(parents).to(device)
            cache.reorder_cache(index)  # type: ignore[union-attr, arg-type] # indices
            mask = mask[index]
            row_of[replies], row_ids = place, ids
        mask = torch.nn.functional.pad(mask, (0, 1), value=1)
        step_ids = torch.from_numpy(row_ids[:, None]).to(device)
        logits = forward_with_cache(model, step_ids, mask, cache).logits[:, -1]
    if on_end is not None:
        on_end(ended)
    return tokens[:, : step + 1]
