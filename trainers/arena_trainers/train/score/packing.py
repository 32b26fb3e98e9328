"""Rows that share a prompt are packed into one, and equal rows run once.

A packed row holds a prompt without its last token, followed by one branch per reply: the last token of
the reply's prompt, and the reply without its last token. See docs/trainer.md.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from arena_trainers.lm.backends.forward_pass import accepts_argument

IGNORED = -100  # label of a position that is not scored, in transformers
WINDOWS = ("sliding_window", "attention_chunk_size", "window_size")


class PackedRow(NamedTuple):
    """A prompt and replies to it.

    Attributes:
        rows: the row of the batch of each reply.
        prompt: int64[P - 1], the longest prompt without its last token.
        branches: int64[1 + R] for each reply: the last token of its prompt, then the reply.
        depths: positions of `prompt` that each branch follows.
        learner: index of the adapter that scores it, where there are several.
    """

    rows: list[int]
    prompt: torch.Tensor
    branches: list[torch.Tensor]
    depths: list[int]
    learner: int = 0

    @property
    def tail(self) -> int:
        """Positions behind the prompt."""
        return sum(len(branch) - 1 for branch in self.branches)


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


def packed_rows(
    input_ids: torch.Tensor,
    attention_mask: torch.Tensor,
    width: int,
    max_tokens: int,
    share: bool,
) -> list[PackedRow]:
    """Packs rows whose prompts are the beginning of one of them.

    The replies of a packed row together have at most as many tokens as its prompt. This
    bounds the attention between branches, which is computed and masked.

    Args:
        input_ids: int64[B, W]; the last `width` columns are replies.
        attention_mask: int64[B, W]; prompts have their padding on the left, replies on the
            right.
        width: columns of replies.
        max_tokens: most tokens of a packed row of several replies.
        share: whether replies may share a prompt; else each packed row has one reply.

    Returns:
        Packed rows, in the order of their first rows; each row of the batch is in one of them.
    """
    start = input_ids.shape[1] - width
    lengths = attention_mask[:, :start].sum(dim=1).clamp(min=1).tolist()
    replies = attention_mask[:, start:].sum(dim=1).clamp(min=1).tolist()
    ids = input_ids.cpu()
    prompts = [ids[i, start - length : start - 1] for i, length in enumerate(lengths)]
    keys = [prompt.numpy().tobytes() for prompt in prompts] if share else []
    shorter = _longest_beginnings(keys)
    packed: list[PackedRow] = []
    open_row: dict[bytes, PackedRow] = {}
    order = list(range(len(ids)))
    if share:  # the longest first, as shorter ones are beginnings of it
        order.sort(key=lambda i: -lengths[i])
    for i in order:
        prompt, key = prompts[i], keys[i] if share else None
        row = None if key is None else open_row.get(key)
        room = min(len(row.prompt), max_tokens - len(row.prompt)) if row else 0
        if row is None or row.tail + replies[i] > room:
            row = PackedRow([], prompt, [], [])
            packed.append(row)
            while key is not None:
                open_row[key] = row
                key = shorter[key]
        row.rows.append(i)
        row.branches.append(ids[i, start - 1 : start + replies[i]])
        row.depths.append(len(prompt))
    return sorted(packed, key=lambda row: min(row.rows))


def _longest_beginnings(texts: Sequence[bytes]) -> dict[bytes, bytes | None]:
    """For each text the longest other one that begins it; None if there is none."""
    beginnings: dict[bytes, bytes | None] = {}
    path: list[bytes] = []  # beginnings of the next text; sorted, it follows them
    for text in sorted(set(texts)):
        while path and not text.startswith(path[-1]):
            path.pop()
        beginnings[text] = path[-1] if path else None
        path.append(text)
    return beginnings


def model_inputs(
    packed: Sequence[PackedRow],
    device: torch.device | str = "cpu",
    *,
    with_mask: bool = True,
) -> dict[str, Any]:
    """The arguments of a forward pass over packed rows, on the device.

    Args:
        packed: the rows.
        device: of the tensors.
        with_mask: whether the layers attend by a mask.

    Returns:
        `input_ids` int64[N, L], with prompts on the left of a common column and branches on
        its right; `shift_labels` int64[N, T], the next tokens of the last T positions;
        `attention_mask`, if it is wanted; and `position_ids`, which begin behind the padding.
    """
    head = max(len(row.prompt) for row in packed)
    tail = max(row.tail for row in packed)
    width = head + tail
    spans: list[tuple[int, int, int, int, int]] = []
    texts: list[torch.Tensor] = []
    for n, row in enumerate(packed):
        start = n * width + head
        length = len(row.prompt)
        spans.append((start - length, length, 0, 0, head))
        texts.append(row.prompt)
        parts = zip(row.branches, row.depths, strict=True)
        for number, (branch, depth) in enumerate(parts, 1):
            spans.append((start, len(branch) - 1, number, depth, depth))
            texts.append(branch[:-1])
            start += len(branch) - 1
    starts, lengths, numbers, firsts, depths = np.array(spans).T
    cells = np.repeat(starts, lengths) + places_within(lengths)

    def columns(values: NDArray[np.int64] | torch.Tensor, fill: int) -> torch.Tensor:
        column = torch.full((len(packed) * width,), fill)
        column[torch.from_numpy(cells)] = torch.as_tensor(values)
        return column.view(len(packed), width).to(device)

    labels = torch.full((len(packed) * tail,), IGNORED)
    labels[_label_cells(packed, tail)] = torch.cat(
        [branch[1:] for row in packed for branch in row.branches]
    )
    part = columns(np.repeat(numbers, lengths), -1)  # 0 the prompt, k the branch k
    position_ids = columns(np.repeat(firsts, lengths) + places_within(lengths), 0)
    inputs = {
        "input_ids": columns(torch.cat(texts), 0),
        "shift_labels": labels.view(len(packed), tail).to(device),
        "position_ids": position_ids,
    }
    if not with_mask:
        return inputs
    if any(len(row.branches) > 1 for row in packed):
        # how many positions of the prompt each one sees
        visible = columns(np.repeat(depths, lengths), head)
        return inputs | {"attention_mask": _attention_mask(part, position_ids, visible)}
    return inputs | {"attention_mask": (part >= 0).long()}


def places_within(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """0, 1, 2, ... for each of the lengths, joined."""
    ends = np.cumsum(lengths)
    return np.arange(lengths.sum()) - np.repeat(ends - lengths, lengths)


def _label_cells(packed: Sequence[PackedRow], tail: int) -> torch.Tensor:
    """int64[M]: where the tokens of all replies are in [N, T], reply by reply."""
    sizes = np.array([row.tail for row in packed])
    starts = np.arange(len(packed)) * tail
    return torch.from_numpy(np.repeat(starts, sizes) + places_within(sizes))


def _attention_mask(
    part: torch.Tensor, places: torch.Tensor, depth: torch.Tensor
) -> torch.Tensor:
    """bool[N, 1, L, L]: whether a position (row) attends to another (column).

    The positions of a part see the same columns, up to their own. So the columns are compared once
    for each part, and each position copies the line of its part.
    """
    num_rows, length = part.shape
    num_parts = int(part.max()) + 2  # padding is part -1
    part_depth = depth.new_zeros(num_rows, num_parts)
    part_depth.scatter_(1, part + 1, depth)
    is_same = (
        part[:, None] == torch.arange(-1, num_parts - 1, device=part.device)[:, None]
    )
    in_prompt = (part == 0)[:, None] & (places[:, None] < part_depth[..., None])
    visible = (is_same | in_prompt) & (part >= 0)[:, None]  # [N, parts, L]
    first_part = torch.arange(num_rows, device=part.device)[:, None] * num_parts
    lines = (first_part + part + 1).flatten()
    sees = visible.flatten(0, 1).index_select(0, lines).view(num_rows, length, length)
    sees.tril_()
    # Padding attends to itself, because a softmax over no position is NaN.
    sees.diagonal(dim1=1, dim2=2).fill_(True)
    return sees[:, None]


def joined_replies(
    scores: Sequence[torch.Tensor], chunks: Sequence[Sequence[PackedRow]], width: int
) -> torch.Tensor:
    """[B, width]: the scores of the replies of all rows of a batch; 0 behind their ends.

    One `cat` and one scatter: a tensor of its own for each reply would make the backward pass
    quadratic, as the gradient of a slice is as large as the whole.

    Args:
        scores: [N, T] of each chunk, such as log-probabilities.
        chunks: the packed rows of each; together they hold all rows of the batch.
        width: columns of replies.
    """
    cells: list[torch.Tensor] = []
    num_rows = sum(len(row.rows) for chunk in chunks for row in chunk)
    for of_chunk, chunk in zip(scores, chunks, strict=True):
        rows = np.array([i for row in chunk for i in row.rows])
        sizes = np.array([len(b) - 1 for row in chunk for b in row.branches])
        # padding goes to a cell behind all others
        cell = torch.full((of_chunk.numel(),), num_rows * width)
        cell[_label_cells(chunk, of_chunk.shape[1])] = torch.from_numpy(
            np.repeat(rows * width, sizes) + places_within(sizes)
        )
        cells.append(cell)
    values = torch.cat([of_chunk.flatten() for of_chunk in scores])
    replies = values.new_zeros(num_rows * width + 1)
    replies = replies.scatter(0, torch.cat(cells).to(values.device), values)
    return replies[:-1].view(num_rows, width)


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
