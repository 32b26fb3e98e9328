"""`PrefixStore`: computes each shared prefix once, within a batch and from round to round.

The keys and values of a token depend only on the tokens up to it. The prompts of a game begin with the
same rules, and a prompt with a transcript begins with the prompt and the reply of the turn before.
The keys and values of such prefixes stay in a pool while there is room, and only the tokens behind the
longest known prefix of a prompt need a forward pass. If a template rewrites earlier turns, the known
prefix is shorter.

A store is valid only for the weights that filled it.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel

from arena_trainers.lm.backends.cached_steps import (
    cached_steps_are_exact,
    forward_with_cache,
    key_value_shape,
)
from arena_trainers.lm.backends.forward_pass import evaluating, without_adapters
from arena_trainers.lm.backends.key_values import (
    BatchCache,
    KeyValuePool,
    KeyValueShape,
)
from arena_trainers.lm.backends.prefix_tree import (
    PrefixTree,
    Slots,
    Tokens,
    common_length,
)
from arena_trainers.lm.backends.tolerance import logprob_gap, tolerance

# fixed cost of a forward pass: its Python and small operations take as long as this many
# multiplications and additions, and reading the weights as long as WEIGHT_TOKENS tokens
PASS_PRODUCTS = 4 * 10**7

WEIGHT_TOKENS = {"cpu": 16, "cuda": 256}

# multiplications and additions; a smaller pass costs less than the search for known prefixes
LEAST_PRODUCTS = 2 * 10**8


class PrefilledBatch(NamedTuple):
    """Prompts after their forward pass.

    Attributes:
        logits: [R, num_tail, V], for the token after each of the last tokens.
        mask: int64[R, L], 0 at padding.
        cache: keys and values of the L positions of each row.
    """

    logits: torch.Tensor
    mask: torch.Tensor
    cache: BatchCache


_gaps: WeakKeyDictionary[PreTrainedModel, float] = WeakKeyDictionary()


@torch.no_grad()
def prefixes_are_exact(model: PreTrainedModel, shape: KeyValueShape) -> bool:
    """Whether computing prompts in parts gives the same logits; measured once per model."""
    inner = without_adapters(model)
    if inner not in _gaps:
        store = PrefixStore(
            shape, model.device, max_slots=64, max_tokens=64, pass_tokens=64, pad_id=0
        )
        texts = [np.array([2, 3, 4, 5, 2]), np.array([3, 4])]
        with evaluating(model):
            store.prefill(model, [texts[0][:2], texts[1][:1]])
            in_parts = store.prefill(model, texts).logits[:, -1]
            at_once = torch.cat(
                [
                    model(
                        input_ids=torch.from_numpy(ids[None]).to(model.device),
                        use_cache=False,
                    ).logits[:, -1]
                    for ids in texts
                ]
            )
        if not bool(at_once.isfinite().all()):
            return True  # diverged weights cannot test the cache
        in_parts, at_once = (
            logits.float().log_softmax(dim=-1) for logits in (in_parts, at_once)
        )
        _gaps[inner] = logprob_gap((in_parts - at_once).abs(), inner.dtype)
    return _gaps[inner] <= tolerance(inner.dtype)


def pays(model: PreTrainedModel, num_tokens: int) -> bool:
    """Whether texts of this many tokens are worth the search for known prefixes."""
    return 2 * _num_weights(model) * num_tokens >= LEAST_PRODUCTS


def tokens_of_pass(model: PreTrainedModel) -> int:
    """The fixed cost of a forward pass, in tokens."""
    weight_tokens = WEIGHT_TOKENS.get(model.device.type, WEIGHT_TOKENS["cuda"])
    return weight_tokens + PASS_PRODUCTS // max(2 * _num_weights(model), 1)


_sizes: WeakKeyDictionary[PreTrainedModel, int] = WeakKeyDictionary()


def _num_weights(model: PreTrainedModel) -> int:
    """Counted once for each model: it only weighs costs, and adapters are small."""
    if model not in _sizes:
        _sizes[model] = sum(weight.numel() for weight in model.parameters())
    return _sizes[model]


def divisible_shape(model: PreTrainedModel) -> KeyValueShape | None:
    """The shape of the model's keys and values; None if it cannot compute texts in parts."""
    shape = key_value_shape(model) if cached_steps_are_exact(model) else None
    return shape if shape and prefixes_are_exact(model, shape) else None


