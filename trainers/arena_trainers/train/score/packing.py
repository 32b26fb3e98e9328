"""Rows that share a prompt are packed into one, and equal rows run once.

A packed row holds a prompt without its last token, followed by one branch per reply: the last token of
the reply's prompt, and the reply without its last token. See docs/trainer.md.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

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

    It needs an attention that accepts_argument such a mask, and positions. Attention to all earlier
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
    prompts = attention_mask[:, :start].sum(dim=1).clamp(min=1).tolist()
    replies = attention_mask[:, start:].sum(dim=1).clamp(min=1).tolist()
    packed: list[PackedRow] = []
    open_row: dict[bytes, PackedRow] = {}
    lengths = sorted({size - 1 for size in prompts})
    ids = input_ids.cpu()
    order = list(range(len(ids)))
    if share:  # the longest first, as shorter ones are beginnings of it
        order.sort(key=lambda i: -prompts[i])
    for i in order:
        prompt = ids[i, start - prompts[i] : start - 1]
        keys = _beginnings(prompt, lengths) if share else [b"%d" % i]
        row = open_row.get(keys[-1])
        room = min(len(row.prompt), max_tokens - len(row.prompt)) if row else 0
        if row is None or row.tail + replies[i] > room:
            row = PackedRow([], prompt, [], [])
            packed.append(row)
            open_row.update(dict.fromkeys(keys, row))
        row.rows.append(i)
        row.branches.append(ids[i, start - 1 : start + replies[i]])
        row.depths.append(len(prompt))
    return sorted(packed, key=lambda row: min(row.rows))


def _beginnings(prompt: torch.Tensor, lengths: Sequence[int]) -> list[bytes]:
    """A key of each beginning of a prompt that has one of the lengths, its own the last."""
    digest, keys, start = hashlib.blake2b(digest_size=16), [], 0
    for length in lengths[: bisect_right(lengths, len(prompt))]:
        digest.update(prompt[start:length].numpy().tobytes())
        keys.append(digest.digest())
        start = length
    return keys


def model_inputs(packed: list[PackedRow]) -> dict[str, torch.Tensor]:
    """The arguments of a forward pass over packed rows, on the CPU.

    Returns:
        `input_ids` int64[N, L], with prompts on the left of a common column and branches on
        its right; `shift_labels` int64[N, T], the next tokens of the last T positions;
        `attention_mask`; and `position_ids`, which begin behind the padding.
    """
    head = max(len(row.prompt) for row in packed)
    tail = max(row.tail for row in packed)
    ids = torch.zeros(len(packed), head + tail, dtype=torch.long)
    labels = torch.full((len(packed), tail), IGNORED)
    branch_of = torch.full_like(ids, -1)  # -1 padding, 0 the prompt, k the branch k
    position_ids = torch.zeros_like(ids)
    depth = torch.full_like(ids, head)  # positions of the prompt that are seen
    for n, row in enumerate(packed):
        length = len(row.prompt)
        ids[n, head - length : head] = row.prompt
        branch_of[n, head - length : head] = 0
        position_ids[n, head - length : head] = torch.arange(length)
        start = head
        for k, (branch, branch_depth) in enumerate(
            zip(row.branches, row.depths, strict=True), 1
        ):
            end = start + len(branch) - 1
            ids[n, start:end] = branch[:-1]
            labels[n, start - head : end - head] = branch[1:]
            branch_of[n, start:end] = k
            position_ids[n, start:end] = branch_depth + torch.arange(end - start)
            depth[n, start:end] = branch_depth
            start = end
    is_packed = any(len(row.branches) > 1 for row in packed)
    return {
        "input_ids": ids,
        "shift_labels": labels,
        "attention_mask": _attention_mask(branch_of, position_ids, depth)
        if is_packed
        else (branch_of >= 0).long(),
        "position_ids": position_ids,
    }


def _attention_mask(
    part: torch.Tensor, places: torch.Tensor, depth: torch.Tensor
) -> torch.Tensor:
    """bool[N, 1, L, L]: whether a position (row) attends to another (column)."""
    length = part.shape[1]
    earlier = torch.ones(length, length, dtype=torch.bool).tril()
    to, of = part[:, None, :], part[:, :, None]
    prompt = (to == 0) & (places[:, None, :] < depth[:, :, None])
    sees = earlier & (prompt | (to == of)) & (to >= 0)
    # Padding attends to itself, because a softmax over no position is NaN.
    return (sees | torch.eye(length, dtype=torch.bool))[:, None]


def unpacked(
    scores: Sequence[torch.Tensor], packed: list[PackedRow]
) -> dict[int, list[torch.Tensor]]:
    """The scores of each reply, cut out of the scores of packed rows.

    Args:
        scores: [N, T] each, such as log-probabilities and entropies.
        packed: the N rows.

    Returns:
        For each row of the batch, its part of each of the scores, [R].
    """
    reply_scores = {}
    for n, row in enumerate(packed):
        start = 0
        for i, branch in zip(row.rows, row.branches, strict=True):
            span = slice(start, start + len(branch) - 1)
            reply_scores[i] = [of_token[n, span] for of_token in scores]
            start = span.stop
    return reply_scores


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
