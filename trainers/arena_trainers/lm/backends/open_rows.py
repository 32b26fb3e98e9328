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


class OpenRows(Protocol):
    """Distinct texts whose next tokens are drawn: prompts, then prompts with the tokens so far."""

    @property
    def logits(self) -> torch.Tensor:
        """[R, V], of the token after each row."""
        ...

    def extend(self, parents: Integers, ids: Integers) -> Integers:
        """Replaces the rows by rows that are one token longer.

        Args:
            parents: int64[P], rows, in increasing order; a row comes once for each of its tokens.
            ids: int64[P], the tokens.

        Returns:
            int64[P], the rows of the longer texts.
        """
        ...

    def end(self, replies: Integers, rows: Integers, tokens: Integers) -> None:
        """Notes replies that have ended.

        Args:
            replies: int64[E], their numbers.
            rows: int64[E], which hold all their tokens but the last.
            tokens: int64[E, T], of each reply.
        """
        ...

    def close(self) -> None:
        """Called once, when all replies have ended."""
        ...


def draw_replies(
    rows: OpenRows, row_of: Integers, sampler: SeededSampler, sampling: Sampling
) -> Integers:
    """The tokens of replies to prompts.

    Args:
        rows: the distinct prompts.
        row_of: int64[B], the prompt of each reply.
        sampler: draws the tokens of all replies.
        sampling: how long replies are, and what ends them.

    Returns:
        int64[B, T]; anything after a reply's end.
    """
    row_of = row_of.copy()
    end_ids = np.array(sampling.end_ids)
    is_open = np.ones(len(row_of), dtype=bool)
    tokens = np.zeros((len(row_of), sampling.max_new_tokens), np.int64)
    for step in range(sampling.max_new_tokens):
        replies, logits = is_open.nonzero()[0], rows.logits
        new_tokens = sampler.draw(logits, row_of[replies], replies).cpu().numpy()
        tokens[replies, step] = new_tokens
        ends = (new_tokens[:, None] == end_ids).any(axis=1)
        if step + 1 == sampling.max_new_tokens:
            ends[:] = True
        ended = replies[ends]
        is_open[ended] = False
        rows.end(ended, row_of[ended], tokens[ended, : step + 1])
        if len(ended) == len(replies):
            break
        replies, new_tokens = replies[~ends], new_tokens[~ends]
        pairs = row_of[replies] * logits.shape[1] + new_tokens  # as one number
        pairs, place = np.unique(pairs, return_inverse=True)
        row_of[replies] = rows.extend(*np.divmod(pairs, logits.shape[1]))[place]
    rows.close()
    return tokens[:, : step + 1]


class StartedBatch(Protocol):
    """Distinct prompts after their forward pass; as `PrefilledBatch`."""

    @property
    def logits(self) -> torch.Tensor:
        """[R, N, V], the last of which are of the next token."""
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


class CachedRows:
    """`OpenRows` whose keys and values are in a cache.

    Args:
        model: a causal language model.
        batch: the distinct prompts.
        on_end: called before the rows of replies that have ended leave the cache.

    Attributes:
        logits: [R, V], of the token after each row.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        batch: StartedBatch,
        on_end: EndObserver | None = None,
    ) -> None:
        self.model, self.on_end = model, on_end
        self.logits = batch.logits[:, -1]
        self.mask, self.cache = batch.mask, batch.cache
        self._ended: list[EndedReply] = []  # and still in the cache

    def extend(self, parents: Integers, ids: Integers) -> Integers:
        num_rows, device = len(self.logits), self.logits.device
        is_branching = bool((parents[1:] == parents[:-1]).any())
        if len(parents) >= KEEP * num_rows and not is_branching:
            rows = parents
            row_ids = np.zeros(num_rows, np.int64)  # any token where a reply has ended
            row_ids[parents] = ids
        else:
            self._report_ended()
            index = torch.from_numpy(parents).to(device)
            self.cache.reorder_cache(index)  # type: ignore[union-attr, arg-type] # indices
            self.mask = self.mask[index]
            rows, row_ids = np.arange(len(ids)), ids
        self.mask = torch.nn.functional.pad(self.mask, (0, 1), value=1)
        step_ids = torch.from_numpy(row_ids[:, None]).to(device)
        output = forward_with_cache(self.model, step_ids, self.mask, self.cache)
        self.logits = output.logits[:, -1]
        return rows

    def end(self, replies: Integers, rows: Integers, tokens: Integers) -> None:
        if self.on_end is not None:
            ended = zip(replies.tolist(), rows.tolist(), tokens, strict=True)
            self._ended += [EndedReply(*reply) for reply in ended]

    def close(self) -> None:
        self._report_ended()

    def _report_ended(self) -> None:
        if self.on_end is not None:
            self.on_end(self._ended)
        self._ended = []