class CachedText(NamedTuple):
    """A text whose tokens are in the cache of a batch.

    Attributes:
        row: of the cache.
        tokens: of the text.
        end: the position after the last token in the row.
    """

    row: int
    tokens: Tokens
    end: int


class Segment(NamedTuple):
    """The unknown part of a text, which needs a forward pass.

    Attributes:
        tokens: the text up to the end of the part.
        slots: of the tokens before the part.
    """

    tokens: Tokens
    slots: Slots

    @property
    def length(self) -> int:
        """The number of tokens of the part."""
        return len(self.tokens) - len(self.slots)


class PrefixStore:
    """The keys and values of texts that a model has read with one set of weights.

    Args:
        shape: of a token's keys and values.
        device: of the model.
        max_slots: most tokens in the pool; a single batch may exceed it.
        max_tokens: most tokens of a forward pass; a single text may be longer.
        pass_tokens: least number of tokens that an additional forward pass must save.
        pad_id: id of padding tokens.
    """

    def __init__(
        self,
        shape: KeyValueShape,
        device: torch.device,
        *,
        max_slots: int,
        max_tokens: int,
        pass_tokens: int,
        pad_id: int,
    ) -> None:
        self.pool, self.tree = KeyValuePool(shape, device), PrefixTree()
        self.max_slots, self.max_tokens, self.pad_id = max_slots, max_tokens, pad_id
        self.pass_tokens = pass_tokens

    def prefill(
        self,
        model: PreTrainedModel,
        prompts: Sequence[Tokens],
        num_tail: int = 1,
        room: int = 0,
    ) -> PrefilledBatch:
        """The logits after prompts; stores their keys and values in the pool.

        Args:
            model: with the weights of the store.
            prompts: distinct.
            num_tail: number of last tokens of each prompt with logits; these are always computed.
            room: number of tokens that will follow in each row.
        """
        self.tree.begin_use()
        self._compute_shared(model, prompts, num_tail)
        segments = [self._open_part(ids, num_tail) for ids in prompts]
        lengths = [segment.length for segment in segments]
        *long_groups, width_group = padding_groups(lengths, self.pass_tokens)
        width = max(lengths[i] for i in width_group)
        long = [i for group in long_groups for i in group]
        self._compute(
            model,
            [
                segments[i]._replace(tokens=prompts[i][: len(prompts[i]) - width])
                for i in long
            ],
        )
        for i in long:
            segments[i] = self._open_part(prompts[i], width)
        return self._run(model, segments, num_tail, room)

    def add(self, cache: BatchCache, texts: Iterable[CachedText]) -> None:
        """Stores the keys and values of texts from the cache of a batch."""
        rows, places, slots = [], [], []
        for row, tokens, end in texts:
            _, known = self.tree.find(tokens)
            num_new = len(tokens) - len(known)
            if num_new > 0:
                new_slots = self._take(num_new)
                self.tree.add(tokens, len(known), new_slots)
                rows.append(np.full(num_new, row))
                places.append(np.arange(end - num_new, end))
                slots.append(new_slots)
        if rows:
            self.pool.write(
                cache,
                rows=np.concatenate(rows),
                places=np.concatenate(places),
                slots=np.concatenate(slots),
            )

    def _open_part(self, tokens: Tokens, num_open: int) -> Segment:
        """The segment behind the known prefix of a text, of at least `num_open` tokens."""
        _, slots = self.tree.find(tokens[: max(len(tokens) - num_open, 0)])
        return Segment(tokens, slots)

    def _compute_shared(
        self, model: PreTrainedModel, prompts: Sequence[Tokens], num_tail: int
    ) -> None:
        """Computes prefixes that several prompts share, if this saves enough tokens.

        A prefix that saves too little is computed with a longer one that fewer prompts share.
        """
        groups = self._by_known_beginning(prompts, num_tail)
        while groups:
            groups = [
                longer
                for group in groups
                for longer in _longer_beginnings(group, num_tail)
            ]
            segments = [
                self._open_part(texts[0][:length], 0) for texts, length in groups
            ]
            num_saved = sum(
                (len(texts) - 1) * segment.length
                for (texts, _), segment in zip(groups, segments, strict=True)
            )
            if num_saved >= self.pass_tokens:
                self._compute(model, segments)

    def _by_known_beginning(
        self, prompts: Sequence[Tokens], num_tail: int
    ) -> list["Alike"]:
        """Groups of prompts with the same known prefix."""
        groups: dict[int, Alike] = {}
        for ids in prompts:
            node, known = self.tree.find(ids[: max(len(ids) - num_tail, 0)])
            groups.setdefault(id(node), Alike([], len(known))).texts.append(ids)
        return list(groups.values())

    def _compute(self, model: PreTrainedModel, segments: Sequence[Segment]) -> None:
        """Runs forward passes of segments, in batches of similar length."""
        lengths = [segment.length for segment in segments]
        for group in padding_groups(lengths, self.pass_tokens):
            chunk: list[Segment] = []
            width = 0
            for i in group:
                width = max(width, len(segments[i].tokens))
                if chunk and (len(chunk) + 1) * width > self.max_tokens:
                    self._run(model, chunk, 1, 0)
                    chunk, width = [], len(segments[i].tokens)
                chunk.append(segments[i])
            if chunk:
                self._run(model, chunk, 1, 0)

    def _run(
        self,
        model: PreTrainedModel,
        segments: Sequence[Segment],
        num_logits: int,
        room: int,
    ) -> PrefilledBatch:
        """Runs one forward pass of segments, and stores their keys and values."""
        num_known = max(len(segment.slots) for segment in segments)
        width = max(segment.length for segment in segments)
        known = np.zeros((len(segments), num_known), np.int64)
        mask = np.zeros((len(segments), num_known + width), np.int64)
        ids = np.full((len(segments), width), self.pad_id)
        for row, (tokens, slots) in enumerate(segments):
            num_new = len(tokens) - len(slots)
            if len(slots):
                known[row, -len(slots) :] = slots
            mask[row, num_known - len(slots) : num_known] = 1
            mask[row, num_known + width - num_new :] = 1
            ids[row, width - num_new :] = tokens[len(slots) :]
        device = self.pool.device
        cache = self.pool.batch(known, width + room)
        mask_tensor = torch.from_numpy(mask).to(device)
        output = forward_with_cache(
            model, torch.from_numpy(ids).to(device), mask_tensor, cache, num_logits
        )
        end = num_known + width
        self.add(
            cache,
            (CachedText(row, part.tokens, end) for row, part in enumerate(segments)),
        )
        return PrefilledBatch(output.logits[:, -num_logits:], mask_tensor, cache)

    def _take(self, num: int) -> NDArray[np.int64]:
        """Free slots; evicts the least recently used tokens if there are too few."""
        missing = num - len(self.pool.free)
        if missing > 0 and self.pool.num_slots + missing <= self.max_slots:
            most = self.max_slots - self.pool.num_slots
            self.pool.grow(min(most, max(missing, self.pool.num_slots)))
        elif missing > 0:
            freed = [*self.tree.evict(missing)]
            self.pool.free = np.concatenate([self.pool.free, *freed])
            missing = num - len(self.pool.free)
            if missing > 0:
                self.pool.grow(missing)
        return self.pool.take(num)


class Alike(NamedTuple):
    """Texts whose first `length` tokens are equal."""

    texts: list[Tokens]
    length: int


def _longer_beginnings(group: Alike, num_tail: int) -> list[Alike]:
    """Subgroups with longer common prefixes, not counting the last `num_tail` tokens of a text."""
    by_next: dict[int, list[Tokens]] = {}
    for text in group.texts:
        if group.length < len(text) - num_tail:
            by_next.setdefault(int(text[group.length]), []).append(text)
    longer = []
    for texts in by_next.values():
        if len(texts) > 1:
            first, *others = texts
            length = min(map(len, texts)) - num_tail
            for text in others:
                length = common_length(first[:length], text)
            longer.append(Alike(texts, length))
    return longer


def padding_groups(lengths: Sequence[int], max_padding: int) -> list[list[int]]:
    """Rows in groups of similar length, the longest first.

    >>> padding_groups([1000, 10, 990, 12], max_padding=20)
    [[0, 2], [3, 1]]
    """
    groups: list[list[int]] = []
    longest = padding = 0
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        padding += longest - lengths[i]
        if not groups or padding > max_padding:
            groups.append([])
            longest, padding = lengths[i], 0
        groups[-1].append(i)
    return groups
