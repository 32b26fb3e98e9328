"""Rows that begin alike are packed into one row, whose tokens are a tree; equal rows run once.

A packed row holds the tokens of all its rows up to their last ones, each common beginning once, in the order of a
walk from the root. A token attends to the tokens on its path from the root, and its position is its place in its own
row, so each reply has the log-probabilities of a separate row (within 1e-5 in float32: sums have another order):

    rows: prompt p q r, replies a b <e> and a c <e>;  prompt p q, reply s <e>
    tokens      p q r a b c s        positions  0 1 2 3 4 4 2
    scored after r: a;  after a: b, c;  after b, c, s: <e>;  after q: s

Attention between branches is masked in rows of fewer than 1,024 tokens; longer ones attend branch by branch. A row joins a
packed row where this costs less than its beginning would cost again. Models whose attention takes no such mask run each
row alone.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from arena_trainers.lm.backends.activations import layer_sizes
from arena_trainers.lm.backends.forward_pass import accepts_argument
from arena_trainers.lm.backends.prefix_tree import common_length

IGNORED = -100  # label of a position that is not scored, in transformers
WINDOWS = ("sliding_window", "attention_chunk_size", "window_size")
# tokens of a packed row of several shorter rows; its mask has their square
LONGEST = 4096

Integers = NDArray[np.int64]


class PackedRow(NamedTuple):
    """Rows that begin alike, as a tree of tokens.

    Attributes:
        rows: numbers of the rows in the batch.
        tokens: int64[L], of the tree; a token comes behind those that it follows.
        positions: int64[L], of the tokens in their rows.
        ends: int64[L], the place of the last token behind each; `tokens[i]` sees `tokens[j]` if j ≤ i ≤ ends[j].
        scored: int64[T], the places after which a token of a reply is scored, ascending.
        labels: int64[T], these tokens.
        cells: int64[R], for each token of the replies of all rows, its index in `labels`.
        sizes: tokens of each reply.
        learner: index of the adapter that scores it, where there are several.
    """

    rows: list[int]
    tokens: Integers
    positions: Integers
    ends: Integers
    scored: Integers
    labels: Integers
    cells: Integers
    sizes: list[int]
    learner: int = 0

    @property
    def head(self) -> int:
        """Tokens before the first place that is scored."""
        return int(self.scored[0])

    @property
    def tail(self) -> int:
        """All other tokens."""
        return len(self.tokens) - self.head

    @property
    def is_branching(self) -> bool:
        """Whether a token does not see all tokens before it."""
        return bool((self.ends < len(self.ends) - 1).any())


def may_share_prompts(model: Any) -> bool:
    """Whether a causal language model may take packed rows; `MismatchCheck` proves that it does.

    It needs an attention that accepts such a mask, and positions. Attention to all earlier
    tokens is asked for, because a window does not show in rows that are shorter.
    """
    config = model.config.get_text_config()
    kinds = getattr(config, "layer_types", None) or ["full_attention"]
    return (
        model.config._attn_implementation == "sdpa"
        and accepts_argument(model, "position_ids")
        and set(kinds) == {"full_attention"}
        and all(getattr(config, name, None) is None for name in WINDOWS)
    )


def pairs_per_token(model: Any) -> float:
    """Pairs of tokens whose attention takes as many multiplications as one token takes elsewhere."""
    sizes = layer_sizes(model.config.get_text_config())
    projections = 2 * (sizes.query_width + sizes.key_width) + 3 * sizes.inner
    return sizes.hidden * projections / (2 * sizes.query_width)


def packed_rows(
    input_ids: torch.Tensor,
    attention_mask: torch.Tensor,
    width: int,
    max_tokens: int,
    pairs: float | None,
) -> list[PackedRow]:
    """Packs rows with a common beginning.

    Attention between branches is computed and masked. So a row is packed with others where this takes less than
    to compute the common beginning again.

    Args:
        input_ids: int64[B, W]; the last `width` columns are replies.
        attention_mask: int64[B, W]; prompts have their padding on the left, replies on the
            right.
        width: columns of replies.
        max_tokens: most tokens of a packed row of several rows.
        pairs: as `pairs_per_token`; None packs each row alone.

    Returns:
        Packed rows, in the order of their first rows; each row of the batch is in one of them.
    """
    start = input_ids.shape[1] - width
    prompts = attention_mask[:, :start].sum(dim=1).clamp(min=1).tolist()
    replies = attention_mask[:, start:].sum(dim=1).clamp(min=1).tolist()
    ids = input_ids.cpu().numpy()
    texts = [ids[i, start - n : start + replies[i]] for i, n in enumerate(prompts)]
    order = list(range(len(texts)))
    if pairs is not None:  # in the order of a walk through the tree of all rows
        order.sort(key=lambda i: texts[i][:-1].astype(">i8").tobytes())
    trees: list[_Tree] = []
    for i in order:
        if (
            pairs is None
            or not trees
            or not trees[-1].takes(texts[i], max_tokens, pairs)
        ):
            trees.append(_Tree())
        trees[-1].add(i, texts[i], prompts[i])
    return sorted((tree.packed() for tree in trees), key=lambda row: min(row.rows))


class _Tree:
    """A packed row to which rows are added in the order of a walk."""

    def __init__(self) -> None:
        self.size = 0
        # of the last row, and its places
        self.last_text = self.path = np.zeros(0, np.int64)
        self.rows: list[int] = []
        self.sizes: list[int] = []
        self.parts: list[tuple[Integers, Integers]] = []  # tokens and positions
        # places, and the last one behind them
        self.closed: list[tuple[Integers, int]] = []
        self.scored: list[Integers] = []
        self.labels: list[Integers] = []

    def takes(self, text: Integers, max_tokens: int, pairs: float) -> bool:
        """Whether a row should be packed here: it begins like the last one, and this saves time."""
        shared = common_length(text[:-1], self.last_text)
        num_new = len(text) - 1 - shared
        fits = self.size + num_new <= min(max_tokens, max(LONGEST, 2 * len(text)))
        masked_pairs = 2 * num_new * self.size
        return fits and masked_pairs < shared * (pairs + shared + 2 * num_new)

    def add(self, row: int, text: Integers, num_prompt: int) -> None:
        shared = common_length(text[:-1], self.last_text)
        if shared < len(self.path):
            self.closed.append((self.path[shared:], self.size - 1))
        num_new = len(text) - 1 - shared
        new = np.arange(self.size, self.size + num_new)
        self.parts.append((text[shared:-1], np.arange(shared, len(text) - 1)))
        self.path = np.concatenate([self.path[:shared], new])
        self.last_text = text[:-1]
        self.size += num_new
        self.rows.append(row)
        self.sizes.append(len(text) - num_prompt)
        self.scored.append(self.path[num_prompt - 1 :])
        self.labels.append(text[num_prompt:])

    def packed(self) -> PackedRow:
        tokens, positions = zip(*self.parts, strict=True)
        ends = np.full(self.size, self.size - 1)
        for places, end in self.closed:
            ends[places] = end
        # as one number; rows that begin alike share the scores of their beginning
        keys = (np.concatenate(self.scored) << 32) + np.concatenate(self.labels)
        keys, cells = np.unique(keys, return_inverse=True)
        return PackedRow(
            rows=self.rows,
            tokens=np.concatenate(tokens),
            positions=np.concatenate(positions),
            ends=ends,
            scored=keys >> 32,
            labels=keys & (2**32 - 1),
            cells=cells,
            sizes=self.sizes,
        )


class PackedInputs(NamedTuple):
    """A forward pass over packed rows.

    Attributes:
        arguments: `input_ids` int64[N, L], in which the first scored places of all rows are in the same column;
            `shift_labels` int64[N, T]; `attention_mask`; and `position_ids`.
        tail: columns from the first scored one on.
        scored: int64[N, T], the columns among these of the labels; None if they are the first T.
    """

    arguments: dict[str, Any]
    tail: int
    scored: torch.Tensor | None


def model_inputs(
    packed: Sequence[PackedRow],
    device: torch.device | str = "cpu",
    *,
    with_mask: bool = True,
) -> PackedInputs:
    """The forward pass over packed rows, on the device; without `attention_mask` if it is not wanted."""
    head, tail = max(row.head for row in packed), max(row.tail for row in packed)
    width = head + tail
    sizes = np.array([len(row.tokens) for row in packed])
    shifts = np.array([head - row.head for row in packed])
    starts = np.arange(len(packed)) * width + shifts
    cells = torch.from_numpy(np.repeat(starts, sizes) + places_within(sizes))

    def columns(values: Sequence[Integers], fill: int) -> torch.Tensor:
        column = torch.full((len(packed) * width,), fill)
        column[cells] = torch.from_numpy(np.concatenate(values))
        return column.view(len(packed), width).to(device)

    is_tree = any(len(row.rows) > 1 for row in packed)
    num_labels = max(len(row.labels) for row in packed) if is_tree else tail
    label_cells = _label_cells(packed, num_labels)

    def of_labels(values: Sequence[Integers], fill: int) -> torch.Tensor:
        column = torch.full((len(packed) * num_labels,), fill)
        column[label_cells] = torch.from_numpy(np.concatenate(values))
        return column.view(len(packed), num_labels).to(device)

    arguments = {
        "input_ids": columns([row.tokens for row in packed], 0),
        "shift_labels": of_labels([row.labels for row in packed], IGNORED),
        "position_ids": columns([row.positions for row in packed], 0),
    }
    if with_mask and any(row.is_branching for row in packed):
        shifted = [row.ends + shift for row, shift in zip(packed, shifts, strict=True)]
        arguments["attention_mask"] = _tree_mask(columns(shifted, -1))
    elif with_mask:
        ones = [np.ones(size, np.int64) for size in sizes]
        arguments["attention_mask"] = columns(ones, 0)
    scored = [row.scored - row.head for row in packed]
    return PackedInputs(arguments, tail, of_labels(scored, 0) if is_tree else None)


def places_within(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """0, 1, 2, ... for each of the lengths, joined."""
    ends = np.cumsum(lengths)
    return np.arange(lengths.sum()) - np.repeat(ends - lengths, lengths)


def _label_cells(packed: Sequence[PackedRow], num_labels: int) -> torch.Tensor:
    """int64[M]: where the labels of all packed rows are in [N, T], row by row."""
    sizes = np.array([len(row.labels) for row in packed])
    starts = np.arange(len(packed)) * num_labels
    return torch.from_numpy(np.repeat(starts, sizes) + places_within(sizes))


def _tree_mask(ends: torch.Tensor) -> torch.Tensor:
    """bool[N, 1, L, L]: whether a position (row) attends to another (column).

    Args:
        ends: int64[N, L], the last column behind each; -1 at padding.
    """
    columns = torch.arange(ends.shape[1], device=ends.device, dtype=torch.int32)
    sees = ends.int()[:, None] >= columns[:, None]  # [N, L, L]
    sees.tril_()
    # Padding attends to itself, because a softmax over no position is NaN.
    sees.diagonal(dim1=1, dim2=2).fill_(True)
    return sees[:, None]


def joined_replies(
    scores: Sequence[torch.Tensor], chunks: Sequence[Sequence[PackedRow]], width: int
) -> torch.Tensor:
    """[B, width]: the scores of the replies of all rows of a batch; 0 behind their ends.

    One `cat` and one selection: a tensor of its own for each reply would make the backward pass
    quadratic, as the gradient of a slice is as large as the whole.

    Args:
        scores: [N, T] of each chunk, such as log-probabilities.
        chunks: the packed rows of each; together they hold all rows of the batch.
        width: columns of replies.
    """
    num_rows = sum(len(row.rows) for chunk in chunks for row in chunk)
    num_scores = sum(of_chunk.numel() for of_chunk in scores)
    source = np.full(num_rows * width, num_scores)  # a 0 behind all scores
    start = 0
    for of_chunk, chunk in zip(scores, chunks, strict=True):
        rows = np.array([i for row in chunk for i in row.rows])
        sizes = np.array([size for row in chunk for size in row.sizes])
        starts = start + np.arange(len(chunk)) * of_chunk.shape[1]
        cells = np.concatenate([row.cells for row in chunk])
        cells = cells + np.repeat(starts, [len(row.cells) for row in chunk])
        source[np.repeat(rows * width, sizes) + places_within(sizes)] = cells
        start += of_chunk.numel()
    flat = [of_chunk.flatten() for of_chunk in scores]
    values = torch.cat([*flat, flat[0].new_zeros(1)])
    replies = values.index_select(0, torch.from_numpy(source).to(values.device))
    return replies.view(num_rows, width)


def distinct_rows(
    input_ids: torch.Tensor,
    attention_mask: torch.Tensor,
    live: torch.Tensor,
    learners: torch.Tensor | None = None,
) -> tuple[list[int], torch.Tensor]:
    """The live rows without their repetitions.

    Args:
        input_ids: int64[B, W].
        attention_mask: int64[B, W]; 0 where the row has padding, whatever its id.
        live: bool[B], the rows that are needed.
        learners: int64[B], of the rows; rows of two learners differ.

    Returns:
        The first row of each kind, and int64[B], the kind of each row: an index of the
        first list, or -1 if no live row is equal.
    """
    kinds: dict[bytes, int] = {}
    firsts: list[int] = []
    keys = input_ids.masked_fill(attention_mask == 0, -1)
    if learners is not None:
        keys = torch.cat([keys, learners[:, None]], dim=1)
    texts = [row.tobytes() for row in keys.cpu().numpy()]
    for i in live.nonzero().flatten().tolist():
        if texts[i] not in kinds:
            kinds[texts[i]] = len(firsts)
            firsts.append(i)
    kind = [kinds.get(text, -1) for text in texts]
    return firsts, torch.tensor(kind, device=input_ids.device)
